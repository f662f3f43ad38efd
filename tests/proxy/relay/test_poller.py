"""Flows under a poller: no wake-up is lost, errors and cancellations end where they belong, nobody starves."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from proxy.relay.leg import CHECKPOINT_BYTES, Leg
from proxy.relay.poller import LINGER_SECONDS, Poller, by_task, open_poller, park

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.relay.poller import Flow, Trap


@contextmanager
def attached(poller: Poller) -> Iterator[tuple[Leg, socket.socket]]:
    """(a leg that the poller wakes, its peer's end)."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    with peer, ours:
        leg = Leg(ours)
        poller.attach(leg)
        yield leg, peer
        poller.detach(leg)


async def receive(leg: Leg, size: int) -> bytes:
    buffer = bytearray(size)
    with memoryview(buffer) as view:
        received = await leg.receive_into(view)
    return bytes(buffer[:received])


async def settle(seconds: float = 3 * LINGER_SECONDS) -> None:
    """The kernel's readiness is real, so is the time it takes."""
    await trio.sleep(seconds)


async def test_what_comes_is_received_and_what_the_flow_returns_is_returned(poller: Poller) -> None:
    with attached(poller) as (leg, peer), trio.fail_after(5):
        peer.sendall(b"one")
        assert await poller.drive(receive(leg, 10)) == b"one"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, peer.sendall, b"two")
            assert await poller.drive(receive(leg, 10)) == b"two"


async def test_what_came_while_nobody_waited_is_not_missed(poller: Poller) -> None:
    """Edge-triggered: the kernel tells once, whether or not somebody listens."""
    with attached(poller) as (leg, peer), trio.fail_after(5):
        peer.sendall(b"a")
        assert await poller.drive(receive(leg, 10)) == b"a"  # a short read: the leg counts as drained
        assert not leg.reading.ready
        peer.sendall(b"b")
        await settle()
        assert leg.reading.ready
        assert await poller.drive(receive(leg, 10)) == b"b"


async def test_an_end_that_was_announced_with_the_last_data_is_seen(poller: Poller) -> None:
    with attached(poller) as (leg, peer), trio.fail_after(5):
        peer.sendall(b"last words")
        peer.shutdown(socket.SHUT_WR)
        await settle()

        async def read_all() -> list[bytes]:
            return [await receive(leg, 100), await receive(leg, 100)]

        assert await poller.drive(read_all()) == [b"last words", b""]


async def test_a_reset_is_an_error_of_the_flow_that_meets_it(poller: Poller) -> None:
    with attached(poller) as (leg, peer), trio.fail_after(5):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        with pytest.raises(ConnectionResetError):
            await poller.drive(receive(leg, 10))


async def test_a_peer_that_does_not_read_is_waited_for(poller: Poller) -> None:
    data = os.urandom(8 * CHECKPOINT_BYTES)

    def read_all(peer: socket.socket) -> bytes:
        with peer.makefile("rb") as stream:
            return stream.read(len(data))

    with attached(poller) as (leg, peer), trio.fail_after(20):
        read: list[bytes] = []

        async def reader() -> None:
            await settle(0.05)
            read.append(await trio.to_thread.run_sync(read_all, peer))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(reader)
            await poller.drive(leg.send_all(data))
    assert read == [data]


async def test_both_directions_of_a_leg_wait_at_once(poller: Poller) -> None:
    """A full send buffer must not keep what arrives from being read."""
    with attached(poller) as (leg, peer), trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(poller.drive, leg.send_all(bytes(8 * CHECKPOINT_BYTES)))
            while leg.writing.flow is None:
                await settle()
            peer.sendall(b"hello")
            assert await poller.drive(receive(leg, 10)) == b"hello"
            nursery.cancel_scope.cancel()


async def test_an_errand_runs_in_the_flows_own_task(poller: Poller) -> None:
    ran = []

    async def errand() -> str:
        await trio.sleep(0.001)
        ran.append(trio.lowlevel.current_task())
        return "done"

    async def flow() -> str:
        return await by_task(errand)

    with trio.fail_after(5):
        assert await poller.drive(flow()) == "done"
    assert ran == [trio.lowlevel.current_task()]


async def test_an_errands_error_is_raised_where_it_was_asked_for(poller: Poller) -> None:
    async def errand() -> None:
        await trio.lowlevel.checkpoint()
        raise KeyError("errand")

    async def flow() -> str:
        try:
            await by_task(errand)
        except KeyError:
            return "caught"
        return "missed"

    assert await poller.drive(flow()) == "caught"


@pytest.mark.parametrize("waits_by_trio", [False, True])
async def test_a_cancelled_task_ends_its_flow(poller: Poller, *, waits_by_trio: bool) -> None:
    ended = []

    async def flow(leg: Leg) -> None:
        try:
            await (by_task(trio.sleep_forever) if waits_by_trio else receive(leg, 1))
        finally:
            ended.append(True)

    with attached(poller) as (leg, peer):
        with trio.move_on_after(0.01) as scope:
            await poller.drive(flow(leg))
        assert scope.cancelled_caught
        assert ended == [True]
        peer.sendall(b"too late")
        await settle()
        assert await poller.drive(receive(leg, 100)) == b"too late"


async def test_a_flow_that_moves_much_lets_others_go_on(poller: Poller) -> None:
    """Two flows that never have to wait for the kernel take turns."""
    order = []
    both = trio.Event()

    async def flow(leg: Leg, name: str) -> None:
        await by_task(both.wait)
        for _ in range(20):
            order.append(name)
            if leg.moves(CHECKPOINT_BYTES):
                await leg.turn()

    with attached(poller) as (one, _), attached(poller) as (other, _), trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(poller.drive, flow(one, "one"))
            nursery.start_soon(poller.drive, flow(other, "other"))
            await settle()
            both.set()
    assert order[8:24].count("one") == order[8:24].count("other") == 8


async def test_flows_that_are_woken_together_may_all_ask_for_a_turn(poller: Poller) -> None:
    """Two legs become ready at once, and what they move is enough for a turn each."""

    async def drain(leg: Leg, size: int) -> int:
        buffer = bytearray(CHECKPOINT_BYTES)
        received = 0
        with memoryview(buffer) as view:
            while received < size:
                received += await leg.receive_into(view)
        return received

    size = 16 * CHECKPOINT_BYTES
    with attached(poller) as (one, first), attached(poller) as (other, second), trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            for leg, peer in ((one, first), (other, second)):
                nursery.start_soon(poller.drive, drain(leg, size))
                nursery.start_soon(trio.to_thread.run_sync, peer.sendall, bytes(size))


async def test_trio_goes_on_while_flows_are_busy(poller: Poller) -> None:
    """A ping-pong that never pauses does not keep a timer from firing."""

    async def echo(leg: Leg) -> None:
        while data := await receive(leg, 100):
            await leg.send_all(data)

    def ping(peer: socket.socket, stop: list[bool]) -> int:
        rounds = 0
        while not stop:
            peer.sendall(b"ping")
            assert peer.recv(100) == b"ping"
            rounds += 1
        return rounds

    with attached(poller) as (leg, peer), trio.fail_after(10):
        stop: list[bool] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(poller.drive, echo(leg))

            async def stop_later() -> None:
                await trio.sleep(0.1)
                stop.append(True)

            nursery.start_soon(stop_later)
            assert await trio.to_thread.run_sync(ping, peer, stop) > 10
            nursery.cancel_scope.cancel()


async def test_a_trap_that_fails_costs_its_flow_alone(poller: Poller) -> None:
    def fails(_: Flow) -> None:
        raise ZeroDivisionError("in a trap")

    with attached(poller) as (leg, peer), trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            found = []

            async def other() -> None:
                found.append(await poller.drive(receive(leg, 10)))

            nursery.start_soon(other)
            with pytest.raises(ZeroDivisionError):
                await poller.drive(park_by(fails))
            peer.sendall(b"hello")
    assert found == [b"hello"]


async def park_by(trap: Trap) -> None:
    await park(trap)


@pytest.mark.parametrize("loses_epoll", [False, True])
async def test_an_error_of_the_poller_itself_costs_nobody_a_wake_up(
    *, loses_epoll: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event that was lost with it is looked for again."""
    told: list[BaseException] = []
    async with open_poller(told.append) as poller:
        assert poller is not None
        real = poller._poll

        def fails_once() -> bool:
            monkeypatch.setattr(poller, "_poll", real)
            poller._epoll.close() if loses_epoll else poller._epoll.poll(0)
            raise RuntimeError("in the poller")

        with attached(poller) as (leg, peer), trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                found = []

                async def waits() -> None:
                    found.append(await poller.drive(receive(leg, 10)))
                    found.append(await poller.drive(receive(leg, 10)))

                nursery.start_soon(waits)
                await settle()
                monkeypatch.setattr(poller, "_poll", fails_once)
                peer.sendall(b"hello")
                while not found:
                    await settle()
                peer.sendall(b"again")
            assert found == [b"hello", b"again"]
    assert [str(error) for error in told] == ["in the poller"]

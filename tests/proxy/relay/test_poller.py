"""Directions under a poller: no wake-up is lost, what goes wrong ends where it belongs, nobody starves."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import ExitStack, contextmanager
from time import perf_counter, sleep
from typing import TYPE_CHECKING

import pytest
import trio

from proxy.relay.poller import LINGER_SECONDS, LITTLE_SECONDS, TURN_SECONDS, CpuAccount, Poller, open_poller
from proxy.relay.transport import PlainSocket, Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.relay.direction import Direction

LIMIT_SECONDS = 30
"""Against a test that hangs."""


class Echo:
    """Both a connection and its one direction: sends back what it reads, at most `most` bytes a turn."""

    def __init__(self, poller: Poller, sock: socket.socket, *, most: int = 1 << 30, spin_seconds: float = 0.0) -> None:
        self.transport = PlainSocket(sock)
        self.cpu = CpuAccount(perf_counter())
        self.wants = Wait.READ
        self.errors: list[Exception] = []
        self.allowed: list[float] = []
        """Seconds of each turn."""
        self.advanced: Callable[[], None] = lambda: None
        self.turns = self.passed = 0
        self._poller, self._most, self._spin_seconds = poller, most, spin_seconds
        self._fetches = b""
        poller.attach(self, self.transport, reads=self.direction, writes=self.direction)

    @property
    def direction(self) -> Direction:
        return self  # type: ignore[return-value]

    def advance(self, _: Direction, turn_ends: float) -> None:
        self.allowed.append(turn_ends - perf_counter())
        self.turns += 1
        self.advanced()
        ends = perf_counter() + self._spin_seconds
        while perf_counter() < ends:
            pass
        self.wants = self._go_on()
        if self.wants is Wait.TURN:
            self._poller.later(self, self.direction)

    def _go_on(self) -> Wait:
        room, buffer = self._most, bytearray(65536)
        while True:
            while self._fetches:
                sent = self.transport.send(self._fetches)
                self._fetches = self._fetches[sent:]
                if not sent:
                    return Wait.WRITE
            if room <= 0:
                return Wait.TURN
            received = self.transport.receive_into(memoryview(buffer)[: min(room, 65536)])
            if received <= 0:
                return Wait.READ if received else Wait.END
            room -= received
            self.passed += received
            self._fetches = bytes(buffer[:received])

    def lost(self, error: Exception) -> None:
        self.errors.append(error)


@contextmanager
def echo(poller: Poller, *, most: int = 1 << 30, spin_seconds: float = 0.0) -> Iterator[tuple[Echo, socket.socket]]:
    """(an echo that the poller wakes, its peer)."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    with peer, ours:
        peer.settimeout(LIMIT_SECONDS)
        made = Echo(poller, ours, most=most, spin_seconds=spin_seconds)
        yield made, peer
        poller.detach(made.transport)


async def ask(peer: socket.socket, data: bytes) -> bytes:
    """What comes back."""

    def in_flight() -> bytes:
        peer.sendall(data)
        received = bytearray()
        while len(received) < len(data):
            received += peer.recv(1 << 20)
        return bytes(received)

    return await trio.to_thread.run_sync(in_flight)


async def settle(seconds: float = 3 * LINGER_SECONDS) -> None:
    """The kernel's readiness is real, so is the time it takes."""
    await trio.sleep(seconds)


async def test_what_came_before_and_after_is_not_missed(poller: Poller) -> None:
    """Edge-triggered: the kernel tells once, whether or not somebody listens."""
    with echo(poller) as (_, peer), trio.fail_after(LIMIT_SECONDS):
        for word in (b"one", b"two", b"three"):
            assert await ask(peer, word) == word
            await settle()


async def test_what_was_told_to_somebody_who_wanted_something_else_is_remembered(poller: Poller) -> None:
    with echo(poller) as (each, peer), trio.fail_after(LIMIT_SECONDS):
        await settle()
        each.wants, each.transport.readable = Wait.HELD, False
        peer.sendall(b"held")
        await settle()
        assert each.passed == 0
        assert each.transport.readable
        poller.later(each, each.direction)
        assert await trio.to_thread.run_sync(peer.recv, 100) == b"held"


async def test_an_end_that_was_announced_with_the_last_data_is_seen(poller: Poller) -> None:
    with echo(poller) as (each, peer), trio.fail_after(LIMIT_SECONDS):
        peer.sendall(b"last words")
        peer.shutdown(socket.SHUT_WR)
        while each.wants is not Wait.END:
            await settle()
        assert each.passed == len(b"last words")


async def test_a_peer_that_does_not_read_is_waited_for(poller: Poller) -> None:
    data = os.urandom(8 << 20)
    with echo(poller) as (each, peer), trio.fail_after(LIMIT_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, peer.sendall, data)
            while each.wants is not Wait.WRITE:
                await settle()
            received = bytearray()
            while len(received) < len(data):
                received += await trio.to_thread.run_sync(peer.recv, 1 << 20)
    assert received == data


async def test_a_reset_wakes_whoever_waits(poller: Poller) -> None:
    class Broken(Echo):
        def advance(self, direction: Direction, turn_ends: float) -> None:
            try:
                super().advance(direction, turn_ends)
            except ConnectionResetError as error:
                self.lost(error)
                self.wants = Wait.END

    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    with ours, trio.fail_after(LIMIT_SECONDS):
        each = Broken(poller, ours)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        while not each.errors:
            await settle()
        poller.detach(each.transport)


async def test_turns_are_taken_one_after_the_other(poller: Poller) -> None:
    """Two that never have to wait for the kernel: neither is far ahead of the other."""
    size = 1 << 20
    with (
        echo(poller, most=1000) as (one, first),
        echo(poller, most=1000) as (other, second),
        trio.fail_after(LIMIT_SECONDS),
    ):
        async with trio.open_nursery() as nursery:
            for peer in (first, second):
                nursery.start_soon(ask, peer, bytes(size))
        assert one.passed == other.passed == size
        assert min(one.turns, other.turns) > size // 1000


async def test_who_has_had_little_goes_before_who_has_had_much(poller: Poller) -> None:
    """Each turn of the greedy one takes a third of a millisecond, and it is never through."""
    with (
        echo(poller, most=100, spin_seconds=TURN_SECONDS / 3) as (greedy, loud),
        echo(poller) as (easy, quiet),
        trio.fail_after(LIMIT_SECONDS),
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, loud, bytes(30_000))
            while greedy.turns < 30:
                await settle()
            before, asked = greedy.turns, 10
            for _ in range(asked):
                assert await ask(quiet, b"easy") == b"easy"
                await trio.sleep(0.002)
            assert easy.passed == 4 * asked
            assert greedy.turns > before  # and nobody is refused
            nursery.cancel_scope.cancel()


async def test_trio_goes_on_while_directions_are_busy(poller: Poller) -> None:
    """A ping-pong that never pauses does not keep a timer from firing."""

    def ping(peer: socket.socket, stop: list[bool]) -> int:
        rounds = 0
        while not stop:
            peer.sendall(b"ping")
            assert peer.recv(100) == b"ping"
            rounds += 1
        return rounds

    with echo(poller) as (_, peer), trio.fail_after(LIMIT_SECONDS):
        stop: list[bool] = []
        async with trio.open_nursery() as nursery:

            async def stop_later() -> None:
                await trio.sleep(0.1)
                stop.append(True)

            nursery.start_soon(stop_later)
            assert await trio.to_thread.run_sync(ping, peer, stop) > 10


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

        with echo(poller) as (each, peer), trio.fail_after(LIMIT_SECONDS):
            await settle()
            monkeypatch.setattr(poller, "_poll", fails_once)
            assert await ask(peer, b"hello") == b"hello"
            assert await ask(peer, b"again") == b"again"
            assert each.errors == []
    assert [str(error) for error in told] == ["in the poller"]


async def test_where_no_epoll_is_to_be_had_those_who_wait_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise OSError("too many open files")

    async with open_poller() as poller:
        assert poller is not None
        with echo(poller) as (each, _), trio.fail_after(LIMIT_SECONDS):
            await settle()
            monkeypatch.setattr("proxy.relay.poller.select.epoll", refused)
            poller._renew(RuntimeError("in the poller"))
            assert [str(error) for error in each.errors] == ["in the poller"]


@pytest.mark.parametrize("loses_epoll", [False, True])
async def test_what_the_kernel_watches_no_more_is_detached_all_the_same(
    *, loses_epoll: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with open_poller() as poller:
        assert poller is not None
        with echo(poller) as (each, _):
            if loses_epoll:
                poller._epoll.close()
                monkeypatch.setattr("proxy.relay.poller.select.epoll", refused)
            else:
                monkeypatch.setattr(poller, "_register", refused)
            poller._renew(RuntimeError("in the poller"))
            assert len(each.errors) == 1
            poller.detach(each.transport)
            assert poller._ends == {}


async def test_who_was_easy_before_goes_before_those_that_have_just_come(poller: Poller) -> None:
    """Thirty that come at once, each with a turn's work, and one that has been here for long: all are told at once."""
    with ExitStack() as stack, trio.fail_after(LIMIT_SECONDS):
        known, peer = stack.enter_context(echo(poller))
        known.cpu = CpuAccount(perf_counter() - 1)
        newcomers = [stack.enter_context(echo(poller, spin_seconds=TURN_SECONDS)) for _ in range(30)]
        await settle()
        before: list[int] = []
        known.advanced = lambda: before.append(sum(each.turns for each, _ in newcomers))
        for each, other in newcomers:
            each.cpu = CpuAccount(perf_counter())
            other.sendall(b"x")
        peer.sendall(b"x")
        while not before or sum(each.turns for each, _ in newcomers) < len(newcomers):
            await settle()
        assert before[0] < 5


async def test_in_line_who_has_had_least_goes_first(poller: Poller) -> None:
    """A follower in sync that takes more than an free share waited behind everybody who came before it."""
    with ExitStack() as stack, trio.fail_after(LIMIT_SECONDS):
        greedy = [stack.enter_context(echo(poller, spin_seconds=TURN_SECONDS))[0] for _ in range(30)]
        modest, _ = stack.enter_context(echo(poller))
        await settle()
        before = len(greedy)
        modest.advanced = lambda: before_it.append(sum(each.turns for each in greedy) - before)
        before_it: list[int] = []
        before, now = sum(each.turns for each in greedy), perf_counter()
        for each in greedy:
            each.cpu = CpuAccount(now - 10)
            each.cpu.used(now, now, 0.02)
            poller.later(each, each.direction)
        modest.cpu = CpuAccount(now - 10)
        modest.cpu.used(now, now, 0.01)
        poller.later(modest, modest.direction)
        while not before_it:
            await settle()
        assert before_it[0] == 0


async def test_where_many_have_much_to_do_each_has_a_little(poller: Poller) -> None:
    """Thirty that were easy so far may not each have a whole turn in one go."""
    with ExitStack() as stack, trio.fail_after(LIMIT_SECONDS):
        easy = [stack.enter_context(echo(poller, spin_seconds=TURN_SECONDS)) for _ in range(30)]
        await settle()
        for each, _ in easy:
            each.cpu = CpuAccount(perf_counter() - 1)
            each.allowed.clear()
        for _, peer in easy:
            peer.sendall(b"x")
        while sum(len(each.allowed) for each, _ in easy) < len(easy):
            await settle()
        assert sum(each.allowed[0] > LITTLE_SECONDS for each, _ in easy) <= 2


async def test_time_that_others_had_the_core_for_is_not_held_against_a_connection(poller: Poller) -> None:
    with echo(poller) as (each, peer), trio.fail_after(LIMIT_SECONDS):
        each.cpu = CpuAccount(perf_counter() - 1)
        each.advanced = lambda: sleep(0.05)
        await ask(peer, b"x")
        await settle()
        assert each.turns >= 1
        assert each.cpu.debt(perf_counter()) < 0.01


async def test_an_error_between_two_rounds_is_told_and_survived() -> None:
    told: list[BaseException] = []
    async with open_poller(told.append) as poller:
        assert poller is not None
        with echo(poller, most=1) as (each, peer), trio.fail_after(LIMIT_SECONDS):
            serve = poller._serve_line
            poller._serve_line = lambda _: 1 / 0
            poller.later(each, each.direction)
            while not told:
                await settle()
            poller._serve_line = serve
            assert await ask(peer, b"goes on") == b"goes on"
    assert isinstance(told[0], ZeroDivisionError)


async def test_who_cannot_be_looked_at_again_after_an_error_is_told(poller: Poller) -> None:
    """Its wake-up may have been lost with the error, and the kernel would not repeat it."""
    with echo(poller) as (each, _):
        poller._epoll.unregister(each.transport.fileno())
        poller._look_again(RuntimeError("in the poller"))
        assert [type(error) for error in each.errors] == [FileNotFoundError]

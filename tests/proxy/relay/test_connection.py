"""However a connection ends, it ends once, tells why, closes both sockets, and gives back what it had reserved.

`relayed` checks that for each of these on its way out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from typing import TYPE_CHECKING

import psutil
import pytest
import trio
import trio.testing

from admission.budget_path import BudgetPath
from protocol.wire.framing import with_length
from proxy.changes import Changes
from proxy.config.settings import Address
from proxy.relay.connection import Draining, relay
from proxy.relay.poller import Poller
from proxy.relay.transport import PlainSocket
from tests.proxy.conversation import MIB, quotas, throttle
from tests.proxy.recorded_log import RecordedLog

from .wire import (
    T0,
    T1,
    Wire,
    answer,
    batch,
    entry,
    limits,
    parsed,
    read_all,
    read_exactly,
    read_frame,
    relayed,
    reserved_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.testing import MockClock

TWO = {T0: 0, T1: 0}
METADATA = with_length(bytes.fromhex("0003 0001 0000007b ffff") + b"metadata")
RELEASE_SECONDS = 0.25
"""A change takes effect within this time (the design's promise); mock time, so it is really none."""


async def meet(wire: Wire) -> None:
    await wire.in_flight(TWO, answer([entry(0), entry(1)]))


async def hold(wire: Wire) -> None:
    """Bring about a request that waits: both partitions are behind, the quota is 0."""
    await meet(wire)
    await wire.ask(TWO)
    while not wire.throttle.statistics.held_requests:
        await trio.testing.wait_all_tasks_blocked()
        await trio.lowlevel.checkpoint()


def reset(stream: trio.SocketStream) -> None:
    """Close so that the peer sees an error, not an end."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


async def test_nobody_listens(clock: MockClock) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        ours, theirs = socket.socketpair()
        of, log = throttle(), RecordedLog()
        with ours:
            await relay(
                PlainSocket(theirs),
                Address("127.0.0.1", taken.getsockname()[1]),
                peer="102",
                throttle=of,
                limits=limits(),
                changes=Changes(),
                draining=Draining(),
                poller=None,
                log=log,
            )
            assert ours.recv(1) == b""
    assert [(line["event"], line["cause"], line["level"]) for line in log.lines] == [
        ("connection_closed", "connect_failed", "warning")
    ]
    assert of.statistics.connections == 0
    assert not of.links


async def test_a_connection_that_the_kernel_does_not_watch_was_made_all_the_same(
    clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where fs.epoll.max_user_watches is used up, its leader was said not to be reached."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Poller, "_register", refuse)
    async with relayed() as wire:
        await wire.finished.wait()
    assert (wire.ending["cause"], wire.ending["level"]) == ("internal_error", "error")
    assert "OSError: [Errno 28] No space left on device" in wire.ending["error"]


async def leader_dies_in_a_frame(wire: Wire) -> None:
    await wire.leader.send_all(with_length(answer([entry(0, batch(90_000))]))[:50_000])
    await read_exactly(wire.follower, 1000)
    await wire.leader.aclose()


async def leader_dies_in_a_header(wire: Wire) -> None:
    await wire.leader.send_all(with_length(answer([entry(0)]))[:9])
    await wire.leader.aclose()


async def leader_closes(wire: Wire) -> None:
    await wire.leader.aclose()


async def leader_resets(wire: Wire) -> None:
    reset(wire.leader)


async def follower_dies_in_a_response(wire: Wire) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_until_broken, wire.leader, with_length(answer([entry(0, batch(32 * MIB))])))
        await read_exactly(wire.follower, 1000)
        await wire.follower.aclose()


async def follower_closes_in_a_frame(wire: Wire) -> None:
    await wire.follower.send_all(METADATA[:-3])
    await wire.follower.aclose()


async def follower_closes_in_a_fetch(wire: Wire) -> None:
    await wire.follower.send_all(bytes.fromhex("00000100 0001 0003 00000009 ffff 00000066"))
    await wire.follower.aclose()


async def send_until_broken(stream: trio.SocketStream, data: bytes) -> None:
    with pytest.raises(trio.BrokenResourceError):
        await stream.send_all(data)


ENDINGS: dict[str, tuple[Callable[[Wire], object], set[str]]] = {
    "leader dies in a frame": (leader_dies_in_a_frame, {"leader_closed"}),
    "leader dies in a header": (leader_dies_in_a_header, {"leader_closed"}),
    "leader closes": (leader_closes, {"leader_closed"}),
    "leader resets": (leader_resets, {"connection_broken"}),
    "follower dies in a response": (follower_dies_in_a_response, {"follower_closed", "connection_broken"}),
    "follower closes in a frame": (follower_closes_in_a_frame, {"follower_closed"}),
    "follower closes in a fetch": (follower_closes_in_a_fetch, {"follower_closed"}),
}


@pytest.mark.parametrize("name", ENDINGS)
async def test_a_grant_in_flight_is_given_back(name: str, clock: MockClock) -> None:
    end, causes = ENDINGS[name]
    of = throttle()
    async with relayed(of) as wire:
        await meet(wire)
        await wire.ask(TWO)
        await wire.asked()
        assert reserved_bytes(of) > 0
        await end(wire)
        await wire.finished.wait()
    assert wire.ending["cause"] in causes
    assert wire.ending["replica_fetches"] >= 2


async def test_a_follower_that_has_finished_sending_gets_what_it_is_owed(clock: MockClock) -> None:
    async with relayed() as wire:
        await meet(wire)
        await wire.ask(TWO)
        await wire.follower.send_all(METADATA)
        await wire.follower.send_eof()
        await wire.asked()
        await wire.asked()
        assert await wire.leader.receive_some(1) == b""
        await wire.leader.send_all(with_length(answer([entry(0, batch(100))])))
        assert len(parsed(await read_frame(wire.follower))) == 2
        await wire.leader.aclose()
        assert await read_all(wire.follower) == b""
    assert wire.ending["cause"] == "follower_closed"


async def test_a_leader_that_closes_ends_a_hold(clock: MockClock) -> None:
    async with relayed(throttle(0)) as wire:
        await hold(wire)
        began = trio.current_time()
        await wire.leader.aclose()
        await wire.finished.wait()
        assert trio.current_time() - began < RELEASE_SECONDS
    assert wire.ending["cause"] == "leader_closed"


async def test_a_follower_that_goes_away_while_held_is_noticed_at_its_deadline(clock: MockClock) -> None:
    async with relayed(throttle(0)) as wire:
        await hold(wire)
        await wire.follower.aclose()
        await wire.finished.wait()
        assert trio.current_time() <= 0.6
    assert wire.ending["cause"] in ("follower_closed", "connection_broken")


async def test_an_error_of_our_own_costs_one_connection(clock: MockClock) -> None:
    """Not the sidecar: every other connection of the process is in the same nursery."""

    class Broken(Changes):
        async def wait(self) -> None:
            await trio.lowlevel.checkpoint()
            raise RuntimeError("bug")

    async with relayed(throttle(0), changes=Broken()) as wire:
        await meet(wire)
        await wire.ask(TWO)
        await wire.finished.wait()
    assert wire.ending["cause"] == "internal_error"
    assert wire.ending["level"] == "error"
    assert "bug" in wire.ending["error"]


async def test_a_drain_closes_what_is_idle_at_once(clock: MockClock) -> None:
    async with relayed() as wire:
        await meet(wire)
        wire.draining.begun.set()
        await wire.finished.wait()
        assert trio.current_time() == 0
    assert wire.ending["cause"] == "drained"


async def test_a_drain_lets_a_response_in_flight_finish(clock: MockClock) -> None:
    async with relayed() as wire:
        await meet(wire)
        await wire.ask(TWO)
        await wire.asked()
        wire.draining.begun.set()
        frame = with_length(answer([entry(0, batch(300_000))]))
        await wire.leader.send_all(frame[:1000])
        await trio.sleep(3)
        assert not wire.finished.is_set()
        await wire.leader.send_all(frame[1000:])
        assert parsed(await read_frame(wire.follower))[0][3] == 300_000
        assert await read_all(wire.follower) == b""
        assert trio.current_time() == 3
    assert wire.ending["cause"] == "drained"


async def test_a_drain_answers_what_is_held_at_once(clock: MockClock) -> None:
    async with relayed(throttle(0)) as wire:
        await hold(wire)
        wire.draining.begun.set()
        assert len(parsed(await read_frame(wire.follower))) == 2
        assert await read_all(wire.follower) == b""
        assert trio.current_time() == 0
    assert wire.ending["cause"] == "drained"


async def test_a_drain_takes_nothing_from_the_future_of_the_budget(clock: MockClock) -> None:
    """Ending a hold early is not a licence to fetch: what it would have been granted later belongs to later."""
    of = throttle(MIB)
    async with relayed(of) as wire:
        await meet(wire)
        BudgetPath(of.budget).settle(reserved=1, used=2 * MIB // 5, now=0.0)
        await hold_again(wire)
        before = BudgetPath(of.budget).seconds_until_turn(0.0)
        wire.draining.begun.set()
        assert [size for *_, size in parsed(await read_frame(wire.follower))] == [0, 0]
        assert BudgetPath(of.budget).seconds_until_turn(0.0) == before


async def hold_again(wire: Wire) -> None:
    await wire.ask(TWO)
    while not wire.throttle.statistics.held_requests:
        await trio.testing.wait_all_tasks_blocked()


async def test_while_draining_nothing_is_held_any_more(clock: MockClock) -> None:
    """The request came after the drain had begun, while another answer was still due."""
    of = throttle(0)
    async with relayed(of) as wire:
        await meet(wire)
        await wire.follower.send_all(METADATA)
        await wire.asked()
        wire.draining.begun.set()
        await trio.testing.wait_all_tasks_blocked()
        await wire.ask(TWO, max_wait_ms=20_000)
        await trio.testing.wait_all_tasks_blocked()
        await wire.leader.send_all(with_length((123).to_bytes(4)))
        assert await read_frame(wire.follower) == (123).to_bytes(4)
        assert len(parsed(await read_frame(wire.follower))) == 2
        assert trio.current_time() == 0


async def test_a_busy_connection_is_drained_between_two_answers(clock: MockClock) -> None:
    async with relayed() as wire, trio.open_nursery() as nursery:

        async def lead() -> None:
            try:
                while True:
                    request = await read_exactly(wire.leader, len(METADATA))
                    await trio.sleep(0.1)
                    await wire.leader.send_all(with_length(request[8:12]))
            except trio.BrokenResourceError:
                return

        nursery.start_soon(lead)
        answers = 0
        with contextlib.suppress(trio.BrokenResourceError):
            while answers < 20:
                await wire.follower.send_all(METADATA)
                if answers == 5:
                    wire.draining.begun.set()
                if not await wire.follower.receive_some(100):
                    break
                answers += 1
        nursery.cancel_scope.cancel()
    assert answers == 6
    assert wire.ending["cause"] == "drained"


async def test_a_follower_that_does_not_read_is_not_buffered_for(clock: MockClock) -> None:
    """The kernel's buffers fill up, then the leader is not read from any more."""
    size, sent = 256 * MIB, 0
    async with relayed() as wire:
        await meet(wire)
        await wire.ask(TWO)
        await wire.asked()
        head = answer([entry(0, batch(64))])
        await wire.leader.send_all((len(head) + size).to_bytes(4) + head[:-68] + (size + 64).to_bytes(4) + head[-64:])
        with trio.move_on_after(1):
            while True:
                await wire.leader.send_all(bytes(MIB))
                sent += MIB
        assert sent < 32 * MIB
        assert wire.throttle.statistics.relayed_response_bytes < 2 * MIB


async def test_memory_does_not_grow_with_a_response(clock: MockClock) -> None:
    size = 128 * MIB
    async with relayed(throttle(1000 * MIB)) as wire:
        await meet(wire)
        await wire.ask(TWO)
        await wire.asked()
        head = answer([entry(0, batch(64))])
        before = psutil.Process().memory_info().rss
        async with trio.open_nursery() as nursery:
            start = (len(head) + size).to_bytes(4) + head[:-68] + (size + 64).to_bytes(4) + head[-64:]
            nursery.start_soon(send_zeros, wire.leader, start, size)
            left, most = len(start) + size, before
            while left:
                left -= len(await wire.follower.receive_some(MIB))
                most = max(most, psutil.Process().memory_info().rss)
    assert most - before < 12 * MIB


async def send_zeros(stream: trio.SocketStream, start: bytes, size: int) -> None:
    await stream.send_all(start)
    for _ in range(size // MIB):
        await stream.send_all(bytes(MIB))


async def test_a_header_without_an_end_is_not_collected(clock: MockClock) -> None:
    """Tagged fields may claim 4 GiB. What does not fit the window is no header, and passes."""
    tags = bytes.fromhex("01 00 ffffffff0f")
    start = bytes.fromhex("7f000000 0003 000c 00000009 ffff") + tags
    total = 8 * MIB
    async with relayed() as wire, trio.open_nursery() as nursery:
        nursery.start_soon(send_zeros, wire.follower, start, total)
        assert len(await read_exactly(wire.leader, total // 2)) == total // 2
        await read_exactly(wire.leader, total // 2 + len(start))


async def test_a_transactional_id_without_an_end_is_not_collected(clock: MockClock) -> None:
    start = bytes.fromhex("7f000000 0000 0009 00000009 ffff 00 ffffffff0f")
    total = 8 * MIB
    async with relayed() as wire, trio.open_nursery() as nursery:
        nursery.start_soon(send_zeros, wire.follower, start, total)
        assert len(await read_exactly(wire.leader, total // 2)) == total // 2
        await read_exactly(wire.leader, total // 2 + len(start))


async def test_what_tls_moves_is_counted_while_it_moves(clock: MockClock) -> None:
    """Such connections last for weeks."""
    hello = bytes.fromhex("1603010100") + bytes(256)
    async with relayed() as wire:
        await wire.follower.send_all(hello)
        await read_exactly(wire.leader, len(hello))
        await wire.leader.send_all(hello)
        await read_exactly(wire.follower, len(hello))
        statistics = wire.throttle.statistics
        assert (statistics.relayed_request_bytes, statistics.relayed_response_bytes) == (len(hello), len(hello))


@pytest.mark.parametrize("rate", [0.0, 4.0 * MIB])
async def test_quotas_that_change_all_the_time_lose_nothing(rate: float, clock: MockClock) -> None:
    """Between every two steps of a conversation: the requests and answers stay in order and complete."""
    of = throttle(rate)
    async with relayed(of) as wire, trio.open_nursery() as nursery:

        async def change() -> None:
            for turn in range(10**6):
                of.apply(quotas([rate, 100.0 * MIB, 65536.0][turn % 3], enforce=turn % 5 > 0), trio.current_time())
                wire.changes.notify()
                await trio.testing.wait_all_tasks_blocked()

        async def lead() -> None:
            from protocol.fetch.request import parse_fetch_request

            while True:
                request = parse_fetch_request(await wire.asked())
                entries = [entry(e.partition, batch(30_000)) for e in request.entries]
                await wire.leader.send_all(with_length(answer(entries)))

        nursery.start_soon(change)
        nursery.start_soon(lead)
        offsets = dict(TWO)
        for _ in range(150):
            await wire.ask(offsets)
            got = parsed(await read_frame(wire.follower))
            assert sorted(key for key, *_ in got) == [T0, T1]
            for key, _, high, size in got:
                assert high == 1_000_000
                assert size in (0, 30_000)
                offsets[key] += size // 1000
        nursery.cancel_scope.cancel()

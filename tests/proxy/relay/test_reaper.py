"""Who stalls or is idle for too long is ended, with a cause; what is not used is given back; memory has a bound."""

from __future__ import annotations

import contextlib
import socket
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from protocol.wire.framing import with_length
from proxy.quotas import Quotas
from proxy.relay.in_flight import Buffers
from proxy.relay.reaper import REST_SECONDS, Reaper
from tests.proxy.conversation import MIB, behind, fetch_frame, throttle
from tests.proxy.recorded_log import RecordedLog

from .test_fast_path import window_of
from .test_passing import PRODUCE, fetch
from .wire import T0, answer, entry, limits, read_all, read_exactly, read_frame, relayed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

    from proxy.throttle.role_throttle import RoleThrottle

    from .wire import Wire

PASSED = with_length(struct.pack(">hhih", 3, 1, 7, 3) + b"abc" + bytes(500))
LARGE = fetch()[:4].replace(b"\0\0\0`", (60_000).to_bytes(4)) + fetch()[4:]
"""A Fetch of 60 000 bytes, of which a hundred have come."""


@asynccontextmanager
async def tended(
    *, held: int = 64 * MIB, of: RoleThrottle | None = None, by_trio: bool = False
) -> AsyncIterator[tuple[Wire, Reaper]]:
    of = of or throttle()
    log = RecordedLog()
    reaper = Reaper(limits(frame_timeout_seconds=5, idle_timeout_seconds=12), Buffers(held), (of,), log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reaper.run)
        async with relayed(of, reaper=reaper, by_trio=by_trio) as wire:
            yield wire, reaper
        nursery.cancel_scope.cancel()
    assert reaper.buffers.held == 0
    assert not reaper._tended


@pytest.mark.parametrize("sent", [LARGE, fetch()[:9]], ids=["its body", "its header"])
async def test_half_a_request_is_waited_for_so_long(sent: bytes, clock: MockClock) -> None:
    async with tended() as (wire, _):
        await wire.ask({T0: 5})
        await wire.asked()
        await wire.follower.send_all(sent)
        began = trio.current_time()
        assert await read_all(wire.follower) == b""
        assert 5 <= trio.current_time() - began <= 8
    assert wire.ending["cause"] == "frame_timeout"
    assert wire.throttle.statistics.ended == {"frame_timeout": 1}


async def test_bytes_now_and_then_do_not_make_it_longer(clock: MockClock) -> None:
    async with tended() as (wire, _):
        began = trio.current_time()
        await wire.follower.send_all(LARGE)
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while not wire.finished.is_set():
                await trio.sleep(1)
                await wire.follower.send_all(b"x")
        assert trio.current_time() - began <= 8
        assert wire.ending["cause"] == "frame_timeout"


async def test_half_a_request_that_is_not_held_may_take_as_long_as_it_likes(clock: MockClock) -> None:
    async with tended() as (wire, _):
        await wire.follower.send_all(PASSED[:200])
        await trio.sleep(9)
        await wire.follower.send_all(PASSED[200:])
        assert await read_exactly(wire.leader, len(PASSED)) == PASSED


@pytest.mark.parametrize("has_quotas", [True, False])
@pytest.mark.parametrize("cut", [9, 12, 30, -10])
async def test_a_request_that_came_in_two_pieces_is_over_when_all_of_it_has_come(
    cut: int, has_quotas: bool, clock: MockClock
) -> None:
    """Its connection was ended half a minute later, among requests that were answered."""
    of, told = throttle(), answer([entry(0, high_watermark=5)])
    if not has_quotas:
        of.apply(Quotas(), 0.0)
    async with tended(of=of) as (wire, reaper):
        await wire.in_flight({T0: 5}, told)
        asks = with_length(fetch_frame({T0: 5}))
        await wire.follower.send_all(asks[:cut])
        await trio.sleep(0.5)
        await wire.follower.send_all(asks[cut:])
        await wire.asked()
        await wire.leader.send_all(with_length(told))
        await read_frame(wire.follower)
        assert reaper.buffers.held == 0
        for _ in range(4):
            await trio.sleep(3)
            await wire.in_flight({T0: 5}, told)
        await wire.follower.aclose()
    assert wire.ending["cause"] == "follower_closed"


FLOOD = with_length(struct.pack(">hhih", 0, 3, 7, 3) + b"abc" + bytes(30 * MIB))
"""A Produce that no socket's buffers hold."""


@pytest.mark.parametrize(("sent", "by_trio"), [(fetch(), False), (fetch(), True), (PRODUCE * 1200, False)])
async def test_a_follower_that_has_left_is_not_kept_by_a_leader_that_hangs(
    sent: bytes, clock: MockClock, *, by_trio: bool
) -> None:
    """A hundred descriptors were held until `idle_timeout`, a quarter of an hour, for followers that had given up. 1200
    requests are more than may be in flight: without epoll nobody sees an end behind those that are not read."""
    async with tended(by_trio=by_trio) as (wire, _):
        await wire.follower.send_all(sent)
        await read_exactly(wire.leader, 4)
        began = trio.current_time()
        await wire.follower.send_eof()
        await wire.finished.wait()
        assert 5 <= trio.current_time() - began <= 8
        assert wire.ending["cause"] == "follower_closed"
        assert wire.throttle.statistics.ended == {"follower_closed": 1}


async def test_nor_by_one_that_reads_no_more(clock: MockClock) -> None:
    async with tended() as (wire, _), trio.open_nursery() as nursery:

        async def send() -> None:
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await wire.follower.send_all(FLOOD)

        nursery.start_soon(send)
        await read_exactly(wire.leader, 4)
        await trio.sleep(1)
        wire.follower.socket.shutdown(socket.SHUT_WR)
        began = trio.current_time()
        await wire.finished.wait()
        assert trio.current_time() - began <= 8
        assert wire.ending["cause"] == "follower_closed"


async def test_a_follower_that_has_left_and_is_still_answered_gets_its_answers(clock: MockClock) -> None:
    async with tended() as (wire, _):
        await wire.ask({T0: 5})
        await wire.asked()
        await wire.follower.send_eof()
        await trio.sleep(3)
        told = with_length(answer([entry(0)]))
        await wire.leader.send_all(told)
        assert await read_exactly(wire.follower, len(told)) == told


async def test_an_idle_connection_is_ended_and_one_that_moves_is_not(clock: MockClock) -> None:
    async with tended() as (wire, _):
        for _ in range(3):
            await trio.sleep(9)
            await wire.follower.send_all(PRODUCE)
            await read_exactly(wire.leader, len(PRODUCE))
        began = trio.current_time()
        assert await read_all(wire.follower) == b""
        assert 12 <= trio.current_time() - began <= 15
    assert wire.ending["cause"] == "idle"


async def test_what_finds_no_room_passes_as_it_is(clock: MockClock) -> None:
    """A hundred peers that send half of a large Fetch hold what one may hold, not a hundred times as much."""
    async with tended(held=50_000) as (wire, reaper):
        await wire.ask({T0: 5})
        await wire.asked()
        await wire.follower.send_all(LARGE)
        assert await read_exactly(wire.leader, len(LARGE)) == LARGE
        assert reaper.buffers.held == 0
        await wire.follower.send_all(bytes(60_004 - len(LARGE)))
        await read_exactly(wire.leader, 60_004 - len(LARGE))
    assert wire.throttle.statistics.undecoded == {"memory": 1}


async def test_memory_gives_way_step_by_step() -> None:
    conversation, log, resident = behind(), RecordedLog(), [0]
    of, buffers = conversation.throttle, Buffers()
    reaper = Reaper(
        limits(max_memory_bytes=1000), buffers, (of,), log, resident=lambda: resident[0], container=lambda: 0
    )
    states = []
    for resident[0] in (100, 899, 900, 949, 950, 2000, 900, 10):
        reaper.look_at_memory()
        states.append((reaper.stops_accepting, buffers.is_memory_short))
        assert of.remembered.is_memory_short == buffers.is_memory_short
        assert buffers.reserve(1) is not buffers.is_memory_short
    stops, full = zip(*states, strict=True)
    assert stops == (False, False, True, True, True, True, True, False)
    assert full == (False, False, False, False, True, True, False, False)
    assert log.events == ["memory_short"] * 3 + ["memory_sufficient"]


def test_a_container_that_allows_less_counts() -> None:
    resident = [300 * MIB]
    reaper = Reaper(
        limits(max_memory_bytes=1024 * MIB), Buffers(), (), RecordedLog(),
        resident=lambda: resident[0], container=lambda: 512 * MIB,
    )  # fmt: skip
    reaper.look_at_memory()
    assert not reaper.stops_accepting
    resident[0] = 420 * MIB
    reaper.look_at_memory()
    assert reaper.stops_accepting


def test_memory_without_a_limit_is_enough() -> None:
    reaper = Reaper(limits(max_memory_bytes=0), Buffers(), (), RecordedLog(), resident=lambda: 1 << 50)
    reaper.look_at_memory()
    assert not reaper.stops_accepting


async def test_an_empty_buffer_gives_its_pages_back() -> None:
    window = window_of(b"")
    window.buffer[:] = b"x" * window.capacity
    window.start = window.end = 5
    window.rest()
    assert window.buffer[:] == bytes(window.capacity)
    window.buffer[:4] = b"kept"
    window.start, window.end = 0, 4
    window.rest()
    assert window.buffer[:4] == b"kept"


def test_who_rests_is_not_idle_yet() -> None:
    assert limits().idle_timeout_seconds > REST_SECONDS

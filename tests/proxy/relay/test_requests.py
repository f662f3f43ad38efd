"""Holds: when they end, what comes out of them, and that nothing overtakes anything."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from protocol.fetch.request import parse_fetch_request
from protocol.wire.framing import with_length
from proxy.quotas import Quotas, RoleQuota
from proxy.quotas.replicas import Partitions
from proxy.relay.fetch_handling import FetchHandler
from tests.proxy.conversation import MIB, fetch_frame, quotas, throttle

from .wire import T0, T1, Wire, answer, batch, entry, parsed, read_exactly, read_frame, relayed

if TYPE_CHECKING:
    from trio.testing import MockClock

    from protocol.work_in_steps import Steps
    from proxy.relay.direction import Step

TWO = {T0: 0, T1: 0}
HIGH = 1_000_000
METADATA = with_length(bytes.fromhex("0003 0001 0000007b ffff") + b"metadata")


async def hold(wire: Wire) -> None:
    await wire.in_flight(TWO, answer([entry(0), entry(1)]))
    await wire.ask(TWO)
    while not wire.throttle.statistics.held_requests:
        await trio.testing.wait_all_tasks_blocked()
        await trio.lowlevel.checkpoint()


def change(wire: Wire, to: Quotas) -> None:
    wire.throttle.apply(to, trio.current_time())
    wire.changes.notify()


async def test_a_hold_ends_at_max_wait_ms_with_a_complete_answer(clock: MockClock) -> None:
    async with relayed(throttle(0)) as wire:
        await hold(wire)
        assert parsed(await read_frame(wire.follower)) == [(T0, 0, HIGH, 0), (T1, 0, HIGH, 0)]
        assert trio.current_time() == pytest.approx(0.5)
        assert wire.throttle.statistics.hold_seconds.sum == pytest.approx(0.5)
        assert wire.throttle.statistics.local_answers == 1
    assert wire.ending["held_seconds"] == pytest.approx(0.5)


async def test_the_answer_of_a_held_request_waits_for_those_before_it(clock: MockClock) -> None:
    """The request came while another was in flight: its answer is ready first, and comes second."""
    async with relayed(throttle(0)) as wire:
        await wire.in_flight(TWO, answer([entry(0), entry(1)]))
        await wire.follower.send_all(METADATA)
        await wire.asked()
        await wire.ask(TWO)
        with trio.move_on_after(2) as early:
            await wire.follower.receive_some(1)
        assert early.cancelled_caught
        await wire.leader.send_all(with_length((123).to_bytes(4) + b"first"))
        assert await read_frame(wire.follower) == (123).to_bytes(4) + b"first"
        assert [key for key, *_ in parsed(await read_frame(wire.follower))] == [T0, T1]


@pytest.mark.parametrize(
    ("to", "frame"),
    [
        pytest.param(quotas(math.inf), None, id="unlimited"),
        pytest.param(quotas(0, enforce=False), None, id="observe only"),
        pytest.param(Quotas(), None, id="nothing is throttled any more"),
        pytest.param(quotas(1000 * MIB), "later", id="a higher quota"),
    ],
)
async def test_a_change_ends_a_hold_at_once(to: Quotas, frame: str | None, clock: MockClock) -> None:
    async with relayed(throttle(0)) as wire:
        await hold(wire)
        await trio.sleep(0.2)
        change(wire, to)
        request = await wire.asked()
        assert trio.current_time() < 0.45
        if frame is None:
            assert request == fetch_frame(TWO)
        else:
            assert [e.partition for e in parse_fetch_request(request).entries] == [0, 1]


async def test_one_partition_is_no_longer_throttled(clock: MockClock) -> None:
    """It goes on, the other is answered from what was forwarded, in one response."""
    only_t0 = RoleQuota(0.0, topics={"t": Partitions(frozenset({0}))})
    async with relayed(throttle(0)) as wire:
        await hold(wire)
        change(wire, Quotas(leader=only_t0, follower=only_t0))
        assert [e.partition for e in parse_fetch_request(await wire.asked()).entries] == [1]
        await wire.leader.send_all(with_length(answer([entry(1, batch(60_000))])))
        assert parsed(await read_frame(wire.follower)) == [(T1, 0, HIGH, 60_000), (T0, 0, HIGH, 0)]


async def test_a_lower_quota_keeps_holding_until_the_same_deadline(clock: MockClock) -> None:
    async with relayed(throttle(0)) as wire:
        await hold(wire)
        for _ in range(4):
            await trio.sleep(0.1)
            change(wire, quotas(0))
        await read_frame(wire.follower)
        assert trio.current_time() == pytest.approx(0.5)
        assert wire.throttle.statistics.hold_seconds.sum == pytest.approx(0.5)


async def test_while_one_request_is_held_the_next_is_not_read(clock: MockClock) -> None:
    """Back-pressure, and order: what the follower pipelines stays in the kernel."""
    async with relayed(throttle(0)) as wire:
        await hold(wire)
        await wire.follower.send_all(METADATA)
        with trio.move_on_after(0.4) as early:
            await wire.leader.receive_some(1)
        assert early.cancelled_caught
        await read_frame(wire.follower)
        assert await wire.asked() == METADATA[4:]


async def test_the_gate_opens_exactly_when_it_should(clock: MockClock) -> None:
    """A gate of 4 MiB/s is 0.1 s; it starts with one, which the first fetch takes."""
    async with relayed(throttle(4 * MIB)) as wire:
        await wire.in_flight(TWO, answer([entry(0), entry(1)]))
        asked = []
        for _ in range(5):
            await wire.ask(TWO)
            request = parse_fetch_request(await wire.asked())
            asked.append((round(trio.current_time(), 3), [e.partition for e in request.entries]))
            size = request.entries[0].partition_max_bytes - 18
            await wire.leader.send_all(with_length(answer([entry(asked[-1][1][0], batch(size))])))
            await read_frame(wire.follower)
        assert asked == [(0.0, [0]), (0.1, [1]), (0.2, [0]), (0.3, [1]), (0.4, [0])]


async def test_too_large_to_be_read_passes_and_is_counted(clock: MockClock) -> None:
    offsets = {("t", p): 0 for p in range(200)}
    async with relayed(throttle(0), max_request_bytes=1000) as wire:
        for _ in range(2):
            frame = fetch_frame(offsets)
            request, _ = await wire.in_flight(offsets, answer([entry(0, batch(70))]))
            assert request == frame
        assert wire.throttle.statistics.undecoded == {"request_too_large": 2}
    assert wire.log.events == ["passed_undecoded", "connection_closed"]


async def test_a_kafka_frame_without_a_readable_header_is_counted(clock: MockClock) -> None:
    """A client id that is not UTF-8, in the middle of a conversation: no SASL token, and not throttled either."""
    frame = with_length(bytes.fromhex("0001 0003 0000007b 0002 ff fe") + bytes(40))
    async with relayed(throttle(0)) as wire:
        await wire.in_flight(TWO, answer([entry(0), entry(1)]))
        await wire.follower.send_all(frame)
        assert await wire.asked() == frame[4:]
        assert wire.throttle.statistics.undecoded == {"malformed_request": 1}


@pytest.mark.parametrize("idle", [False, True])
async def test_versions_that_cannot_be_read_are_counted_if_they_could_be_throttled(
    idle: bool, clock: MockClock
) -> None:
    frame = with_length(bytes.fromhex("0001 0013 00000007 ffff 00000066") + bytes(40))
    of = throttle(0)
    if idle:
        of.apply(Quotas(), 0.0)
    async with relayed(of) as wire:
        await wire.follower.send_all(frame)
        assert await wire.asked() == frame[4:]
        assert wire.throttle.statistics.undecoded == ({} if idle else {"unsupported_version": 1})


async def test_a_sessionless_consumer_of_a_new_version_is_not_counted(clock: MockClock) -> None:
    frame = with_length(bytes.fromhex("0001 000b 00000007 ffff ffffffff") + bytes(40))
    async with relayed(throttle(0)) as wire:
        await wire.follower.send_all(frame)
        assert await wire.asked() == frame[4:]
        assert not wire.throttle.statistics.undecoded


async def test_once_answers_cannot_be_told_apart_requests_pass_as_they_come(clock: MockClock) -> None:
    """What is decided about a request, its answer must complete."""
    garbage = b"\x80\0\0\0garbage"
    async with relayed(throttle(0)) as wire:
        await wire.in_flight(TWO, answer([entry(0), entry(1)]))
        await wire.leader.send_all(garbage)
        assert await read_exactly(wire.follower, len(garbage)) == garbage
        for _ in range(2):
            await wire.ask(TWO)
            assert await wire.asked() == fetch_frame(TWO)
        assert wire.throttle.statistics.omitted_partitions == 0
        assert wire.throttle.statistics.held_requests == 0


async def test_a_held_request_that_is_due_waits_for_an_answer_that_stalls(
    clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was looked at 7000 times a second until the answer before it went on."""
    looks, decide = 0, FetchHandler.decide

    def counted(self: FetchHandler, work: Steps[Step], total: int) -> Step:
        nonlocal looks
        looks += 1
        assert looks < 100
        return decide(self, work, total)

    monkeypatch.setattr(FetchHandler, "decide", counted)
    many = {("t", partition): 0 for partition in range(100)}
    async with relayed(throttle(100)) as wire:
        await wire.in_flight(many, answer([entry(partition) for partition in range(100)]))
        await wire.ask(many)
        await wire.asked()
        await wire.ask(many, max_wait_ms=200)
        await trio.sleep(0.1)
        assert wire.throttle.statistics.held_requests == 1
        told = with_length(answer([entry(0, batch(60_000))] + [entry(n) for n in range(1, 100)]))
        await wire.leader.send_all(told[:3000])
        await trio.sleep(1)
        await wire.leader.send_all(told[3000:])
        assert (T0, 0, HIGH, 60_000) in parsed(await read_frame(wire.follower))
        assert {records for *_, records in parsed(await read_frame(wire.follower))} == {0}

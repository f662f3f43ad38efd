"""The gather path: records that are over quota by the time they arrive are replaced by a length of 0, nothing else."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.budget import Kip73Budget
from admission.budget_path import BudgetPath
from protocol.wire.framing import with_length
from proxy.changes import Changes
from proxy.config.settings import Policy
from proxy.relay.in_flight import InFlightRequests
from proxy.relay.response_edits import Additions, ResponseBuffer
from proxy.throttle.decision import Forward
from tests.proxy.conversation import MIB, behind, quotas, throttle
from tests.proxy.recorded_log import RecordedLog

from .test_responses import ENTRY_BYTES, meet, send_split
from .wire import (
    Key,
    Wire,
    answer,
    batch,
    entry,
    limits,
    parsed,
    patient_clock,
    read_exactly,
    read_frame,
    relayed,
    reserved_bytes,
)

HIGH = 1_000_000
BEHIND, ALSO_BEHIND, IN_SYNC, BROKEN = ("t", 0), ("t", 1), ("t", 2), ("t", 3)
OFFSETS = {BEHIND: 0, ALSO_BEHIND: 0, IN_SYNC: HIGH, BROKEN: 0}


async def ask_then_lower(wire: Wire, *, version: int = 3) -> None:
    """Everything is granted at 400 MiB/s; before the answer comes, the quota falls to 64 KiB/s."""
    await meet(wire, OFFSETS, version=version)
    await wire.ask(OFFSETS, version=version)
    await wire.asked()
    lower(wire, 65536)


def lower(wire: Wire, bytes_per_second: float) -> None:
    """Some time after the request was decided."""
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)
    clock.jump(0.001)
    wire.throttle.apply(quotas(bytes_per_second, enforce=wire.throttle.enforce), trio.current_time())


def response(version: int, size: int = 100_000) -> bytes:
    aborted = [(5, 6)] if version >= 4 else None
    entries = [
        entry(0, batch(size), high_watermark=HIGH + 5, aborted=aborted),
        entry(1, None),
        entry(2, batch(70), high_watermark=HIGH + 1),
        entry(3, b"", error=6, high_watermark=-1),
    ]
    return answer({"t": entries, "u": [entry(9, batch(33))]}, version=version)


EXPECTED = [(BEHIND, 0, HIGH + 5, 0), (ALSO_BEHIND, 0, HIGH, -1), (IN_SYNC, 0, HIGH + 1, 70), (BROKEN, 6, -1, 0)]


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("size", [70, 100_000, 900_000])
async def test_only_records_over_quota_are_emptied(version: int, size: int, clock: trio.testing.MockClock) -> None:
    of = throttle(400 * MIB)
    async with relayed(of) as wire:
        await ask_then_lower(wire, version=version)
        frame = response(version, size)
        await wire.leader.send_all(with_length(frame))
        received = await read_frame(wire.follower)
        assert parsed(received, version=version) == [*EXPECTED, (("u", 9), 0, HIGH, 33)]
        emptied = batch(size)
        at = frame.index(emptied)
        assert received == frame[: at - 4] + bytes(4) + frame[at + size :]
        assert of.statistics.substituted_partitions == 1
        assert of.statistics.withheld_bytes == size
        await trio.testing.wait_all_tasks_blocked()
        assert reserved_bytes(of) == 0
        assert of.statistics.throttled_bytes_catching_up == 0
        assert of.statistics.throttled_bytes_in_sync == 70 + ENTRY_BYTES[version]


@given(cuts=st.lists(st.integers(1, 101_000), max_size=8), version=st.integers(0, 6))
@settings(max_examples=25)
def test_in_any_pieces(cuts: list[int], version: int) -> None:
    trio.run(in_pieces, cuts, version, clock=patient_clock())


async def in_pieces(cuts: list[int], version: int, size: int = 100_000) -> None:
    async with relayed(throttle(400 * MIB)) as wire:
        await ask_then_lower(wire, version=version)
        data = with_length(response(version, size))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_split, wire.leader, data, sorted({cut for cut in cuts if cut < len(data)}))
            received = await read_frame(wire.follower)
        assert parsed(received, version=version)[:4] == EXPECTED


@pytest.mark.parametrize("version", [0, 3, 6])
def test_every_single_cut(version: int) -> None:
    async def scenario() -> None:
        for cut in range(1, len(response(version, 20)) + 4):
            await in_pieces([cut], version, 20)

    trio.run(scenario, clock=patient_clock())


@pytest.mark.parametrize("version", [1, 4, 5])
def test_one_byte_at_a_time(version: int) -> None:
    trio.run(in_pieces, list(range(1, 400)), version, 20, clock=patient_clock())


async def test_what_was_emptied_comes_again(clock: trio.testing.MockClock) -> None:
    """The offset did not move: once the gate opens the same records are asked for and come."""
    async with relayed(throttle(400 * MIB)) as wire:
        await ask_then_lower(wire)
        await wire.leader.send_all(with_length(response(3)))
        await read_frame(wire.follower)
        await wire.ask({BEHIND: 0})
        await wire.asked()
        await wire.leader.send_all(with_length(answer([entry(0, batch(60_000))])))
        assert parsed(await read_frame(wire.follower)) == [(BEHIND, 0, HIGH, 60_000)]


async def test_replays_and_emptied_records_in_one_response(clock: trio.testing.MockClock) -> None:
    async with relayed() as wire:
        offsets: dict[Key, int] = {("t", p): 0 for p in range(3)}
        await meet(wire, offsets)
        await wire.ask(offsets)
        await wire.asked()  # of the first only: the others are omitted at 4 MiB/s
        lower(wire, 1000)
        await wire.leader.send_all(with_length(answer([entry(0, batch(400_000))])))
        received = parsed(await read_frame(wire.follower))
        assert received == [(("t", p), 0, HIGH, 0) for p in range(3)]
        assert wire.throttle.statistics.substituted_partitions == 1


async def test_a_small_debt_is_no_reason_to_discard(clock: trio.testing.MockClock) -> None:
    """Strict: what was paid for by the old quota passes, unless it would freeze the new one for long."""
    async with relayed() as wire:
        await meet(wire, {BEHIND: 0})
        await wire.ask({BEHIND: 0})
        await wire.asked()
        lower(wire, 3 * MIB)
        frame = answer([entry(0, batch(400_000))])
        await wire.leader.send_all(with_length(frame))
        assert await read_frame(wire.follower) == frame


async def test_larger_than_the_limit_passes_and_is_counted(clock: trio.testing.MockClock) -> None:
    of = throttle(400 * MIB)
    async with relayed(of, max_substitution_bytes=50_000) as wire:
        await ask_then_lower(wire)
        frame = response(3)
        await wire.leader.send_all(with_length(frame))
        assert await read_frame(wire.follower) == frame
        assert of.statistics.undecoded == {"response_too_large": 1}
        assert of.statistics.substituted_partitions == 0
        assert of.statistics.throttled_bytes_catching_up == 100_018
    assert wire.log.events == ["passed_undecoded", "connection_closed"]


async def test_kip73_discards_what_arrives_over_quota(clock: trio.testing.MockClock) -> None:
    """Two fetches are admitted before either is recorded; the broker evaluates again when it answers, so do we."""
    of = throttle(MIB, policy=Policy.KIP73)
    async with relayed(of) as wire:
        await meet(wire, {BEHIND: 0, IN_SYNC: HIGH})
        await wire.ask({BEHIND: 0, IN_SYNC: HIGH})
        await wire.asked()
        of.rate.record(1, trio.current_time())
        BudgetPath(of.budget).settle(reserved=0, used=2 * MIB, now=trio.current_time())
        await wire.leader.send_all(with_length(answer([entry(0, batch(5000)), entry(2, batch(70))])))
        assert parsed(await read_frame(wire.follower)) == [(BEHIND, 0, HIGH, 0), (IN_SYNC, 0, HIGH, 70)]


@pytest.mark.parametrize("beside", [pytest.param(0, id="nothing"), pytest.param(20_000, id="other records")])
async def test_kip73_counts_an_answer_that_has_begun(beside: int, clock: trio.testing.MockClock) -> None:
    """Two fetches are admitted at once. When the second answer begins, half of the first one has come: the quota is
    used up by all of it, as it is at a leader, which records an answer before it sends it. What has begun goes on."""
    of, beside_it = throttle(300 * 1024, policy=Policy.KIP73), throttle(300 * 1024, policy=Policy.KIP73)
    beside_it.tree = of.tree
    first_offsets = {BEHIND: 0, IN_SYNC: HIGH}
    first_answer = answer([entry(0, batch(MIB)), entry(2, batch(beside) if beside else b"")])
    async with relayed(of) as first, relayed(beside_it) as second:
        await meet(first, first_offsets)
        await meet(second, {ALSO_BEHIND: 0})
        await first.ask(first_offsets)
        await second.ask({ALSO_BEHIND: 0})
        await first.asked()
        await second.asked()
        head, rest = with_length(first_answer)[: MIB // 2], with_length(first_answer)[MIB // 2 :]
        await first.leader.send_all(head)
        assert await read_exactly(first.follower, len(head)) == head
        await second.leader.send_all(with_length(answer([entry(1, batch(5000))])))
        assert parsed(await read_frame(second.follower)) == [(ALSO_BEHIND, 0, HIGH, 0)]
        await first.leader.send_all(rest)
        assert await read_exactly(first.follower, len(rest)) == rest
        passed = of.statistics.throttled_bytes_catching_up, of.statistics.throttled_bytes_in_sync
        assert passed == (MIB + ENTRY_BYTES[3], beside + ENTRY_BYTES[3] if beside else 0)
        assert isinstance(of.budget, Kip73Budget)
        assert of.budget._charged.measure(trio.current_time()) == sum(passed)  # once, within the first second


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(response(3)[:-1], id="torn"),
        pytest.param(response(3) + b"?", id="trailing"),
        pytest.param(response(3)[:8] + b"\x7f\xff\xff\xff", id="topic count"),
        pytest.param(response(3)[:-37] + b"\x7f\xff\xff\xff" + bytes(33), id="records length"),
    ],
)
async def test_malformed_ends_the_connection(bad: bytes, clock: trio.testing.MockClock) -> None:
    async with relayed(throttle(400 * MIB)) as wire:
        await ask_then_lower(wire)
        await wire.leader.send_all(with_length(bad))
        assert await wire.follower.receive_some(1) == b""
    assert wire.ending["cause"] == "malformed_frame"


async def test_a_leader_that_dies_meanwhile(clock: trio.testing.MockClock) -> None:
    async with relayed(throttle(400 * MIB)) as wire:
        await ask_then_lower(wire)
        await wire.leader.send_all(with_length(response(3))[:5000])
        await wire.leader.aclose()
        assert await wire.follower.receive_some(1) == b""
    assert wire.ending["cause"] == "leader_closed"


async def test_observing_discards_nothing(clock: trio.testing.MockClock) -> None:
    async with relayed(throttle(enforce=False)) as wire:
        await meet(wire, OFFSETS)
        await wire.ask(OFFSETS)
        await wire.asked()
        lower(wire, 1000)
        frame = response(3)
        await wire.leader.send_all(with_length(frame))
        assert await read_frame(wire.follower) == frame


def test_what_was_kept_is_not_kept_after_its_answer() -> None:
    """Up to 16 MiB of each connection stayed in memory, and counted nowhere."""
    follower = behind()
    kept_answer = ResponseBuffer(InFlightRequests(follower.link, Changes(), RecordedLog()), limits(), Additions())
    decision = follower.ask()
    assert isinstance(decision, Forward)
    assert decision.pending is not None
    assert kept_answer.begin(decision.pending, 10_000)
    kept_answer._kept += bytes(9000)
    kept_answer.end()
    assert not kept_answer._kept

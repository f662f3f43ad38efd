"""The watch path: what was omitted is appended, whatever the pieces a response comes in, and all of it is counted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.fetch.request import parse_fetch_request
from protocol.wire.framing import with_length
from proxy.roles import Role
from tests.proxy.conversation import MIB, fetch_frame, throttle

from .wire import (
    T0,
    T1,
    T2,
    Key,
    Wire,
    answer,
    batch,
    entry,
    parsed,
    patient_clock,
    read_exactly,
    read_frame,
    relayed,
    reserved_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.usefixtures("no_lingering")

THREE = {T0: 0, T1: 0, T2: 0}
ENTRY_BYTES = {0: 18, 1: 18, 2: 18, 3: 18, 4: 30, 5: 38, 6: 38}
HIGH = 1_000_000


async def meet(wire: Wire, offsets: dict[Key, int], *, version: int = 3) -> None:
    """First contact: every high watermark is learnt, no records come."""
    topics: dict[str, list[dict[str, object]]] = {}
    for topic, partition in offsets:
        topics.setdefault(topic, []).append(entry(partition))
    await wire.in_flight(offsets, answer(topics, version=version), version=version)


async def send_split(stream: trio.SocketStream, data: bytes, cuts: Sequence[int]) -> None:
    at = 0
    for cut in [*cuts, len(data)]:
        await stream.send_all(data[at:cut])
        await trio.testing.wait_all_tasks_blocked()
        at = cut


async def watched(records: bytes, cuts: Sequence[int], *, version: int = 3) -> None:
    """Three partitions behind, the first is granted: its answer comes in pieces, the other two are appended."""
    aborted = [(1, 2), (3, 4)] if version >= 4 else None
    of = throttle()
    async with relayed(of) as wire:
        await meet(wire, THREE, version=version)
        await wire.ask(THREE, version=version)
        asked = parse_fetch_request(await wire.asked())
        assert [(e.topic, e.partition) for e in asked.entries] == [T0]
        frame = answer([entry(0, records, high_watermark=HIGH + 1, aborted=aborted)], version=version)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_split, wire.leader, with_length(frame), cuts)
            received = await read_frame(wire.follower)
        got = parsed(received, version=version)
        assert got == [(T0, 0, HIGH + 1, len(records)), (T1, 0, HIGH, 0), (T2, 0, HIGH, 0)]
        count_at = 4 if version == 0 else 8
        assert received[:count_at] == frame[:count_at]
        assert received[count_at + 4 : len(frame)] == frame[count_at + 4 :]
        await trio.testing.wait_all_tasks_blocked()
        assert reserved_bytes(of) == 0
        transactions = 32 if aborted else 0
        assert of.statistics.throttled_bytes_catching_up == len(records) + ENTRY_BYTES[version] + transactions
        assert of.statistics.throttled_bytes_in_sync == 0
        assert of.statistics.omitted_partitions == 2


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("size", [100, 300_000, MIB])
async def test_whole(version: int, size: int, clock: trio.testing.MockClock) -> None:
    await watched(batch(size), [], version=version)


@pytest.mark.parametrize("version", range(7))
def test_every_single_cut(version: int) -> None:
    """Fields of every kind end somewhere in these bytes."""

    async def scenario() -> None:
        aborted = [(1, 2), (3, 4)] if version >= 4 else None
        total = len(with_length(answer([entry(0, batch(20), aborted=aborted)], version=version)))
        for cut in range(1, total):
            await watched(batch(20), [cut], version=version)

    trio.run(scenario, clock=patient_clock())


@pytest.mark.parametrize("version", [0, 3, 5])
def test_one_byte_at_a_time(version: int) -> None:
    trio.run(one_byte_at_a_time, version, clock=patient_clock())


async def one_byte_at_a_time(version: int) -> None:
    await watched(batch(20), range(1, 200), version=version)


@given(
    sizes=st.lists(st.sampled_from([0, 20, 5000, 70_000]), min_size=1, max_size=12),
    cuts=st.lists(st.integers(1, 300_000), max_size=6),
    version=st.integers(3, 6),
)
@settings(max_examples=25)
def test_many_partitions_in_any_pieces(sizes: list[int], cuts: list[int], version: int) -> None:
    """A third is unthrottled, or has an error, or no records; what is not appended stays as it was."""

    async def scenario() -> None:
        of = throttle(400 * MIB)
        offsets: dict[Key, int] = {("t", p): 0 for p in range(len(sizes))}
        async with relayed(of) as wire:
            await meet(wire, offsets, version=version)
            entries = [
                entry(p, None if size == 0 and p % 2 else batch(size) if size else b"", error=6 if p % 3 == 2 else 0)
                for p, size in enumerate(sizes)
            ]
            frame = answer(entries, version=version)
            await wire.ask(offsets, version=version)
            await wire.asked()
            at = sorted({cut for cut in cuts if cut < len(frame)})
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send_split, wire.leader, with_length(frame), at)
                assert await read_frame(wire.follower) == frame
            counted = sum(size + ENTRY_BYTES[version] for p, size in enumerate(sizes) if size and p % 3 != 2)
            await trio.testing.wait_all_tasks_blocked()
            assert of.statistics.throttled_bytes_catching_up == counted

    trio.run(scenario, clock=patient_clock())


async def test_thousands_of_partitions_of_several_topics(clock: trio.testing.MockClock) -> None:
    """Far more than the windows hold, in the request and in the response; all but one omitted."""
    topics = [f"topic-{'x' * 200}-{n}" for n in range(40)]
    offsets: dict[Key, int] = {(topic, p): 0 for topic in topics for p in range(200)}
    of = throttle()
    async with relayed(of) as wire:
        await meet(wire, offsets)
        first = next(iter(offsets))
        _, received = await wire.in_flight(offsets, answer({first[0]: [entry(first[1], batch(400_000))]}))
        got = parsed(received)
        assert sorted(key for key, *_ in got) == sorted(offsets)
        assert got[0] == (first, 0, HIGH, 400_000)
        assert all(high == HIGH and size == 0 for _, _, high, size in got[1:])
        assert of.statistics.omitted_partitions == len(offsets) - 1


@pytest.mark.parametrize("role", list(Role))
async def test_each_role_counts_as_kafka_does(role: Role, clock: trio.testing.MockClock) -> None:
    of = throttle(400 * MIB, role=role)
    async with relayed(of) as wire:
        await meet(wire, THREE)
        entries = [entry(0, batch(5000)), entry(1, b""), entry(2, batch(70))]
        await wire.in_flight(THREE, answer(entries))
        expected = 5070 if role is Role.FOLLOWER else 5070 + 2 * 18
        assert of.statistics.throttled_bytes_catching_up == expected
        assert of.rate.measure(trio.current_time()) == expected


async def test_the_log_start_offset_is_replayed_too(clock: trio.testing.MockClock) -> None:
    async with relayed() as wire:
        await meet(wire, THREE, version=5)
        _, received = await wire.in_flight(THREE, answer([entry(0, batch(420_000))], version=5), version=5)
        from protocol.fetch.tables import response_layout

        body = response_layout(5).parse(received[4:])
        starts = [found.log_start_offset for block in body.responses for found in block.partitions]
        assert starts == [3, 3, 3]


async def test_an_error_in_an_altered_response_stays(clock: trio.testing.MockClock) -> None:
    async with relayed() as wire:
        await meet(wire, THREE)
        _, received = await wire.in_flight(THREE, answer([entry(0, b"", error=6, high_watermark=-1)]))
        assert parsed(received) == [(T0, 6, -1, 0), (T1, 0, HIGH, 0), (T2, 0, HIGH, 0)]


async def test_a_topic_that_comes_twice_and_a_partition_that_comes_twice(clock: trio.testing.MockClock) -> None:
    """Kafka's PartitionStates lists topics more than once; a partition twice is nonsense that must cost nothing."""
    of = throttle()
    offsets: dict[Key, int] = {("a", 0): 0, ("b", 0): 0, ("a", 1): 0}
    async with relayed(of) as wire:
        await meet(wire, offsets)
        twice = answer({"a": [entry(0, batch(200_000)), entry(0, batch(200_000))]})
        _, received = await wire.in_flight(offsets, twice)
        assert [key for key, *_ in parsed(received)] == [("a", 0), ("a", 0), ("a", 1), ("b", 0)]
        assert of.statistics.throttled_bytes_catching_up == 2 * (200_000 + 18)


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(answer([entry(0, batch(50))])[:-1], id="torn"),
        pytest.param(answer([entry(0, batch(50))]) + b"?", id="trailing"),
        pytest.param(answer([])[:4], id="correlation id only"),
        pytest.param(answer([])[:11], id="no topic count"),
        pytest.param(answer([])[:8] + b"\x7f\xff\xff\xff", id="topic count"),
        pytest.param(answer([])[:8] + b"\xff\xff\xff\xff", id="negative topic count"),
        pytest.param(answer({"t" * 9: []})[:-4] + b"\xff\xff\xff\xfe", id="negative partition count"),
    ],
)
async def test_a_malformed_response_that_would_be_altered_ends_its_connection(
    bad: bytes, clock: trio.testing.MockClock
) -> None:
    of = throttle()
    async with relayed(of) as wire:
        await meet(wire, THREE)
        await wire.ask(THREE)
        await wire.asked()
        assert reserved_bytes(of) > 0
        await wire.leader.send_all(with_length(bad))
        with trio.fail_after(1):
            while await wire.follower.receive_some(1000):
                pass
    assert wire.ending["cause"] == "malformed_frame"
    assert wire.ending["level"] == "warning"


async def test_a_response_too_large_to_be_appended_to_ends_its_connection(clock: trio.testing.MockClock) -> None:
    async with relayed() as wire:
        await meet(wire, THREE)
        await wire.ask(THREE)
        await wire.asked()
        head = answer([entry(0, b"")])[:-4] + b"\x7f\xff\x00\x00"
        await wire.leader.send_all(b"\x7f\xff\xff\xff" + head)
        with trio.fail_after(1):
            while await wire.follower.receive_some(1000):
                pass
    assert wire.ending["cause"] == "malformed_frame"


async def test_a_malformed_response_is_counted_each_time_it_comes(clock: trio.testing.MockClock) -> None:
    """An equal answer without records is not read again, but one that cannot be read is none of these."""
    told = answer([entry(0)]) + b"!"
    async with relayed() as wire:
        for _ in range(5):
            _, got = await wire.in_flight({T0: 1_000_000}, told)
            assert got == told
        assert wire.throttle.statistics.undecoded == {"malformed_response": 5}


async def test_a_malformed_response_is_still_accounted_as_far_as_it_was_read(clock: trio.testing.MockClock) -> None:
    """One trailing byte must not be a way around the quota."""
    of = throttle(400 * MIB)
    async with relayed(of) as wire:
        await meet(wire, THREE)
        entries = [entry(0, batch(5000)), entry(1), entry(2)]
        for _ in range(2):
            await wire.in_flight(THREE, answer(entries) + b"!")
        assert of.statistics.undecoded == {"malformed_response": 2}
        assert of.statistics.throttled_bytes_catching_up == 2 * 5018
        assert [line["event"] for line in wire.log.lines] == ["passed_undecoded"]


async def test_a_response_that_overtakes_another_gives_its_grant_back(clock: trio.testing.MockClock) -> None:
    of = throttle()
    async with relayed(of) as wire:
        await meet(wire, THREE)
        await wire.ask(THREE)
        await wire.asked()
        assert reserved_bytes(of) > 0
        produce = with_length(bytes.fromhex("0003 0001 0000007b ffff") + b"metadata")
        await wire.follower.send_all(produce)
        await wire.asked()
        await wire.leader.send_all(with_length((123).to_bytes(4) + b"overtakes"))
        assert await read_frame(wire.follower) == (123).to_bytes(4) + b"overtakes"
        assert reserved_bytes(of) == 0


async def test_one_connection_for_a_consumer_and_a_replica(clock: trio.testing.MockClock) -> None:
    """Only the replica's responses are touched, in whatever order both ask."""
    async with relayed() as wire:
        await meet(wire, THREE)
        consumer = bytearray(with_length(consumer_frame()))
        await wire.ask(THREE)
        await wire.follower.send_all(consumer)
        assert len(parse_fetch_request(await wire.asked()).entries) == 1
        assert await wire.asked() == consumer[4:]
        mine = answer([entry(0, batch(64)), entry(1, batch(64))], correlation_id=99)
        await wire.leader.send_all(with_length(answer([entry(0, batch(400_000))])) + with_length(mine))
        assert len(parsed(await read_frame(wire.follower))) == 3
        assert await read_frame(wire.follower) == mine


def consumer_frame() -> bytes:
    from protocol.fetch.tables import request_layout
    from protocol.wire.headers import request_header

    head = {"api_key": 1, "api_version": 3, "correlation_id": 99, "client_id": "c"}
    body = {"replica_id": -1, "max_wait_ms": 5, "min_bytes": 1, "max_bytes": 100, "topics": []}
    return bytes(request_header(1).build(head) + request_layout(3).build(body))


async def test_an_equal_answer_teaches_again_what_was_forgotten(clock: trio.testing.MockClock) -> None:
    """Of an answer without records that is equal to the last nothing is read, as long as nothing else has changed."""
    idle, more = answer([entry(0, high_watermark=5)]), answer([entry(0, high_watermark=6)])
    async with relayed() as wire:

        async def known_after(offset: int, frame: bytes) -> tuple[int, bool]:
            assert await wire.in_flight({T0: offset}, frame) is not None
            await trio.testing.wait_all_tasks_blocked()
            (replica,) = next(iter(wire.throttle.links)).replicas.known.values()
            return replica.high_watermark, replica.replayable

        assert [await known_after(5, idle) for _ in range(3)] == [(5, True)] * 3
        assert await known_after(4, idle) == (5, True)  # it went back, so all was forgotten
        assert await known_after(4, more) == (6, True)
        assert await known_after(4, idle) == (5, True)
        await wire.in_flight({T0: 4}, answer([entry(0, error=6)]))
        assert await known_after(4, idle) == (5, True)


MANY = {("t", partition): 0 for partition in range(60)}


def many(records: int = 20_000) -> bytes:
    return answer([entry(p, batch(records + p, bytes([p]))) for _, p in MANY])


@pytest.mark.parametrize("by_trio", [False, True])
@pytest.mark.parametrize("size", [1 << 22, 300_000, 100_000, 65_536, 20_018])
async def test_many_partitions_are_looked_at_where_they_are_and_pass_as_they_came(
    size: int, clock: trio.testing.MockClock, *, by_trio: bool
) -> None:
    """Whatever of the leader's answer has come when it is looked at."""
    of, frame = throttle(math.inf), many()
    async with relayed(of, by_trio=by_trio) as wire:
        await meet(wire, MANY)
        await wire.ask(MANY)
        await wire.asked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send_split, wire.leader, with_length(frame), range(size, len(frame), size))
            assert await read_frame(wire.follower) == frame
        await trio.testing.wait_all_tasks_blocked()
        records = sum(20_000 + p + ENTRY_BYTES[3] for _, p in MANY)
        assert of.statistics.throttled_bytes_catching_up == records
        assert of.statistics.relayed_response_bytes > records
        assert await wire.in_flight(MANY, many(3000)) == (fetch_frame(MANY), many(3000))


async def test_what_cannot_be_read_among_many_partitions_passes_from_there_on(clock: trio.testing.MockClock) -> None:
    frame = bytearray(many())
    torn = frame.index(bytes([40]) * 100) - 12 - 4
    frame[torn : torn + 4] = (-7).to_bytes(4, signed=True)  # the length of partition 40's records
    async with relayed(throttle(math.inf)) as wire:
        await meet(wire, MANY)
        await wire.ask(MANY)
        await wire.asked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.leader.send_all, with_length(bytes(frame)))
            assert await read_frame(wire.follower) == frame
        await trio.testing.wait_all_tasks_blocked()
        assert wire.throttle.statistics.undecoded == {"malformed_response": 1}


async def test_a_leader_that_ends_among_many_partitions_ends_the_connection(clock: trio.testing.MockClock) -> None:
    frame = with_length(many())[:-700_000]
    async with relayed(throttle(math.inf)) as wire:
        await meet(wire, MANY)
        await wire.ask(MANY)
        await wire.asked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.leader.send_all, frame)
            assert await read_exactly(wire.follower, len(frame)) == frame
        await wire.leader.aclose()
        assert await wire.follower.receive_some(10) == b""
    assert wire.ending["cause"] == "leader_closed"

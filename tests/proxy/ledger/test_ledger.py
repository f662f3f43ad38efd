"""What a second brought: sums, sparse, each byte once, in blocks of fifteen seconds."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from journal_schema import LINE_SECONDS
from proxy.ledger.blocks import Block, LinkKey, Position, ReplicaTraffic, Seconds, Traffic, TrafficKey
from proxy.ledger.ledger import IDLE_TICKS, Ledger

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

BEHIND = TrafficKey("leader", "102", "orders", 0, throttled=True, in_sync=False)
IN_SYNC = BEHIND._replace(in_sync=True)
AT = Position(100, 900, 0)
LINK = LinkKey("leader", "102", throttled=True, in_sync=False)


def fetched(ledger: Ledger, key: TrafficKey, now: float, *, records: int = 0, at: Position = AT) -> None:
    ledger.fetched(key, at, record_bytes=records, wire_bytes=records + 18 if records else 0, now=now)


def taken(blocks: list[Block]) -> list[Traffic]:
    return [traffic for block in blocks for traffic in block.traffic_lines()]


def said(blocks: list[Traffic], key: TrafficKey = BEHIND) -> list[int]:
    """The ticks of which there is news of a key."""
    return [
        block.tick + second
        for block in blocks
        for replica in block.replicas
        if (replica.topic, replica.partition) == (key.topic, key.partition) and block.link.in_sync == key.in_sync
        for second, spoke in enumerate(replica.said)
        if spoke
    ]


def test_fifteen_seconds_are_summed_up_by_second_and_by_partition() -> None:
    ledger = Ledger(1000.25)
    fetched(ledger, BEHIND, 1000.3, records=10)
    fetched(ledger, BEHIND, 1001.3, records=5, at=Position(110, 950, 7))
    ledger.omitted(BEHIND, Position(110, 950, 7), now=1001.4)
    fetched(ledger, BEHIND._replace(partition=1), 1001.5, records=100)
    assert taken(ledger.take_finished(1015.2499)) == []
    rest = [0] * (LINE_SECONDS - 2)
    first = ReplicaTraffic(
        "orders", 0, [True, True, *[False] * (LINE_SECONDS - 2)], [10, 5, *rest], 36, 2, 1, AT, Position(110, 950, 7)
    )
    second = ReplicaTraffic(
        "orders", 1, [False, True, *[False] * (LINE_SECONDS - 2)], [0, 100, *rest], 18, 1, 0, AT, AT
    )
    sums = Seconds([10, 105, *rest], [28, 141, *rest], [1, 2, *rest], [0, 1, *rest])
    assert taken(ledger.take_finished(1015.25)) == [Traffic(0, LINK, sums, [first, second])]
    assert taken(ledger.take_finished(1099.0)) == []


def test_what_comes_later_is_in_the_second_in_which_it_came() -> None:
    """A task that is late does not lump two seconds together."""
    ledger = Ledger(0.0)
    fetched(ledger, BEHIND, 0.5, records=1)
    fetched(ledger, BEHIND, 3.5, records=2)
    fetched(ledger, BEHIND, 23.5, records=4)
    first, second = taken(ledger.cut(25.0))
    assert (first.tick, first.seconds.record_bytes) == (0, [1, 0, 0, 2, *[0] * (LINE_SECONDS - 4)])
    assert (second.tick, second.seconds.record_bytes) == (23, [4, 0, 0])


def test_what_is_in_sync_is_counted_apart() -> None:
    ledger = Ledger(0.0)
    fetched(ledger, BEHIND, 0.1, records=1)
    fetched(ledger, IN_SYNC, 0.2, records=2)
    found = {block.link.in_sync: sum(block.seconds.record_bytes) for block in taken(ledger.cut(1.0))}
    assert found == {False: 1, True: 2}


def test_a_replica_that_has_caught_up_says_so_once_then_nothing() -> None:
    ledger = Ledger(0.0)
    for second in range(25):
        fetched(ledger, IN_SYNC, second + 0.5, at=Position(900, 900, 0))
    assert said(taken(ledger.cut(30.0)), IN_SYNC) == [0]


def test_a_replica_can_say_where_it_is_without_an_entry() -> None:
    ledger = Ledger(0.0)
    fetched(ledger, BEHIND, 0.5, records=1, at=Position(899, 900, 0))
    for now in (1.5, 2.5):
        ledger.stands(IN_SYNC, Position(900, 900, 0), now=now)
    blocks = taken(ledger.cut(4.0))
    assert (said(blocks), said(blocks, IN_SYNC)) == ([0], [1])


def test_a_replica_that_stays_behind_is_heard_every_second() -> None:
    ledger = Ledger(0.0)
    for second in range(13):
        fetched(ledger, BEHIND, second + 0.5)
    assert said(taken(ledger.cut(20.0))) == list(range(13))


def test_a_block_knows_where_a_replica_stood_before_it() -> None:
    """Also when it caught up within the block, or was in the block before."""
    ledger = Ledger(0.0)
    fetched(ledger, BEHIND, 0.5, records=1, at=Position(1, 9, 0))
    fetched(ledger, BEHIND, 17.5, records=1, at=Position(5, 9, 0))
    fetched(ledger, IN_SYNC, 18.5, at=Position(9, 9, 0))
    (first,) = taken(ledger.take_finished(16.0))
    behind, in_sync = taken(ledger.cut(19.0))
    assert [(replica.before.fetch_offset, replica.position.fetch_offset) for replica in first.replicas] == [(1, 1)]
    assert [(replica.before.fetch_offset, replica.position.fetch_offset) for replica in behind.replicas] == [(1, 5)]
    assert [(replica.before.fetch_offset, replica.position.fetch_offset) for replica in in_sync.replicas] == [(5, 9)]


def test_an_idle_replica_is_forgotten_and_told_anew() -> None:
    ledger = Ledger(0.0)
    fetched(ledger, IN_SYNC, 0.5)
    fetched(ledger, IN_SYNC, 1.5)
    other = IN_SYNC._replace(topic="other")
    fetched(ledger, other, 2.0 * IDLE_TICKS)
    fetched(ledger, IN_SYNC, 2.0 * IDLE_TICKS + 1)
    assert said(taken(ledger.cut(3.0 * IDLE_TICKS)), IN_SYNC) == [0, 2 * IDLE_TICKS + 1]


def test_a_block_can_be_cut_in_the_middle_of_a_second() -> None:
    """At the end, and when the wall clock is set: what is left of the second is in the next block."""
    ledger = Ledger(0.0)
    fetched(ledger, BEHIND, 1.1, records=3)
    (first,) = taken(ledger.cut(1.2))
    fetched(ledger, BEHIND, 1.3, records=4)
    (second,) = taken(ledger.cut(1.4))
    assert (first.tick, first.seconds.record_bytes) == (0, [0, 3])
    assert (second.tick, second.seconds.record_bytes) == (1, [4])


@given(
    st.lists(
        st.tuples(
            st.sampled_from([BEHIND, IN_SYNC, BEHIND._replace(partition=1)]),
            st.integers(0, 1000),
            st.floats(0, 6),
            st.booleans(),
        )
    )
)
def test_every_byte_is_in_exactly_one_second_of_one_partition(
    reports: list[tuple[TrafficKey, int, float, bool]],
) -> None:
    ledger, now = Ledger(0.0), 0.0
    expected: Counter[tuple[TrafficKey, int]] = Counter()
    traffic: list[Traffic] = []
    for key, size, pause, takes in reports:
        now += pause
        fetched(ledger, key, now, records=size)
        expected[key, int(now)] += size
        if takes:
            traffic += taken(ledger.take_finished(now))
    traffic += taken(ledger.cut(now + 1))
    found: Counter[tuple[TrafficKey, int]] = Counter()
    for block in traffic:
        assert 1 <= len(block.seconds.record_bytes) <= LINE_SECONDS
        link, sums = block.link, [0] * len(block.seconds.record_bytes)
        for replica in block.replicas:
            key = TrafficKey(link.role, link.peer, replica.topic, replica.partition, link.throttled, link.in_sync)
            for second, size in enumerate(replica.second_bytes):
                found[key, block.tick + second] += size
                sums[second] += size
                assert replica.said[second] or not size
        assert sums == block.seconds.record_bytes
    assert +found == +expected


@given(
    st.lists(
        st.tuples(
            st.sampled_from([BEHIND, IN_SYNC]),
            st.sampled_from([0.001, 0.5, 0.999, 1.0, 14.0, 14.999]),
            st.sampled_from([Ledger.take_finished, Ledger.cut_before_this_second]),
            st.booleans(),
        )
    )
)
def test_no_two_lines_have_one_identity(
    steps: list[tuple[TrafficKey, float, Callable[[Ledger, float], list[Block]], bool]],
) -> None:
    """Wherever the wall clock is set. Readers take two such lines for one that they read twice."""
    ledger, now, reported, traffic = Ledger(0.0), 0.0, 0, list[Traffic]()
    for key, pause, hand_on, reports in steps:
        now += pause
        if reports:
            fetched(ledger, key, now, records=1)
            reported += 1
        traffic += taken(hand_on(ledger, now))
    traffic += taken(ledger.cut(now))
    assert max(Counter((each.tick, each.link) for each in traffic).values(), default=1) == 1
    assert sum(sum(each.seconds.record_bytes) for each in traffic) == reported


def test_many_replicas_come_in_the_order_of_their_names() -> None:
    """Sorted in pieces and merged, each slice of which others may have the time between."""
    ledger, pauses = Ledger(0.0), Counter[str]()
    names = [(f"topic-{n % 7}", n) for n in range(9000)]
    for topic, partition in reversed(names):
        fetched(ledger, BEHIND._replace(topic=topic, partition=partition), 0.5, records=1)

    (traffic,) = (each for block in ledger.cut(1.0) for each in block.traffic_lines(lambda: pauses.update(["pause"])))
    assert [(replica.topic, replica.partition) for replica in traffic.replicas] == sorted(names)
    assert pauses["pause"] >= 2 * 9000 // 64


def test_a_block_is_handed_out_without_being_gone_through() -> None:
    """Whoever reports traffic does not wait until 100 000 partitions are put in order."""
    ledger = Ledger(0.0)
    for n in range(1000):
        fetched(ledger, BEHIND._replace(partition=n), 0.5, records=1)
    lines = 0

    def count(frame: FrameType, event: str, _: object) -> object:
        nonlocal lines
        lines += event == "line"
        return count

    sys.settrace(count)
    (block,) = ledger.take_finished(15.5)
    sys.settrace(None)
    assert lines < 100
    assert block.lines == 1

"""What a second brought: sums, sparse, each byte once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from proxy.journal.ledger import IDLE_TICKS, Ledger, Position, Traffic, TrafficKey

BEHIND = TrafficKey("leader", "102", "orders", 0, throttled=True, in_sync=False)
IN_SYNC = BEHIND._replace(in_sync=True)
AT = Position(100, 900, 0)


def fetched(ledger: Ledger, key: TrafficKey, now: float, *, records: int = 0, at: Position = AT) -> None:
    ledger.fetched(key, at, record_bytes=records, wire_bytes=records + 18 if records else 0, now=now)


def test_a_second_is_summed_up_and_said_once() -> None:
    ledger = Ledger(1000.25)
    fetched(ledger, BEHIND, 1000.3, records=10)
    fetched(ledger, BEHIND, 1001.2, records=5, at=Position(110, 950, 7))
    ledger.omitted(BEHIND, Position(110, 950, 7), now=1001.24)
    assert ledger.take_finished(1001.2499) == []
    assert ledger.take_finished(1001.25) == [Traffic(0, BEHIND, 15, 51, 2, 1, Position(110, 950, 7))]
    assert ledger.take_finished(1009.0) == []


def test_what_comes_later_is_in_the_second_in_which_it_came() -> None:
    """A task that is late does not lump two seconds together."""
    ledger = Ledger(0.0)
    fetched(ledger, BEHIND, 0.5, records=1)
    fetched(ledger, BEHIND, 3.5, records=2)
    lines = ledger.take_finished(9.0)
    assert [(line.tick, line.record_bytes) for line in lines] == [(0, 1), (3, 2)]


def test_what_is_in_sync_is_counted_apart() -> None:
    ledger = Ledger(0.0)
    fetched(ledger, BEHIND, 0.1, records=1)
    fetched(ledger, IN_SYNC, 0.2, records=2)
    assert [(line.key.in_sync, line.record_bytes) for line in ledger.take_finished(1.0)] == [(False, 1), (True, 2)]


def test_a_replica_that_has_caught_up_says_so_once_then_nothing() -> None:
    ledger = Ledger(0.0)
    for second in range(5):
        fetched(ledger, IN_SYNC, second + 0.5, at=Position(900, 900, 0))
    assert [line.tick for line in ledger.take_finished(6.0)] == [0]


def test_a_replica_that_stays_behind_is_heard_every_second() -> None:
    ledger = Ledger(0.0)
    for second in range(3):
        fetched(ledger, BEHIND, second + 0.5)
    assert [line.tick for line in ledger.take_finished(6.0)] == [0, 1, 2]


def test_an_idle_replica_is_forgotten_and_told_anew() -> None:
    ledger = Ledger(0.0)
    fetched(ledger, IN_SYNC, 0.5)
    fetched(ledger, IN_SYNC, 1.5)
    other = IN_SYNC._replace(topic="other")
    fetched(ledger, other, 2.0 * IDLE_TICKS)
    fetched(ledger, IN_SYNC, 2.0 * IDLE_TICKS + 1)
    assert [line.tick for line in ledger.close(3.0 * IDLE_TICKS) if line.key == IN_SYNC] == [0, 2 * IDLE_TICKS + 1]


def test_the_last_second_is_said_although_it_is_not_over() -> None:
    ledger = Ledger(0.0)
    fetched(ledger, BEHIND, 0.1, records=3)
    assert [line.record_bytes for line in ledger.close(0.2)] == [3]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([BEHIND, IN_SYNC, BEHIND._replace(partition=1)]),
            st.integers(0, 1000),
            st.floats(0, 3),
            st.booleans(),
        )
    )
)
def test_every_byte_is_in_exactly_one_line(reports: list[tuple[TrafficKey, int, float, bool]]) -> None:
    ledger, now = Ledger(0.0), 0.0
    expected: Counter[tuple[TrafficKey, int]] = Counter()
    lines: list[Traffic] = []
    for key, size, pause, takes in reports:
        now += pause
        fetched(ledger, key, now, records=size)
        expected[key, int(now)] += size
        if takes:
            lines += ledger.take_finished(now)
    lines += ledger.close(now + 1)
    assert len({(line.key, line.tick) for line in lines}) == len(lines)
    found = {(line.key, line.tick): line.record_bytes for line in lines if line.record_bytes}
    assert found == {where: size for where, size in expected.items() if size}

""""""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.quotas.units import parse_span
from reassignment import (
    Capacity,
    Deadline,
    Load,
    PartitionMove,
    Size,
    TopicPartition,
    loads,
    problems,
    rate_to_set,
    standing_in,
)
from reassignment.rates import rate_in_words, time_in_words

MB = 1_000_000.0
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
MOVES = {A: PartitionMove((101, 102), (104,)), B: PartitionMove((101, 103), (104, 105))}
SIZES = {A: Size(101, 1000 * MB, 0.5 * MB), B: Size(101, 2000 * MB)}
IN_1000_SECONDS = Deadline(1000)
PLENTY = Capacity(100 * MB, 2)


def by_broker(found: tuple[Load, ...]) -> dict[tuple[int, str], float]:
    return {(load.broker, load.role): load.move_bytes / MB for load in found}


def test_every_copy_is_sent_by_the_leader_and_fetched_by_its_destination() -> None:
    """1000 MB once, and 2000 MB twice: 101 sends 5000."""
    assert by_broker(loads(MOVES, SIZES, {})) == {
        (101, "leader"): 5000, (104, "follower"): 3000, (105, "follower"): 2000,
    }  # fmt: skip


def test_what_is_already_there_is_not_moved_again() -> None:
    """A move that is under way: 104 has 400 of 1000 MB; what it has of B is more than the leader by now has."""
    sizes = {A: Size(101, 1000 * MB, present={104: 400 * MB}), B: Size(101, 2000 * MB, present={104: 2001 * MB})}
    assert by_broker(loads(MOVES, sizes, {})) == {
        (101, "leader"): 2600, (104, "follower"): 600, (105, "follower"): 2000,
    }  # fmt: skip


@pytest.mark.parametrize("size", [None, Size(None, 1000 * MB)])
def test_the_preferred_leader_sends_while_nobody_knows_better(size: Size | None) -> None:
    found = loads({A: MOVES[A]}, {} if size is None else {A: size}, {})
    assert by_broker(found).keys() == {(101, "leader"), (104, "follower")}


def seconds_at(load: Load, bytes_per_second: float) -> float:
    """How long a move takes at a rate of which a part goes to what is written meanwhile."""
    return load.move_bytes / (bytes_per_second - load.written_bytes_per_second) if load.move_bytes else 0.0


def test_moves_that_do_not_move_load_nobody() -> None:
    assert loads({A: PartitionMove((101, 102), ())}, SIZES, {}) == ()


def test_the_rate_ends_the_move_in_time() -> None:
    """5000 MB in 1000 s are 5 MB/s, and 0.5 MB/s are written meanwhile; up to the next KiB."""
    leader, *_ = loads(MOVES, SIZES, {})
    assert leader.needed(IN_1000_SECONDS) == 5.5 * MB
    assert 5.5 * MB <= rate_to_set(leader, IN_1000_SECONDS) < 5.5 * MB + 1024
    assert seconds_at(leader, 5.5 * MB) == 1000


def test_a_part_of_the_data_in_the_time_wanted() -> None:
    leader, *_ = loads(MOVES, SIZES, {})
    assert leader.needed(Deadline(1000, fraction=0.5)) == 3 * MB


def test_a_slow_wish_is_raised_above_the_inflow() -> None:
    """IN < T, however much time there is."""
    load = Load(104, "follower", MB, 0.0, 50 * MB)
    assert 50 * MB < rate_to_set(load, IN_1000_SECONDS) <= 50 * MB + 1024
    assert load.high(PLENTY) == 75 * MB  # N - IN/R = 100 - 50/2


@pytest.mark.parametrize(
    ("load", "seconds", "problem"),
    [
        (Load(101, "leader", 3000 * MB, 0.5 * MB, 0), 10,
         ("broker 101 as leader: needs 286.58 MiB/s (300500992 B/s) to end in time, but must stay below"
          " 95.37 MiB/s (100000000 B/s); allow at least 31s")),
        (Load(104, "follower", MB, 0, 90 * MB), 1000,
         "broker 104 as follower: no rate is admissible: inflow 90000000 B/s, capacity leaves 55000000 B/s"),
        (Load(104, "follower", MB, 0, 0), 1000, None),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(load: Load, seconds: float, problem: str | None) -> None:
    assert problems([load], Deadline(seconds), PLENTY) == ([problem] if problem else [])


def test_the_time_to_allow_is_enough() -> None:
    load = Load(101, "leader", 3000 * MB, 0.5 * MB, 0)
    assert problems([load], Deadline(30), PLENTY)
    assert problems([load], Deadline(31), PLENTY) == []


def test_who_may_become_leader_has_a_rate_too() -> None:
    """102 and 103 are listed as leaders; without a rate they would send as fast as they can when 101 fails."""
    rates = {(101, "leader"): 7, (104, "follower"): 5, (105, "follower"): 5}
    assert standing_in(MOVES, SIZES, rates) == {**rates, (102, "leader"): 7, (103, "leader"): 7}


def test_who_leads_other_partitions_keeps_the_rate_of_those() -> None:
    moves = {A: PartitionMove((101, 102), (104,)), B: PartitionMove((102, 101), (104,))}
    sizes = {A: Size(101, 1.0), B: Size(102, 1.0)}
    assert standing_in(moves, sizes, {(101, "leader"): 7, (102, "leader"): 3}) == {
        (101, "leader"): 7, (102, "leader"): 3,
    }  # fmt: skip


@given(
    size=st.floats(0, 1e15), written=st.floats(0, 1e9), inflow=st.floats(0, 1e9), seconds=st.floats(0.1, 1e7)
)  # fmt: skip
def test_the_rate_set_keeps_the_deadline_and_is_above_the_inflow(
    size: float, written: float, inflow: float, seconds: float
) -> None:
    load = Load(101, "leader", size, written, inflow)
    rate = rate_to_set(load, Deadline(seconds))
    assert rate > load.low
    assert rate % 1024 == 0
    assert seconds_at(load, rate) <= seconds * (1 + 1e-9)


@pytest.mark.parametrize("slack", [1.0, 1.05])
@pytest.mark.parametrize("move_bytes", [3 * MB, 3000 * MB, 7_654_321 * MB])
def test_the_time_that_is_told_would_be_enough(move_bytes: float, slack: float) -> None:
    load = Load(101, "leader", move_bytes, 0.5 * MB, 0)
    (told,) = problems([load], Deadline(0.001), PLENTY, slack=slack)
    allowed = parse_span(told.rpartition(" ")[2]).total_seconds()
    assert problems([load], Deadline(allowed / slack), PLENTY, slack=slack) == []


@pytest.mark.parametrize(
    ("bytes_per_second", "words"),
    [
        (0, "0 B/s"),
        (1023, "1023 B/s"),
        (1024, "1.00 KiB/s (1024 B/s)"),
        (10_000_000, "9.54 MiB/s (10000000 B/s)"),
        (11_274_289_152, "10.50 GiB/s (11274289152 B/s)"),
        (2.0**41, "2.00 TiB/s (2199023255552 B/s)"),
    ],
)
def test_a_rate_says_which_mega_is_meant(bytes_per_second: float, words: str) -> None:
    assert rate_in_words(bytes_per_second) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1s"),
        (59.5, "1m00s"),
        (1073.7, "17m54s"),
        (3601, "1h01m"),
        (7200, "2h00m"),
        (72 * 3600 - 1, "3d00h"),
        (76 * 3600 + 1, "3d05h"),
    ],
)
def test_a_time_is_rounded_up(seconds: float, words: str) -> None:
    assert time_in_words(seconds) == words

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pipeline.jobs.lag import HELD_SECONDS
from pipeline.jobs.moves import by_source
from pipeline.jobs.partition_sizes import SUMMARY, partition_sizes, whole
from pipeline.journals.parse_lines import parse
from pipeline.tables.explode_traffic import replica_seconds
from tests.pipeline.frames import Scenarios, moves, quotas, traffic
from tests.pipeline.journal_files import FIRST
from tests.pipeline.recorded_moves import PARTITIONS, bytes_moved, catch_up, lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

QUOTA = 1000.0


def drain(
    *, seconds: Iterable[int], source: int = 101, destination: int = 102, role: str = "leader", **values: Any
) -> list[dict[str, Any]]:
    """A replica that gets 10 messages of 100 bytes a second and has caught up in the second after the last."""
    broker, peer = (source, destination) if role == "leader" else (destination, source)
    line = {"broker": broker, "peer": str(peer), "role": role, "omitted": 3, **values}
    ticks = list(seconds)
    total = 10 * len(ticks)
    rows = [{"at": at, "fetch_offset": 10 * n, "high_watermark": total, **line} for n, at in enumerate(ticks)]
    end = {"at": ticks[-1] + 1, "fetch_offset": total, "high_watermark": total}
    return [*rows, {**line, **end, "in_sync": True, "record_bytes": 0, "omitted": 0}]


SCENARIOS = Scenarios()


def scenario(rows: list[dict[str, Any]], *said: dict[str, Any]) -> int:
    """Without a word the quota of broker 101 as leader is `QUOTA` from the beginning."""
    return SCENARIOS.add(rows, *(said or [{"said": [(0, QUOTA)]}]))


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[int, list[Any]]:
    """The moves of all scenarios of this file."""
    rows = moves(*SCENARIOS.frames(spark)).orderBy("topic", "partition", "began").collect()
    return SCENARIOS.split(rows, "source", "destination")


def sizes(lines: DataFrame) -> DataFrame:
    return partition_sizes(whole(SUMMARY.of(lines)))


ALONE = scenario(drain(seconds=range(5, 25)))


def test_a_move_lasts_from_the_first_line_behind_to_the_first_in_sync(found: dict[int, list[Any]]) -> None:
    (move,) = found[ALONE]
    assert (move.source, move.destination, move.topic, move.partition) == ("101", "102", "orders", 0)
    assert (move.began - FIRST, move.seconds, move.finished) == (5, 20, True)
    assert (move.bytes, move.bytes_per_second, move.seen_by) == (20_000, 1000.0, "leader")


BOTH = scenario(drain(seconds=range(20)) + drain(seconds=range(20), role="follower"))


def test_what_both_sidecars_saw_is_one_move(found: dict[int, list[Any]]) -> None:
    (move,) = found[BOTH]
    assert (move.bytes, move.seen_by) == (20_000, "follower")


LATER = HELD_SECONDS + 50
AGAIN = scenario(drain(seconds=range(10)) + drain(seconds=range(40, 45))[:-1] + drain(seconds=range(LATER, LATER + 5)))


def test_falling_behind_again_is_another_move_and_silence_ends_one(found: dict[int, list[Any]]) -> None:
    result = [(m.began - FIRST, m.seconds, m.finished) for m in found[AGAIN]]
    assert result == [(0, 10, True), (40, 5, False), (LATER, 5, True)]


def reconnected(at: int, offset: int, **values: Any) -> dict[str, Any]:
    """The first answer on another connection: in sync, since nothing is known of it there."""
    first = {"fetch_offset": offset, "high_watermark": 200, "in_sync": True, "record_bytes": 0, "broker": 101}
    return {"at": at, "peer": "102", "role": "leader", **first, **values}


SHORT, SILENCE = drain(seconds=range(20))[:10], HELD_SECONDS + 1
LAST_WORDS = [
    scenario([*SHORT, reconnected(10, 90)]),
    scenario([*SHORT, reconnected(10, 90), *({**row, "at": row["at"] + 10 + SILENCE} for row in SHORT)]),
    scenario([*SHORT, reconnected(10, 90), *({**row, "at": row["at"] + 30} for row in SHORT)]),
    scenario([*SHORT, reconnected(10, 200)]),
    scenario([*SHORT, reconnected(10, 90), reconnected(11, 200)]),
]


def test_a_connection_begun_anew_is_no_end_though_it_counts_as_in_sync(found: dict[int, list[Any]]) -> None:
    """As the last word, before a silence, and before it goes on being behind after twenty seconds; it was "caught up".
    Who has all of it then, or a second later, has caught up."""
    told = [[(move.seconds, move.finished) for move in found[number]] for number in LAST_WORDS]
    assert told == [[(11, False)], [(11, False), (10, False)], [(40, False)], [(10, True)], [(10, True)]]


SERVES_TWO = scenario(
    drain(seconds=range(20), record_bytes=500)
    + drain(seconds=range(20), record_bytes=500, destination=103, partition=1)
)


def test_a_leader_that_serves_two_is_what_bounds_both(found: dict[int, list[Any]]) -> None:
    both = found[SERVES_TWO]
    assert [move.bound for move in both] == ["leader", "leader"]
    assert all(move.leader_share > 0.9 for move in both)


FETCHES_FROM_TWO = scenario(
    drain(seconds=range(20), record_bytes=500, role="follower", destination=103)
    + drain(seconds=range(20), record_bytes=500, role="follower", source=102, destination=103, partition=1),
    {"said": [(0, QUOTA)], "broker": 103, "role": "follower"},
)


def test_a_follower_that_fetches_from_two_is_what_bounds_both(found: dict[int, list[Any]]) -> None:
    assert [move.bound for move in found[FETCHES_FROM_TWO]] == ["follower", "follower"]


PAIRS = scenario(
    drain(seconds=range(20))
    + drain(seconds=range(20), source=201, destination=202)
    + drain(seconds=range(20), source=301, destination=302, record_bytes=100),
    *({"said": [(0, quota)], "broker": source} for source, quota in ((101, QUOTA), (201, None), (301, QUOTA))),
)


def test_a_pair_alone_is_independent_and_without_a_quota_there_is_no_bound(found: dict[int, list[Any]]) -> None:
    """Of three pairs: one at its quota, one without any, and one far below it."""
    assert {move.source: move.bound for move in found[PAIRS]} == {
        "101": "independent", "201": "no quota", "301": "no quota",
    }  # fmt: skip


IDLE = [
    {"at": at, "partition": 1, "fetch_offset": 9, "high_watermark": 9, "in_sync": True, "record_bytes": 9}
    for at in range(6)
]
FAST = [row | {"fetch_offset": row["fetch_offset"] + 60} for row in drain(seconds=range(12, 16), record_bytes=4000)]
SET_RIGHT_BEFORE = scenario(
    IDLE + drain(seconds=range(6, 12))[:-1] + FAST, {"said": [(0, None), (5, QUOTA), (12, 4 * QUOTA)]}
)


def test_a_quota_that_was_set_right_before_the_move_is_its_bound(found: dict[int, list[Any]]) -> None:
    """As `kafka-reassign-partitions --throttle` does it; what was allowed until then says nothing of the pace."""
    (move,) = found[SET_RIGHT_BEFORE]
    assert (move.bound, move.seconds) == ("independent", 10)
    assert move.leader_share >= 0.8


OF_ZERO = scenario(
    [{**row, "record_bytes": 0, "fetch_offset": 0} for row in drain(seconds=range(20))[:-1]]
    + drain(seconds=range(20, 30)),
    {"said": [(0, 0.0), (20, 100 * QUOTA)]},
)


def test_a_quota_of_0_sets_the_pace(found: dict[int, list[Any]]) -> None:
    """For twenty seconds nothing is brought, then all of it, far below the quota. The second of the change counts for
    the lower one."""
    (move,) = found[OF_ZERO]
    assert (move.bound, move.seconds, move.leader_share) == ("independent", 30, pytest.approx(21 / 30))


TAKEN_AWAY = scenario(
    drain(seconds=range(8), partition=1) + drain(seconds=range(9, 14)), {"said": [(0, QUOTA), (8, None)]}
)


def test_a_quota_that_was_taken_away_before_the_move_is_not_its_bound(found: dict[int, list[Any]]) -> None:
    move, _ = found[TAKEN_AWAY]
    assert (move.bound, move.leader_share) == ("no quota", 0.0)


OBSERVED = scenario(drain(seconds=range(20), record_bytes=10_000), {"said": [(0, QUOTA)], "enforce": False})
ENFORCED_LATER = scenario(drain(seconds=range(20)), {"said": [(0, QUOTA)], "enforce": False}, {"said": [(15, QUOTA)]})


def test_a_quota_that_is_only_observed_sets_no_pace(found: dict[int, list[Any]]) -> None:
    """Ten times as much moves as it would allow; enforced in the middle it does set the pace, and only then."""
    (move,) = found[OBSERVED]
    assert (move.bound, move.leader_share) == ("no quota", 0.0)
    (move,) = found[ENFORCED_LATER]
    assert (move.bound, move.leader_share) == ("no quota", pytest.approx(0.25, abs=0.06))


WORTHS = scenario(
    [
        {**row, "omitted": 0, "record_bytes": int(worth * QUOTA) if (row["at"] % (worth / 0.76)) < 1 else 0}
        for source, worth in ((101, 2.8), (201, 1.0))
        for row in drain(seconds=range(33), source=source, destination=source + 1)
    ],
    {"said": [(0, QUOTA)]}, {"said": [(0, QUOTA)], "broker": 201},
)  # fmt: skip


def test_under_kip73_fetches_that_fill_the_window_but_for_less_than_another_are_bound(
    found: dict[int, list[Any]],
) -> None:
    """Fetches of so many seconds' worth of the quota, three quarters of which they use, and nothing was left out: of
    large ones no other fits, of small ones there would have been room."""
    assert {move.source: move.bound for move in found[WORTHS]} == {"101": "independent", "201": "no quota"}


def test_move_ratio_is_data_to_move_over_data_on_the_source(spark: SparkSession) -> None:
    """Two partitions of 200 messages of 100 bytes, one of them moves: half. It takes twenty seconds."""
    rows = drain(seconds=range(20)) + [
        {"at": at, "partition": 1, "fetch_offset": 200, "high_watermark": 200, "in_sync": True} for at in range(3)
    ]
    lines = traffic(spark, rows)
    (row,) = by_source(moves(lines, quotas(spark, [(0, QUOTA)])), sizes(lines)).collect()
    assert (row.source, row.partitions, row.finished, row.move_seconds) == ("101", 1, True, 20)
    assert row.move_ratio == pytest.approx(0.5, rel=0.05)


SKEWS = {101: 0, 201: 3, 301: 45, 401: -20}
"""By source: how far ahead its destination's clock is, in seconds."""


@pytest.fixture(scope="module")
def both_ends(spark: SparkSession) -> DataFrame:
    """The same six moves four times, each seen by both sidecars, whose clocks differ."""
    fetches = catch_up()
    text = [
        (line, role)
        for source, skew in SKEWS.items()
        for role, ahead in (("leader", 0), ("follower", skew))
        for line in lines(fetches, source=source, destination=source + 1, role=role, skew_seconds=ahead)
    ]
    return replica_seconds(parse(spark.createDataFrame(text, "value string, source string"))).cache()


def test_moves_are_exact_to_the_byte_and_each_is_one_whatever_the_clocks_say(
    spark: SparkSession, both_ends: DataFrame
) -> None:
    """A first answer before anything was known, and a connection lost on the way, cost no byte and add no move."""
    rows = moves(both_ends, quotas(spark, [(0, None)])).collect()
    told = bytes_moved(catch_up())
    for source, skew in SKEWS.items():
        own = [row for row in rows if row.source == str(source)]
        assert len(own) == PARTITIONS, skew
        assert {row.partition: row.bytes for row in own} == told, skew
        assert {(row.destination, row.finished, row.seen_by) for row in own} == {(str(source + 1), True, "follower")}


def test_sizes_are_exact_however_short_the_recording(both_ends: DataFrame) -> None:
    found = {row.partition: row.size_bytes for row in sizes(both_ends).collect()}
    assert found == pytest.approx(bytes_moved(catch_up()), rel=1e-9)


def test_each_sides_pace_is_by_its_own_clock(spark: SparkSession, both_ends: DataFrame) -> None:
    """The follower's quota is what it moved, by a clock 45 s ahead of the leader's, who has none."""
    total = sum(bytes_moved(catch_up()).values())
    said = quotas(spark, [(0, total / 14)], broker=302, role="follower")
    rows = moves(both_ends.where("broker in (301, 302)"), said).collect()
    assert {row.bound for row in rows} == {"independent"}
    assert all(row.follower_share > 0.8 and row.leader_share == 0 for row in rows)


def test_what_only_one_end_saw_counts_as_well(spark: SparkSession, both_ends: DataFrame) -> None:
    """The follower's journal begins in the middle: the leader's tells all of it."""
    late = both_ends.where("broker = 101 or (broker = 102 and tick >= 8)")
    rows = moves(late, quotas(spark, [(0, None)])).collect()
    assert {row.partition: row.bytes for row in rows} == bytes_moved(catch_up())
    assert {row.seen_by for row in rows} == {"leader"}

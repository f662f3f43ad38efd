"""A link's moves weeks apart are told apart; what each had to bring, and what was written meanwhile, adds up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pipeline.jobs.moves import unpaced
from pipeline.jobs.times_behind import SUMMARY, whole
from pipeline.model.backtest import of_links, of_plan
from pipeline.model.broker_pairs import Pair, pairs
from pipeline.model.duration_curve import Recorded
from pipeline.model.fluid import finish_times
from pipeline.questions import what_rate
from pipeline.questions.answer import Verdict
from pipeline.units import Units
from tests.pipeline.frames import traffic
from tests.pipeline.journal_files import FIRST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WEEKS = 21 * 86_400


MESSAGES = 400


def drain(first: int, *, written: int = 3, partition: int = 0, base: int = 0) -> list[dict[str, Any]]:
    """A replica that is 400 messages of 100 bytes behind and gets 20 a second from `base` on, while so many are
    written; then it has caught up."""
    rows, at, offset = [], 0, 0
    while offset < MESSAGES + written * at:
        rows.append(
            {"at": first + at, "partition": partition, "fetch_offset_before": base + offset,
             "fetch_offset": base + offset + 20, "high_watermark": base + MESSAGES + written * at, "record_bytes": 2000}
        )  # fmt: skip
        offset, at = offset + 20, at + 1
    end = base + offset
    caught_up = {"fetch_offset_before": end, "fetch_offset": end, "high_watermark": end, "record_bytes": 0}
    return [*rows, {"at": first + at, "partition": partition, "in_sync": True, **caught_up}]


@pytest.mark.parametrize(
    ("later", "base"),
    [(1, 0), (0, 480)],
    ids=["other partitions, weeks later", "the same partition, weeks later"],
)
def test_two_migrations_over_one_link_are_two(spark: SparkSession, later: int, base: int) -> None:
    """40 000 bytes each, and 300 a second that are written meanwhile: 24 seconds at 2000."""
    rows = drain(0) + drain(WEEKS, partition=later, base=base)
    found = pairs(unpaced(whole(SUMMARY.of(traffic(spark, rows)))))
    assert [(pair.began - FIRST, pair.moves, pair.unfinished) for pair in found] == [(WEEKS, 1, 0), (0, 1, 0)]
    for pair in found:
        assert (pair.ended - pair.began, pair.bytes) == (24, 48_000)
        assert pair.backlog_bytes == pytest.approx(40_000, rel=0.03)
        assert pair.backlog_bytes + pair.written_bytes == pytest.approx(48_000)
    quota = {("101", "leader"): 2000.0}
    recorded = Recorded(tuple(pair.stream for pair in found), quota, tuple(found), {})
    assert (recorded.seconds, recorded.error) == (48, pytest.approx(0.0, abs=0.05))
    assert recorded.seconds_at(2) == pytest.approx(2 * 40_000 / 3700, rel=0.05)
    for tested in (of_links(recorded), of_plan(recorded._replace(pairs=held(found)))):
        errors = tested.median_and_worst
        assert errors is not None
        assert abs(errors[1].error) < 0.05


def held(found: Any) -> tuple[Pair, ...]:
    return tuple(pair._replace(leader_held=1.0) for pair in found)


def test_moves_near_each_other_are_one_wave(spark: SparkSession) -> None:
    (pair,) = pairs(
        unpaced(whole(SUMMARY.of(traffic(spark, drain(0) + drain(60, partition=1) + drain(70, partition=2)))))
    )
    assert (pair.moves, pair.ended - pair.began) == (3, 94)
    assert pair.backlog_bytes == pytest.approx(120_000, rel=0.03)


def test_what_was_never_known_to_be_behind_by_how_much_is_counted(spark: SparkSession) -> None:
    """No high watermark in a minute: `ask what-rate` and `report` ended with an error."""
    rows = [{"at": at, "fetch_offset": 20 * (at + 1), "high_watermark": -1, "record_bytes": 2000} for at in range(60)]
    found = pairs(unpaced(whole(SUMMARY.of(traffic(spark, rows)))))
    assert [(pair.moves, pair.unknown, pair.bytes, pair.backlog_bytes) for pair in found] == [(1, 1, 120_000, 0.0)]
    assert finish_times([pair.stream for pair in found], {}, line_bytes_per_second=125e6) == [FIRST]
    known = pairs(unpaced(whole(SUMMARY.of(traffic(spark, drain(0))))))
    assert [pair.unknown for pair in known] == [0]


def test_who_was_behind_and_got_nothing_has_a_backlog_of_an_unknown_size(spark: SparkSession) -> None:
    """900 messages for a minute, under a quota of 0: nothing says what a rate would have brought."""
    rows = [{"at": at, "record_bytes": 0, "high_watermark": 1000} for at in range(60)]
    found = tuple(pairs(unpaced(whole(SUMMARY.of(traffic(spark, rows))))))
    assert [(pair.moves, pair.unfinished, pair.bytes, pair.backlog_bytes) for pair in found] == [(1, 1, 0, 0.0)]
    recorded = Recorded(tuple(pair.stream for pair in found), {("101", "leader"): 0.0}, found, {})
    for wanted in (None, 7200.0):
        assert what_rate.answer(recorded, Units.DECIMAL, wanted_seconds=wanted).verdict is Verdict.UNKNOWN


def test_what_fell_silent_and_went_on_is_not_to_be_brought_twice(spark: SparkSession) -> None:
    """Ten of its seconds, a minute of nothing, and the rest; then another that never went on has all it had before
    it."""
    rows = drain(0, written=0)
    after = [{**row, "at": row["at"] + 60} for row in rows[10:]]
    silent = [{**row, "partition": 1} for row in rows[:10]]
    (pair,) = pairs(unpaced(whole(SUMMARY.of(traffic(spark, [*rows[:10], *after, *silent])))))
    assert (pair.moves, pair.unfinished) == (3, 2)
    assert pair.backlog_bytes == pytest.approx(2 * 40_000)

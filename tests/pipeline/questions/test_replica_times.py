"""Times behind, written down: who keeps falling behind or never catches up, how long partitions lacked a replica."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pipeline.questions import replica_times
from pipeline.questions.answer import Verdict
from pipeline.questions.replica_times import DAY_SECONDS, LONG_SECONDS, MIN_SECONDS
from pipeline.units import Units
from tests.pipeline.journal_files import FIRST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ONE: dict[str, Any] = {
    "source": "101", "destination": "102", "topic": "orders", "partition": 0, "began": 0, "seconds": 60,
    "finished": True, "bytes": 1000, "backlog_bytes": 900.0, "written_bytes": 100.0,
}  # fmt: skip
SCHEMA = (
    "source string, destination string, topic string, partition long, began long, seconds long, finished boolean,"
    " bytes long, backlog_bytes double, written_bytes double"
)


def moves(spark: SparkSession, *said: dict[str, Any]) -> DataFrame:
    rows = [{**ONE, **one, "began": FIRST + one.get("began", 0)} for one in said]
    return spark.createDataFrame([tuple(row[name] for name in ONE) for row in rows], SCHEMA)


def test_who_keeps_falling_behind_is_who_did_so_on_most_days(spark: SparkSession) -> None:
    days = [{"began": day * DAY_SECONDS, "partition": 1, "seconds": 100 + day} for day in range(3)]
    often = [{"began": 1000 * at, "destination": "103"} for at in range(5)]
    short = [{"began": 1000 * at, "destination": "104", "seconds": MIN_SECONDS - 1} for at in range(9)]
    found = replica_times.falling_behind(moves(spark, *days, *often, *short, {"began": 7, "partition": 2}))
    assert (found.moves, found.replicas) == (9, 2)
    assert [(row.destination, row.times) for row in found.destinations] == [("103", 5), ("102", 3)]
    answer = replica_times.answer_falling_behind(found)
    assert (answer.verdict, answer.number) == (Verdict.BAD, 2.0)
    assert answer.sentence == (
        "orders-1 from 101 to 102 fell behind 3 times on 3 days, 5 min 03 s in all and 1 min 42 s at most, and"
        " 1 more replica."
    )
    nobody = replica_times.answer_falling_behind(replica_times.falling_behind(moves(spark, *days[:2])))
    assert (nobody.verdict, nobody.sentence) == (Verdict.GOOD, "Nobody: of 2 times behind, no replica had 3.")


@pytest.mark.parametrize(
    ("said", "never"),
    [
        ({"bytes": 100}, True),
        ({"bytes": 99}, True),
        ({"bytes": 101}, False),
        ({"bytes": 99, "finished": True}, False),
        ({"bytes": 99, "seconds": LONG_SECONDS - 1}, False),
        ({"bytes": 0, "backlog_bytes": None}, True),
        ({"bytes": 1, "backlog_bytes": None}, False),
    ],
)
def test_who_never_catches_up_lacks_no_less_than_at_first(
    spark: SparkSession, said: dict[str, Any], never: bool
) -> None:
    """100 bytes were written meanwhile."""
    long = {"finished": False, "seconds": LONG_SECONDS, **said}
    answer = replica_times.answer_never_caught_up(replica_times.never_caught_up(moves(spark, long)), Units.DECIMAL)
    assert answer.verdict is (Verdict.BAD if never else Verdict.GOOD)
    assert answer.number == float(never)
    if never:
        assert answer.sentence.startswith(
            "orders-0 from 101 to 102 is behind for 10 min 00 s, since 2026-11-21 08:40:00"
        )


def test_who_went_on_later_is_judged_by_that(spark: SparkSession) -> None:
    silent = {"finished": False, "seconds": LONG_SECONDS, "bytes": 0}
    found = replica_times.never_caught_up(moves(spark, silent, {"began": 5000}))
    assert (found.moves, found.replicas) == (2, 0)


def test_a_second_counts_once_however_many_replicas_are_behind_in_it(spark: SparkSession) -> None:
    said = [
        {"began": 0, "seconds": 100},
        {"began": 50, "seconds": 100, "destination": "103"},
        {"began": 60, "seconds": 10, "destination": "104"},
        {"began": 500, "seconds": 30},
        {"began": 140, "seconds": 20, "partition": 1},
    ]
    found = replica_times.under_replicated(moves(spark, *said))
    assert (found.seconds, found.partitions) == (190, 2)
    assert [(row.partition, row.seconds) for row in found.rows] == [(0, 180), (1, 20)]
    answer = replica_times.answer_under_replicated(found)
    assert answer.sentence == "For 3 min 10 s in all, 2 partitions; the longest was orders-0: 3 min 00 s."


def test_where_nobody_was_behind_nothing_is_known(spark: SparkSession) -> None:
    none = moves(spark)
    answers = [
        replica_times.answer_falling_behind(replica_times.falling_behind(none)),
        replica_times.answer_never_caught_up(replica_times.never_caught_up(none), Units.DECIMAL),
        replica_times.answer_under_replicated(replica_times.under_replicated(none)),
    ]
    assert [one.verdict for one in answers] == [Verdict.UNKNOWN] * 3

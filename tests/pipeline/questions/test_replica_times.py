"""Times behind, written down: who keeps falling behind or never catches up, how long partitions lacked a replica."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pipeline.model.remaining_bytes import Waiting
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
    assert (found.moves, found.replicas) == (18, 2)
    assert [(row.destination, row.times) for row in found.destinations] == [("103", 5), ("102", 3)]
    answer = replica_times.answer_falling_behind(found)
    assert (answer.verdict, answer.number) == (Verdict.BAD, 2.0)
    assert answer.sentence == (
        "orders-1 from 101 to 102 fell behind 3 times on 3 days, 5 min 03 s in all and 1 min 42 s at most, and"
        " 1 more replica."
    )
    nobody = replica_times.answer_falling_behind(replica_times.falling_behind(moves(spark, *days[:2])))
    none = "Nobody: of 2 times behind, no replica had 3 of 10 s or more."
    assert (nobody.verdict, nobody.sentence) == (Verdict.GOOD, none)


def test_short_times_behind_are_not_nothing(spark: SparkSession) -> None:
    """It was "Nobody was seen behind."."""
    short = [{"began": 1000 * at, "seconds": MIN_SECONDS - 1} for at in range(50)]
    answer = replica_times.answer_falling_behind(replica_times.falling_behind(moves(spark, *short)))
    none = "Nobody: of 50 times behind, no replica had 3 of 10 s or more."
    assert (answer.verdict, answer.sentence) == (Verdict.GOOD, none)


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ({"bytes": 100}, Verdict.BAD),
        ({"bytes": 99}, Verdict.BAD),
        ({"bytes": 101}, Verdict.GOOD),
        ({"bytes": 99, "finished": True}, Verdict.GOOD),
        ({"bytes": 99, "seconds": LONG_SECONDS - 1}, Verdict.UNKNOWN),
        ({"bytes": 101, "seconds": LONG_SECONDS - 1}, Verdict.GOOD),
        ({"bytes": 0, "backlog_bytes": None}, Verdict.BAD),
        ({"bytes": 0, "backlog_bytes": None, "seconds": LONG_SECONDS - 1}, Verdict.UNKNOWN),
        ({"bytes": 1, "backlog_bytes": None}, Verdict.UNKNOWN),
    ],
)
def test_who_never_catches_up_lacks_no_less_than_at_first(
    spark: SparkSession, said: dict[str, Any], verdict: Verdict
) -> None:
    """100 bytes were written meanwhile. Of who came no nearer for less than ten minutes it was "Nobody: … came
    nearer"."""
    long = {"finished": False, "seconds": LONG_SECONDS, **said}
    answer = replica_times.answer_never_caught_up(replica_times.never_caught_up(moves(spark, long)), Units.DECIMAL)
    number, says = {
        Verdict.BAD: (1.0, "orders-0 from 101 to 102 is behind for 10 min 00 s, since 2026-11-21 08:40:00"),
        Verdict.GOOD: (0.0, "Nobody: of 1 time behind, each ended or came nearer."),
        Verdict.UNKNOWN: (None, "Not known: 1 replica was behind to the end, for less than 10 min 00 s or by bytes"),
    }[verdict]
    assert (answer.verdict, answer.number) == (verdict, number)
    assert answer.sentence.startswith(says)


def test_who_went_on_later_is_judged_by_that(spark: SparkSession) -> None:
    silent = {"finished": False, "seconds": LONG_SECONDS, "bytes": 0}
    for later in ({}, {"source": "103"}):
        found = replica_times.never_caught_up(moves(spark, silent, {"began": 5000, **later}))
        assert (found.moves, found.replicas, found.opens) == (2, 0, 0)


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
    answer = replica_times.answer_under_replicated(found, Units.DECIMAL)
    assert answer.sentence == "For 3 min 10 s in all, 2 partitions; the longest was orders-0: 3 min 00 s."
    silent = Waiting("101", "102", "orders", 0, "follower", FIRST, FIRST + 99, 5000, 5e6, 60, 5e4, 0.0)
    answer = replica_times.answer_under_replicated(found._replace(lost=(silent,)), Units.DECIMAL)
    assert (answer.verdict, answer.number) == (Verdict.UNKNOWN, None)
    assert answer.sentence == (
        "Not known: for at least 3 min 10 s in all, 2 partitions; the longest was orders-0: 3 min 00 s; orders-0 from"
        " 101 to 102 fell silent at 2026-11-21 08:41:39 UTC while it lacked 5 MB."
    )


def test_where_nobody_was_behind_nothing_is_known(spark: SparkSession) -> None:
    none = moves(spark)
    answers = [
        replica_times.answer_falling_behind(replica_times.falling_behind(none)),
        replica_times.answer_never_caught_up(replica_times.never_caught_up(none), Units.DECIMAL),
        replica_times.answer_under_replicated(replica_times.under_replicated(none), Units.DECIMAL),
    ]
    assert [one.verdict for one in answers] == [Verdict.UNKNOWN] * 3

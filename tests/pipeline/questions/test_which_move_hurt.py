"""Moves beside quotas that give way and followers that pause, written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.model.broker_pairs import Pair
from pipeline.questions import which_move_hurt
from pipeline.questions.answer import Verdict
from pipeline.units import Units
from tests.pipeline.frames import quotas, traffic
from tests.pipeline.journal_files import FIRST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

MOVE = Pair("101", "102", 6, 0, 5_000_000, FIRST + 100, FIRST + 200, 0.9)
ANOTHER = MOVE._replace(source="104", destination="105", began=FIRST + 100)


def in_sync(spark: SparkSession, seconds: Iterable[int]) -> DataFrame:
    """Seconds in which 101 sent something to 103, which is in sync."""
    rows: list[dict[str, Any]] = [{"at": at, "in_sync": True, "peer": "103", "fetch_offset": at} for at in seconds]
    return traffic(spark, rows)


def test_a_move_hurt_where_the_quota_gave_way_or_followers_paused_more_than_usual(spark: SparkSession) -> None:
    pressed = quotas(spark, [(99, 5.0), (150, 4.0), (160, 3.0), (201, 2.0)], reason="pressed")
    # Without a move one pause of 4 s in 200; with it, three in 100.
    seconds = [*range(30), *range(34, 110), *range(114, 150), *range(156, 180), *range(190, 300)]
    found = which_move_hurt.judged([MOVE, ANOTHER], pressed, in_sync(spark, seconds))
    (hurt,) = found.hurting
    assert (hurt.pair, hurt.pressed, hurt.paused_seconds) == (MOVE, 2, 4 + 6 + 10)
    assert 1.0 < hurt.usual_seconds < 3.0
    answer = which_move_hurt.answer(found, Units.DECIMAL)
    assert (answer.verdict, answer.number) == (Verdict.BAD, 1.0)
    assert answer.sentence == (
        "The move from 101 to 102, 5 MB in 1 min 40 s from 2026-11-21 08:41:40 UTC: a quota gave way to producers 2"
        " times, in-sync followers paused for 20 s (usual: 2 s)."
    )


def test_pauses_that_are_usual_are_nobodys_fault(spark: SparkSession) -> None:
    changed = quotas(spark, [(150, 4.0)], reason="change")
    found = which_move_hurt.judged([MOVE], changed, in_sync(spark, range(0, 300, 5)))
    assert found == (1, ())
    answer = which_move_hurt.answer(found, Units.DECIMAL)
    assert answer.verdict is Verdict.GOOD
    assert which_move_hurt.answer(which_move_hurt.Moved(0, ()), Units.DECIMAL).verdict is Verdict.UNKNOWN

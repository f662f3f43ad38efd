"""Rates inside a quota as journals tell them: which links they bound, what the models make of them, what is said."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pipeline.jobs.inner_rates import Bound, inside
from pipeline.model.fluid import Stream, finish_times
from pipeline.tables.schema import EVENTS
from tests.pipeline.frames import quota_rows, quotas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MB = 1_000_000.0
RACK = Bound("1", "leader", "rack b", frozenset("23"), 8 * MB)
PEER = Bound("1", "leader", "peer 2", frozenset("2"), 2 * MB)
TOLD = {"peers": {"2": 2e6}, "racks": {"b": {"bytes_per_second": 8e6, "brokers": [2, 3]}}, "topics": {"o-*": 5.0}}


def test_the_last_word_of_each_role_counts_and_what_no_model_of_links_has_is_said(spark: SparkSession) -> None:
    first = quotas(spark, [(0, 5.0)], broker=1, bounds=json.dumps({"peers": {"9": 1.0}}))
    then = quotas(spark, [(9, 5.0)], broker=1, bounds=json.dumps(TOLD), priorities="topic:o,under-min-isr")
    other = quotas(spark, [(9, 5.0)], broker=4, priorities="under-min-isr,under-replicated,moves")
    found = inside(first.unionByName(then).unionByName(other))
    assert set(found.bounds) == {RACK, PEER}
    assert [text.partition(":")[0] for text in found.left_out] == [
        "broker 1 as leader had rates of topics (o-*)",
        "broker 1 as leader had other rates inside the quota at other times",
        "broker 1 as leader had some go first (topic",
    ]
    assert found.in_words() == "peer 2 of broker 1 as leader, rack b of broker 1 as leader"


def test_what_is_true_of_every_broker_is_said_once(spark: SparkSession) -> None:
    """Of a fleet a sentence for each broker would be longer than the answer."""
    said = [row for broker in range(1, 8) for row in quota_rows([(0, 5.0)], broker=broker, bounds=json.dumps(TOLD))]
    (told,) = inside(spark.createDataFrame(said, EVENTS)).left_out
    roles = ", ".join(f"broker {broker} as leader" for broker in range(1, 6))
    assert told.startswith(f"{roles} and 2 more had rates of topics (o-*): ")


def test_what_was_only_observed_bounds_nothing(spark: SparkSession) -> None:
    assert not inside(quotas(spark, [(0, 5.0)], bounds=json.dumps(TOLD), enforce=False)).bounds


@pytest.mark.parametrize(
    ("quota", "bounds", "finishes"),
    [
        (20 * MB, (RACK, PEER), [50.0, 100 / 6, 100 / 12]),  # 2 of the rack's 8, the other 6, the role's other 12
        (20 * MB, (RACK,), [25.0, 25.0, 100 / 12]),
        (5 * MB, (RACK, PEER), [60.0, 60.0, 60.0]),  # each a third of the role's, below what the others allow
        (None, (PEER,), [50.0, 0.8, 0.8]),  # without a quota the rate inside it holds all the same
    ],
)
def test_the_model_holds_to_rates_of_racks_and_peers(
    quota: float | None, bounds: tuple[Bound, ...], finishes: list[float]
) -> None:
    quotas = {} if quota is None else {("1", "leader"): quota}
    streams = [Stream("1", other, 100 * MB) for other in "234"]
    fluid = finish_times(streams, quotas, bounds=bounds, line_bytes_per_second=125 * MB)
    assert fluid == pytest.approx(finishes, rel=1e-6)

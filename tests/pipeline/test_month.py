"""A month in small, as the sidecars' own ledgers write it: restarts, clocks that are wrong, a link that is starved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from benchmarks.month.journals import write
from benchmarks.month.outages import Month
from pipeline.jobs import audit
from pipeline.journals.ingest import ingest
from pipeline.questions import who_was_starved
from pipeline.tables import CachedFrames, Tables
from tests.pipeline.frames import moves_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

MONTH = Month(brokers=9, days=2, scale=0.2)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("month")
    return {"folder": folder, **write(MONTH, folder / "journals")}


@pytest.fixture(scope="module")
def tables(spark: SparkSession, truth: dict[str, Any]) -> Tables:
    folder = truth["folder"]
    outcome = ingest(spark, [str(folder / "journals")], str(folder / "tables"))
    assert outcome.is_complete
    return Tables(spark, str(folder / "tables"))


def test_bytes_of_every_broker_are_those_that_its_ledger_was_told(tables: Tables, truth: dict[str, Any]) -> None:
    rows = tables.seconds.groupBy("broker", "role").agg(F.sum("record_bytes").alias("bytes")).collect()
    found = {f"{row.broker} {row.role}": row.bytes for row in rows}
    assert found == {key: size for key, size in truth["bytes"].items() if size}


def test_every_time_behind_is_one_move_with_its_bytes(tables: Tables, truth: dict[str, Any]) -> None:
    """Of a move that is over within the line in which it began, what it brought before anything was known of the
    replica is in one sum with what came when it was in sync, so that only the shape tells them apart."""
    with CachedFrames() as held:
        (found,) = moves_of(tables, held).agg(
            F.count("*").alias("moves"), F.sum("bytes").alias("bytes"), F.count_if("finished").alias("finished")
        ).collect()  # fmt: skip
    assert (found.moves, found.finished) == (truth["moves"], truth["moves"])
    assert found.bytes == pytest.approx(truth["moved_bytes"], rel=1e-4)


def test_nobody_but_who_did_broke_the_bound(tables: Tables, truth: dict[str, Any]) -> None:
    judged = audit.summary(audit.seconds_with_quota(tables.seconds, tables.events))
    assert sorted(f"{row.broker} {row.role}" for row in judged.where("verdict = 'broken'").collect()) == sorted(
        truth["broken"]
    )


def test_the_link_that_was_passed_over_is_found(tables: Tables, truth: dict[str, Any]) -> None:
    rows = who_was_starved.facts(tables).rows
    assert {(row.broker, int(row.peer)) for row in rows} == {tuple(pair) for pair in truth["starved"]}
    assert max(row.minutes for row in rows) >= 4

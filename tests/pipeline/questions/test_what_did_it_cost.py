"""Bytes by topic and by pair of racks, each once for both ends, and their price."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pipeline.journals.ingest import ingest
from pipeline.questions import what_did_it_cost
from pipeline.questions.answer import Verdict
from pipeline.questions.what_did_it_cost import GIB
from pipeline.tables import Tables
from pipeline.tables.scope import Scope
from pipeline.units import Units
from tests.pipeline.frames import quotas, traffic
from tests.pipeline.journal_files import FIRST, traffic_line, write_file

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


def opened(spark: SparkSession, **racks: str) -> DataFrame:
    frames = [
        quotas(spark, [(0, None)], kind="file_opened", broker=int(broker.removeprefix("of_")), rack=rack)
        for broker, rack in racks.items()
    ]
    found = frames[0]
    for frame in frames[1:]:
        found = found.unionByName(frame)
    return found


def sent(spark: SparkSession) -> DataFrame:
    """3 GiB of logs and 1 of orders from 101 to 102, which says less of it, and 2 of orders from 101 to 103."""
    return traffic(
        spark,
        [
            {"at": 0, "topic": "logs", "record_bytes": GIB},
            {"at": 1, "topic": "logs", "record_bytes": 2 * GIB, "in_sync": True, "throttled": False},
            {"at": 1, "topic": "logs", "record_bytes": 2 * GIB, "broker": 102, "role": "follower", "peer": "101"},
            {"at": 2, "record_bytes": GIB},
            {"at": 2, "record_bytes": 2 * GIB, "peer": "103"},
        ],
    )


def test_bytes_between_racks_have_a_price(spark: SparkSession) -> None:
    found = what_did_it_cost.carried(sent(spark), opened(spark, of_101="a", of_102="b", of_103="a"))
    assert found.topics == (("logs", 3 * GIB), ("orders", 3 * GIB))
    assert found.racks == (("a", "b", 4 * GIB), ("a", "a", 2 * GIB))
    answer = what_did_it_cost.answer(found, Units.BINARY, price=0.01)
    assert (answer.verdict, answer.number, answer.unit) == (Verdict.GOOD, pytest.approx(0.04), "price")
    assert answer.sentence == "4 GiB between racks, 0.04 at 0.01 a GiB, of 6 GiB in 2 topics in all."
    assert answer.evidence[:2] == ("rack a to rack b: 4 GiB, 0.04", "rack a to rack a: 2 GiB")
    assert what_did_it_cost.answer(found, Units.BINARY).number == 4 * GIB


def test_of_one_broker_the_racks_of_its_peers_are_known(spark: SparkSession, tmp_path: Path) -> None:
    """With `--broker` it said that no journal says racks."""
    for broker, rack, lines in ((101, "a", [traffic_line(FIRST)]), (102, "b", [traffic_line(FIRST, broker=102)])):
        write_file(tmp_path / "journal", lines=lines, broker=broker, rack=rack)
    ingest(spark, [str(tmp_path / "journal")], str(tmp_path / "tables"))
    tables = Tables(spark, str(tmp_path / "tables"), Scope(brokers=(101,)))
    assert what_did_it_cost.facts(tables).racks == (("a", "b", 1018),)


def test_what_is_not_known_of_racks_is_said(spark: SparkSession) -> None:
    part = what_did_it_cost.carried(sent(spark), opened(spark, of_101="a", of_102="b"))
    assert (part.between, part.unknown) == (4 * GIB, 2 * GIB)
    doubts = what_did_it_cost.answer(part, Units.BINARY).uncertainty
    assert "of 2 GiB the journals do not say both racks" in doubts
    nothing = what_did_it_cost.carried(sent(spark), opened(spark, of_109="a"))
    answer = what_did_it_cost.answer(nothing, Units.BINARY, price=1.0)
    assert (answer.verdict, answer.unit) == (Verdict.UNKNOWN, "price")
    assert "which of it went between racks is not known" in answer.sentence

"""docs/pipeline.md, "Columns of the results": names, types and order are those of the results themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pipeline.commands.measurements import at_the_end
from pipeline.jobs import audit, lag, moves, partition_sizes, rates
from pipeline.model import duration_curve
from pipeline.model.duration_curve import WhatIf
from pipeline.model.fluid import Stream
from pipeline.questions.will_it_finish import Finish
from pipeline.tables.delta import Compacted
from tests.pipeline.frames import moves as moves_of_rows
from tests.pipeline.frames import quotas, traffic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECTION = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text("utf-8")
SECTION = SECTION.partition("\n## Columns of the results\n")[2].partition("\n## ")[0]
WHAT_IF = WhatIf("x", 1.0, None)


class Column(NamedTuple):
    name: str
    kind: str


def tables_below(heading: str) -> list[list[Column]]:
    """The tables of a part of the section, each its columns in order. A row may have several of one type; a type that
    is not said is that of the table at the head."""
    part = SECTION.partition(f"\n### `{heading}`\n")[2] if heading else SECTION
    found: list[list[Column]] = []
    for line in part.partition("\n### ")[0].splitlines():
        if line.startswith("| column |"):
            found.append([])
        elif line.startswith("| `"):
            names, kind, _ = (cell.strip() for cell in line.strip("|").split("|", 2))
            found[-1] += [Column(name, kind or COMMON[name]) for name in re.findall(r"`(\w+)`", names)]
    return found


COMMON: dict[str, str] = {}
COMMON.update({column.name: column.kind for column in tables_below("")[0]})


def columns(frame: DataFrame) -> list[Column]:
    return [Column(field.name, field.dataType.typeName()) for field in frame.schema]


@pytest.mark.parametrize("by", rates.LEVELS)
def test_rates(spark: SparkSession, by: str) -> None:
    level = rates.LEVELS[by]
    (told,) = tables_below("rates")
    left_out = {"peer", "topic", "partition"} - {*level}
    found = rates.windowed(rates.per_second(traffic(spark, []), level), level)
    assert columns(found) == [column for column in told if column.name not in left_out]


def test_audit(spark: SparkSession) -> None:
    seconds = audit.seconds_with_quota(traffic(spark, []), quotas(spark, [(0, 1.0)]))
    told, evidence = tables_below("audit")
    assert columns(audit.summary(seconds)) == told
    assert columns(audit.violations(seconds)) == evidence


def test_lag(spark: SparkSession) -> None:
    lines, said = traffic(spark, []), quotas(spark, [(0, 1.0)])
    found = lag.progress(lag.sum_replica_lag(lag.per_replica(lines)), said)
    told, history, stalls = tables_below("lag")
    assert columns(at_the_end(found, Finish(None))) == told
    assert columns(found) == history
    assert columns(lag.stalls(found, lines, said)) == stalls


def test_moves(spark: SparkSession) -> None:
    lines, said = traffic(spark, []), quotas(spark, [(0, 1.0)])
    found = moves_of_rows(lines, said)
    told, by_source = tables_below("moves")
    assert columns(found) == told
    assert (
        columns(
            moves.by_source(
                found, partition_sizes.partition_sizes(partition_sizes.whole(partition_sizes.SUMMARY.of(lines)))
            )
        )
        == by_source
    )


def test_replay(spark: SparkSession) -> None:
    (told,) = tables_below("replay")
    fluid = duration_curve.fluid(spark, [Stream("1", "2", 1.0)], [WHAT_IF], line_bytes_per_second=1.0)
    assert columns(fluid) == told


def test_compact(spark: SparkSession) -> None:
    (told,) = tables_below("compact")
    one = spark.createDataFrame([("lines", *Compacted(0, 0, 0, 0))], ["table", *Compacted._fields])
    assert columns(one) == told

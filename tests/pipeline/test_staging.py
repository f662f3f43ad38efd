"""What an ingest does to partitions that have rows already: to their files, and to what is read of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pipeline import staging
from pipeline.ingest import ingest
from pipeline.tables import Tables
from tests.pipeline.journals import FIRST, traffic_line, write_file

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

NAMES = ("traffic", "seconds", "events")


def test_rows_are_added_to_a_day_until_it_has_many_files_then_it_is_written_anew(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third file of a journal is fed with the second once more, of which nothing is taken."""
    out = tmp_path / "tables"

    def fed(number: int, lines: list[str]) -> dict[str, set[str]]:
        write_file(tmp_path / str(number), number=number, lines=lines)
        ingest(spark, [str(tmp_path / str(number))], str(out))
        return {name: set(Tables(spark, str(out)).read(name).inputFiles()) for name in NAMES}

    first = fed(1, [traffic_line(FIRST), traffic_line(FIRST + 1)])
    second = fed(2, [traffic_line(FIRST + 2)])
    monkeypatch.setattr(staging, "MOST_FILES", 2)
    third = fed(3, [traffic_line(FIRST + 2), traffic_line(FIRST + 3)])
    for name in NAMES:
        assert len(first[name]) == 1
        assert first[name] < second[name]
        assert not third[name] & second[name]
    tables = Tables(spark, str(out))
    for frame in (tables.traffic, tables.seconds):
        assert sorted(row.time - FIRST for row in frame.collect()) == [0, 1, 2, 3]

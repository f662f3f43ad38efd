"""Which of several copies of a journal file are read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from journal_schema import VERSION
from pipeline.journals.parse_lines import may_be_understood
from pipeline.tables.file_accounts import to_read
from pipeline.tables.schema import FILES
from tests.pipeline.journal_files import FIRST as SATURDAY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "journal-101-20261121T084000Z-000001.ndjson.gz"


def rows(spark: SparkSession, *said: dict[str, Any]) -> DataFrame:
    """Of the files table: a file of 100 bytes of 2026 that is corrupt, unless it is said otherwise."""
    common = {"source": NAME, "size_bytes": 100, "modified": datetime(2026, 11, 21, tzinfo=UTC), "state": "corrupt"}
    fields = [{**dict.fromkeys(FILES.names), **common, "lines": 0, "quarantined": 0, "taken": 0, **one} for one in said]
    return spark.createDataFrame([tuple(one[name] for name in FILES.names) for one in fields], FILES)


def chosen(found: DataFrame, known: DataFrame, *set_aside: str) -> tuple[list[str], int]:
    """With the reasons for which lines of the one file were set aside."""
    lines = found.sparkSession.createDataFrame(
        [(NAME, reason) for reason in set_aside], "source string, problem string"
    )
    understood = lines.where(may_be_understood(SATURDAY)).select("source").distinct().collect()
    done = to_read(found, known, [row.source for row in understood])
    return done.paths, done.skipped


@pytest.mark.parametrize(
    ("reason", "again"),
    [
        (f"schema version 9 is not {VERSION}", False),
        (f"schema version {VERSION} is not {VERSION - 1}", True),
        ("its clock is in the future: 2026-11-22", False),
        ("its clock is in the future: 2026-11-21", False),  # perhaps later on that day
        ("its clock is in the future: 2026-11-20", True),
        ("unknown kind weather", False),
    ],
)
@pytest.mark.parametrize("state", ["whole", "torn"])
def test_a_file_with_lines_set_aside_is_read_again_only_if_they_may_be_understood_by_now(
    spark: SparkSession, state: str, reason: str, again: bool
) -> None:
    """It would be incomplete at every run, for ever."""
    found, known = rows(spark, {"path": "/a"}), {"path": "/a", "state": state}
    assert chosen(found, rows(spark, {**known, "quarantined": 1}), reason) == ((["/a"], 0) if again else ([], 1))
    # What was set aside then is still in its table, though the file was read again without such a line.
    assert chosen(found, rows(spark, known), reason) == ([], 1)


@pytest.mark.parametrize("state", ["corrupt", "unreadable", "unread", "damaged"])
def test_every_copy_of_a_bad_file_is_tried_but_the_one_that_was_bad(spark: SparkSession, state: str) -> None:
    copies = rows(spark, *({"path": path} for path in ("/a", "/b", "/c")))
    assert chosen(copies, rows(spark)) == (["/a"], 2)
    assert chosen(copies, rows(spark, {"path": "/a", "state": state})) == (["/b", "/c"], 1)


def test_without_a_copy_the_bad_one_is_tried_again(spark: SparkSession) -> None:
    assert chosen(rows(spark, {"path": "/a"}), rows(spark, {"path": "/a"})) == (["/a"], 0)


def test_a_bad_one_that_was_written_anew_is_a_copy_as_any_other(spark: SparkSession) -> None:
    later = {"path": "/a", "modified": datetime(2026, 11, 22, tzinfo=UTC)}
    assert chosen(rows(spark, later, {"path": "/b"}), rows(spark, {"path": "/a"})) == (["/a"], 1)
    assert chosen(rows(spark, later, {"path": "/b"}), rows(spark, {"path": "/b"})) == (["/a"], 1)

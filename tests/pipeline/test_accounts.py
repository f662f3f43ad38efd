"""Which of several copies of a journal file are read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from pipeline.accounts import to_read
from pipeline.schema import FILES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "journal-101-20261121T084000Z-000001.ndjson.gz"


def rows(spark: SparkSession, *said: dict[str, Any]) -> DataFrame:
    """Of the files table: a file of 100 bytes of 2026 that is corrupt, unless it is said otherwise."""
    common = {"source": NAME, "size_bytes": 100, "modified": datetime(2026, 11, 21, tzinfo=UTC), "state": "corrupt"}
    fields = [{**dict.fromkeys(FILES.names), **common, "lines": 0, "quarantined": 0, **one} for one in said]
    return spark.createDataFrame([tuple(one[name] for name in FILES.names) for one in fields], FILES)


@pytest.mark.parametrize("state", ["corrupt", "unreadable", "unread", "damaged"])
def test_every_copy_of_a_bad_file_is_tried_but_the_one_that_was_bad(spark: SparkSession, state: str) -> None:
    copies = rows(spark, *({"path": path} for path in ("/a", "/b", "/c")))
    assert to_read(copies, rows(spark)) == (["/a"], 2)
    assert to_read(copies, rows(spark, {"path": "/a", "state": state})) == (["/b", "/c"], 1)


def test_without_a_copy_the_bad_one_is_tried_again(spark: SparkSession) -> None:
    assert to_read(rows(spark, {"path": "/a"}), rows(spark, {"path": "/a"})) == (["/a"], 0)


def test_a_bad_one_that_was_written_anew_is_a_copy_as_any_other(spark: SparkSession) -> None:
    later = {"path": "/a", "modified": datetime(2026, 11, 22, tzinfo=UTC)}
    assert to_read(rows(spark, later, {"path": "/b"}), rows(spark, {"path": "/a"})) == (["/a"], 1)
    assert to_read(rows(spark, later, {"path": "/b"}), rows(spark, {"path": "/b"})) == (["/a"], 1)

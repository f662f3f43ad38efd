"""One Delta table: two writers at once, a reader beside them, and its files put together."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from delta.exceptions.captured import ConcurrentAppendException
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from pipeline.tables import Tables, delta
from pipeline.tables.storage import Storage

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

NUMBERS = StructType([StructField("number", LongType())])


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> str:
    path = f"file:{tmp_path}/numbers"
    delta.create(spark, path, NUMBERS, ())
    delta.create(spark, path, NUMBERS, ())
    return path


def insert(spark: SparkSession, path: str, *numbers: int) -> None:
    rows = spark.createDataFrame([(number,) for number in numbers], NUMBERS)
    delta.insert_new(spark, path, rows, identity=["number"], where=lambda _: F.lit(True))


def numbers(frame: DataFrame | None) -> list[int]:
    assert frame is not None
    return sorted(row.number for row in frame.collect())


def test_what_two_insert_at_once_is_there_once(spark: SparkSession, place: str) -> None:
    """By the kernel's lock alone: on a local disk one of two commits of a number could take the place of the other."""
    writers = [
        threading.Thread(target=insert, args=(spark, place, *parts)) for parts in ((1, 2, 3), (2, 3, 4), (3, 4, 5))
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert numbers(delta.read(spark, Storage(spark, place), place)) == [1, 2, 3, 4, 5]


def test_another_writer_waits_for_the_lock(tmp_path: Path) -> None:
    path, begun = f"file:{tmp_path}/t", threading.Event()

    def other() -> None:
        with delta.writing(path):
            begun.set()

    with delta.writing(path):
        waits = threading.Thread(target=other)
        waits.start()
        assert not begun.wait(0.2)
    waits.join()
    assert begun.is_set()
    with delta.writing("s3a://lake/t"):
        assert not (tmp_path / "s3a:").exists()


def test_a_conflict_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As Delta refuses a commit on HDFS, say, where another one was faster."""
    left = [ConcurrentAppendException(desc="", stackTrace=""), ConcurrentAppendException(desc="", stackTrace="")]
    monkeypatch.setattr(time, "sleep", lambda _: None)

    def attempt() -> None:
        if left:
            raise left.pop()

    delta._retried(str(tmp_path / "t"), attempt)
    assert left == []
    monkeypatch.setattr(delta, "_TRIES", 1)
    left.append(ConcurrentAppendException(desc="", stackTrace=""))
    with pytest.raises(ConcurrentAppendException):
        delta._retried(str(tmp_path / "t"), attempt)


def test_a_local_path_may_be_a_uri(spark: SparkSession, tmp_path: Path) -> None:
    """With three slashes Delta Lake said that there were two locations."""
    tables = Tables(spark, f"file://{tmp_path}/t/")
    delta.create(spark, tables.path("numbers"), NUMBERS, ())
    insert(spark, tables.path("numbers"), 1)
    assert numbers(delta.read(spark, tables.storage, str(tmp_path / "t" / "numbers"))) == [1]


def test_a_reader_sees_one_version_to_its_end(spark: SparkSession, place: str) -> None:
    """Beside a writer, beside what puts small files together, and beside what removes old ones."""
    storage = Storage(spark, place)
    for number in range(3):
        insert(spark, place, number)
    before = delta.read(spark, storage, place)
    insert(spark, place, 3)
    spark.sql(f"OPTIMIZE delta.`{place}`")
    assert numbers(before) == [0, 1, 2]
    assert numbers(delta.read(spark, storage, place)) == [0, 1, 2, 3]


def test_compacting_puts_files_together_and_changes_no_row(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "numbers")
    delta.create(spark, path, NUMBERS, ())
    insert(spark, path, 1)
    insert(spark, path, 2)
    done = delta.compact(spark, path)
    assert (done.files_before, done.files) == (2, 1)
    assert numbers(delta.read(spark, Storage(spark, path), path)) == [1, 2]


def test_rows_of_some_values_are_replaced_in_one_commit(spark: SparkSession, place: str) -> None:
    insert(spark, place, 1, 2, 3)
    rows = spark.createDataFrame([(2,), (4,)], NUMBERS)
    delta.replace(spark, place, rows, of="number", among=["1", "2", "4"])
    assert numbers(delta.read(spark, Storage(spark, place), place)) == [2, 3, 4]

"""Live journals: what is written once, killed or not, and what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pipeline.stream import LATE_SECONDS, exposition, start, state, write_textfile
from tests.pipeline.journals import FIRST, traffic_line, write_file

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SECONDS = 200


def lines(first: int, end: int) -> list[str]:
    """10 messages a second of 3000, in two partitions."""
    return [
        traffic_line(FIRST + at, partitions=(0, 1), fetch_offset=10 * at, high_watermark=3000, omitted=1)
        for at in range(first, end)
    ]


def drained(spark: SparkSession, folder: Path) -> list[Any]:
    start(spark, str(folder / "journal"), str(folder / "live"), once=True).awaitTermination()
    return spark.read.parquet(str(folder / "live" / "seconds")).orderBy("time").collect()


def test_seconds_are_written_once_although_it_is_stopped_between_batches(spark: SparkSession, tmp_path: Path) -> None:
    write_file(tmp_path / "journal", number=1, lines=lines(0, 100))
    write_file(tmp_path / "journal", number=3, lines=lines(100, 120), name_ends=".open.ndjson.gz", closed=False)
    first = drained(spark, tmp_path)
    write_file(tmp_path / "journal", number=2, lines=lines(100, SECONDS))
    rows = drained(spark, tmp_path)
    assert rows[: len(first)] == first
    # What the watermark has not passed yet stays in the checkpoint's state.
    assert [row.time - FIRST for row in rows] == list(range(SECONDS - LATE_SECONDS - 1))
    assert {(row.broker, row.role, row.bytes, row.omitted, row.behind) for row in rows} == {(101, "leader", 2036, 2, 2)}
    assert rows[50].lag == 2 * (3000 - 500)
    (now,) = state(spark.read.parquet(str(tmp_path / "live" / "seconds"))).collect()
    assert (now.drain, now.stalled, now.rate) == (pytest.approx(20.0), False, pytest.approx(2036.0))
    assert now.eta_seconds == pytest.approx(now.lag / 20)


def test_a_stall_is_seen(spark: SparkSession) -> None:
    rows = [(FIRST + at, 101, "leader", 0, 0, 5, 1, 1000 + at) for at in range(30)]
    frame = spark.createDataFrame(
        rows,
        "time long, broker long, role string, bytes long, in_sync_bytes long, omitted long, behind long, lag long",
    )
    (now,) = state(frame).collect()
    assert (now.stalled, now.eta_seconds) == (True, None)
    text = exposition([now])
    assert 'replication_pipeline_stalled{broker="101",role="leader"} 1\n' in text
    assert "eta_seconds{" not in text


def test_the_textfile_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.prom"
    for text in ("one\n", "two\n"):
        write_textfile(path, text)
    assert path.read_text() == "two\n"
    assert [found.name for found in tmp_path.iterdir()] == ["pipeline.prom"]

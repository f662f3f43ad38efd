"""What went wrong in Java, or in Python on its behalf, as a line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from pipeline.cli import main
from pipeline.errors import first_line, root_cause
from pipeline.tables import Tables

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def test_what_a_python_worker_failed_of_is_said(spark: SparkSession) -> None:
    def fails(_: int) -> int:
        raise ValueError("expected a quota, found none")

    with pytest.raises(PySparkException) as error:
        spark.range(1).select(F.udf(fails, "long", useArrow=False)("id")).collect()
    for line in (first_line(error.value), root_cause(error.value)):
        assert line == "a Python worker failed: ValueError: expected a quota, found none"


def test_a_wrong_query_is_its_first_line(spark: SparkSession) -> None:
    with pytest.raises(PySparkException) as error:
        spark.range(1).select("nothing").collect()
    assert first_line(error.value).startswith("[UNRESOLVED_COLUMN")


def failed(spark: SparkSession, error: Any) -> Py4JJavaError:
    """What Python sees of this exception of Java's."""
    jvm: Any = spark._jvm
    with pytest.raises(Py4JJavaError) as caught:
        jvm.java.util.concurrent.CompletableFuture.failedFuture(error).join()
    return caught.value


def test_a_mistake_of_sparks_is_said_to_be_its_own_and_what_to_do(spark: SparkSession) -> None:
    """As a job of Spark that was stopped for ten minutes ends."""
    jvm: Any = spark._jvm
    why = 'Cannot invoke "BlockManagerId.executorId()" because "idWithoutTopologyInfo" is null'
    said = first_line(failed(spark, jvm.java.lang.NullPointerException(why)))
    assert said.startswith("Spark itself failed, not of anything that it was given: run it again.")
    assert "stood still for some minutes" in said
    assert said.endswith(f"NullPointerException: {why})")
    assert "\n" not in said


EXECUTOR_LOST = (
    "Job aborted due to stage failure: Task 0 in stage 7.0 failed 1 times, most recent failure: Lost task 0.0:"
    " ExecutorLostFailure (executor driver exited) Reason: Executor heartbeat timed out after 605123 ms"
)


@pytest.mark.parametrize("why", [EXECUTOR_LOST, "Job 3 cancelled because SparkContext was shut down"])
def test_spark_that_counts_itself_as_dead_is_said(spark: SparkSession, why: str) -> None:
    jvm: Any = spark._jvm
    said = first_line(failed(spark, jvm.org.apache.spark.SparkException(why)))
    assert said.startswith("Spark itself failed")
    assert why in said


def test_what_an_operator_can_put_right_is_said_as_it_is(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    said = first_line(failed(spark, jvm.java.io.IOException("Stale file handle")))
    assert said.endswith("java.io.IOException: Stale file handle")
    assert "Spark itself" not in said


def test_a_full_disk_is_told_as_such_however_deep_it_is(spark: SparkSession) -> None:
    """It was `[TASK_WRITE_FAILED] Task failed while writing rows`."""
    jvm: Any = spark._jvm
    full = jvm.java.io.IOException("No space left on device")
    outer = jvm.org.apache.spark.SparkException("[TASK_WRITE_FAILED] Task failed while writing rows to file:/t.", full)
    said = first_line(failed(spark, outer))
    assert said.startswith("No space left on device: that of the tables or of the result, or Spark's own")
    assert "\n" not in said


GONE = [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "Connection refused")]


@pytest.mark.parametrize("error", [None, *GONE], ids=["a mistake", "a JVM that ends", "one that has ended"])
def test_it_is_one_line_and_exit_status_1(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception | None,
) -> None:
    """Which of both Python has of a JVM that was killed depends on the moment."""
    jvm: Any = spark._jvm

    def fails(_: object) -> None:
        if error is not None:
            raise error
        jvm.java.util.Objects.requireNonNull(None)

    monkeypatch.setattr(Tables, "require", fails)
    assert main(["lag", str(tmp_path), "--master", "local[2]"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: Spark")
    assert "run it again" in said
    assert len(said.splitlines()) == 1

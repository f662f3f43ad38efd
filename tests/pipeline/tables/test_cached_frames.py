"""What several parts of an answer ask is worked out once, and given back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from benchmarks.ring import Cluster
from pipeline.report.facts import collect
from pipeline.tables import CachedFrames
from tests.pipeline.frames import ingested, moves_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipeline.tables import Tables

pytestmark = pytest.mark.long

CLUSTER = Cluster(brokers=2, partitions=40, seconds=300)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return ingested(spark, CLUSTER, tmp_path_factory.mktemp("held"))


@pytest.fixture(autouse=True)
def nothing_of_others(spark: SparkSession) -> None:
    """The session is that of all tests of this process, and some of them leave behind what they held."""
    spark.catalog.clearCache()


class Work:
    """Rows that stages read of files and of what is held, and that they moved to others, since it was made."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._last_before = max((one.stageId() for one in self._stages()), default=-1)

    @property
    def shuffled(self) -> int:
        return sum(one.shuffleWriteRecords() for one in self._since())

    @property
    def read(self) -> int:
        return sum(one.inputRecords() for one in self._since())

    def _since(self) -> list[Any]:
        """Told by their numbers: of a session's stages Spark forgets the oldest, so that sums over all of them fall."""
        return [one for one in self._stages() if one.stageId() > self._last_before]

    def _stages(self) -> list[Any]:
        context = self._spark.sparkContext
        gateway = context._gateway
        assert gateway is not None
        jvm = gateway.jvm
        context._jsc.sc().listenerBus().waitUntilEmpty()
        none = gateway.new_array(jvm.double, 0)
        stages = context._jsc.sc().statusStore().stageList(None, False, False, none, jvm.java.util.ArrayList())
        return [stages.apply(place) for place in range(stages.size())]


def nothing_is_held(spark: SparkSession) -> bool:
    return bool(spark._jsparkSession.sharedState().cacheManager().isEmpty())


def test_moves_move_each_row_once(spark: SparkSession, tables: Tables) -> None:
    """Bytes, minutes and who shared them are asked of the same times behind: that was four scans and four shuffles.
    What is read are lines: once for the rows, once for the seconds."""
    work = Work(spark)
    with CachedFrames() as held:
        assert len(moves_of(tables, held).collect()) == CLUSTER.partitions
    assert CLUSTER.rows <= work.shuffled < 1.5 * CLUSTER.rows
    assert 2 * CLUSTER.lines <= work.read < 3 * CLUSTER.lines


def test_a_report_moves_each_row_twice_and_leaves_nothing_behind(spark: SparkSession, tables: Tables) -> None:
    """For lags by replica, and for moves by both ends; for the pace those of the last five minutes, here all, again."""
    work = Work(spark)
    assert collect(tables).recorded.pairs
    assert 3 * CLUSTER.rows <= work.shuffled < 3.9 * CLUSTER.rows
    assert nothing_is_held(spark)


def test_what_is_held_is_given_back_after_an_error(spark: SparkSession) -> None:
    with pytest.raises(ZeroDivisionError), CachedFrames() as held:  # noqa: PT012
        assert held.once(spark.range(3)).count() == 3
        assert not nothing_is_held(spark)
        _ = 1 / 0
    assert nothing_is_held(spark)


def test_what_is_held_has_few_parts_where_rows_are_few(spark: SparkSession) -> None:
    """A cluster's session has Spark's 200, and each was a task whenever what is held was made or read."""
    settings = {"spark.sql.shuffle.partitions": "200", "spark.sql.adaptive.enabled": "true"}
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        with CachedFrames() as held:
            frame = held.once(spark.range(1000).repartition("id").groupBy("id").count())
            assert frame.count() == 1000
            assert frame.select(F.spark_partition_id()).distinct().count() <= spark.sparkContext.defaultParallelism
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)

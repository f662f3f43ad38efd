"""Literal tables for tests: what is not said is as in `journals.TRAFFIC`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row

from benchmarks.ring import write
from pipeline.jobs.moves import paced, times_behind
from pipeline.jobs.times_behind import SUMMARY, whole
from pipeline.journals.ingest import ingest
from pipeline.tables import Tables
from pipeline.tables.schema import EVENTS, TRAFFIC
from tests.pipeline.journal_files import FIRST, JOURNAL
from tests.pipeline.journal_files import TRAFFIC as LINE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.ring import Cluster
    from pipeline.tables import CachedFrames


def ingested(spark: SparkSession, cluster: Cluster, folder: Path) -> Tables:
    """The tables of a made-up cluster, and its journals beside them."""
    write(cluster, folder / "journal")
    outcome = ingest(spark, [str(folder / "journal")], str(folder / "tables"))
    assert (outcome.lines, outcome.quarantined) == (cluster.lines, 0)
    return Tables(spark, str(folder / "tables"))


def traffic(spark: SparkSession, rows: Iterable[dict[str, Any]]) -> DataFrame:
    """`at` is the second since FIRST. A replica begins where its last row ended; wire bytes are the record bytes."""
    lines = []
    reached: dict[tuple[object, ...], int] = {}
    for row in rows:
        time = FIRST + row["at"]
        size = row.get("record_bytes", LINE["record_bytes"])
        line = {**JOURNAL, **LINE, "time": time, "tick": row["at"], "line_tick": row["at"], "wire_bytes": size, **row}
        replica = tuple(line[name] for name in ("broker", "role", "peer", "topic", "partition"))
        line.setdefault("fetch_offset_before", min(reached.get(replica, line["fetch_offset"]), line["fetch_offset"]))
        reached[replica] = line["fetch_offset"]
        line["date"] = datetime.fromtimestamp(time, UTC).date()
        lines.append(tuple(line[name] for name in TRAFFIC.names))
    return spark.createDataFrame(lines, TRAFFIC)


def moves(lines: DataFrame, events: DataFrame) -> DataFrame:
    """The moves of rows of traffic, which stand for the exact seconds of links as well."""
    return paced(whole(SUMMARY.of(lines)), lines, events)


def moves_of(tables: Tables, held: CachedFrames) -> DataFrame:
    """The moves of tables, as the command `moves` has them."""
    return paced(held.once(times_behind(tables)), tables.seconds, tables.events)


def quotas(spark: SparkSession, said: Iterable[tuple[int, float | None]], **values: Any) -> DataFrame:
    """Quota events: (second since FIRST, bytes per second) of broker 101 as leader, unless `values` say otherwise."""
    return spark.createDataFrame(quota_rows(said, **values), EVENTS)


def quota_rows(said: Iterable[tuple[int, float | None]], **values: Any) -> list[tuple[object, ...]]:
    rows = []
    for at, bytes_per_second in said:
        line = {
            **dict.fromkeys(EVENTS.names), **JOURNAL, "kind": "quota", "time": FIRST + at, "tick": at,
            "role": "leader", "bytes_per_second": bytes_per_second, "policy": "strict", "enforce": True,
            "selection": "*", "reason": "change", "date": datetime.fromtimestamp(FIRST + at, UTC).date(), **values,
        }  # fmt: skip
        rows.append(tuple(line[name] for name in EVENTS.names))
    return rows


class Scenarios:
    """Scenarios that one job answers at once, each with broker ids of its own: its number times `APART` more.

    Most of a small job's time is planning it: ten scenarios take as long as one.
    """

    APART = 10_000

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []
        self._said: list[tuple[object, ...]] = []
        self._count = 0

    def add(self, rows: Iterable[dict[str, Any]], *said: dict[str, Any]) -> int:
        """Return the scenario's number. said: arguments of `quotas`, one each."""
        more = self._count * self.APART
        for row in rows:
            own = {**JOURNAL, **LINE, **row}
            self._rows.append({**row, "broker": own["broker"] + more, "peer": str(int(own["peer"]) + more)})
        for one in said:
            self._said += quota_rows(**{**one, "broker": one.get("broker", JOURNAL["broker"]) + more})
        self._count += 1
        return self._count - 1

    def frames(self, spark: SparkSession) -> tuple[DataFrame, DataFrame]:
        """Return the traffic and the events of all scenarios."""
        return traffic(spark, self._rows), spark.createDataFrame(self._said, EVENTS)

    def split(self, rows: Iterable[Row], *ids: str) -> dict[int, list[Any]]:
        """Return rows by scenario, in their order, with the broker ids (columns `ids`) that it had."""
        found: dict[int, list[Any]] = {number: [] for number in range(self._count)}
        for row in rows:
            own = {name: type(row[name])(int(row[name]) % self.APART) for name in ids}
            found[int(row[ids[0]]) // self.APART].append(Row(**{**row.asDict(), **own}))
        return found

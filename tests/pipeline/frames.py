"""Literal tables for tests: what is not said is as in `journals.TRAFFIC`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pipeline.tables.schema import EVENTS, TRAFFIC
from tests.pipeline.journal_files import FIRST, JOURNAL
from tests.pipeline.journal_files import TRAFFIC as LINE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession


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


def quotas(spark: SparkSession, said: Iterable[tuple[int, float | None]], **values: Any) -> DataFrame:
    """Quota events: (second since FIRST, bytes per second) of broker 101 as leader, unless `values` say otherwise."""
    rows = []
    for at, bytes_per_second in said:
        line = {
            **dict.fromkeys(EVENTS.names), **JOURNAL, "kind": "quota", "time": FIRST + at, "tick": at,
            "role": "leader", "bytes_per_second": bytes_per_second, "policy": "strict", "enforce": True,
            "selection": "*", "reason": "change", "date": datetime.fromtimestamp(FIRST + at, UTC).date(), **values,
        }  # fmt: skip
        rows.append(tuple(line[name] for name in EVENTS.names))
    return spark.createDataFrame(rows, EVENTS)

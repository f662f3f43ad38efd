"""Journal files and lines for tests, as a sidecar writes them."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

from journal_schema import VERSION, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

FIRST = 1_795_250_400
"""2026-11-21T08:40:00Z: a Saturday, and long before midnight."""
JOURNAL: dict[str, Any] = {"v": VERSION, "kind": "", "time": 0, "broker": 101, "run": "a", "tick": 0}
TRAFFIC: dict[str, Any] = {
    "role": "leader", "peer": "102", "topic": "orders", "partition": 0, "throttled": True, "in_sync": False,
    "record_bytes": 1000, "wire_bytes": 1018, "fetches": 1, "omitted": 0,
    "fetch_offset": 100, "high_watermark": 900, "log_start_offset": 0,
}  # fmt: skip


def traffic_line(time: int, *, partitions: Sequence[int] = (0,), **values: Any) -> str:
    """One second of these partitions, each with everything as in TRAFFIC but `values`: of a partition, or of the line
    by the schema's own names; None leaves one out. The tick follows the time."""
    one = {**TRAFFIC, "wire_bytes": 18 + values.get("record_bytes", 1000), **values}
    count = len(partitions)
    columns = {
        "role": one["role"], "peer": one["peer"], "throttled": one["throttled"], "in_sync": one["in_sync"],
        "second_record_bytes": [one["record_bytes"] * count], "second_wire_bytes": [one["wire_bytes"] * count],
        "second_fetches": [one["fetches"] * count], "second_omitted": [one["omitted"] * count],
        "topics": [one["topic"]] * count, "partitions": list(partitions),
        "shapes": ["[" if one["record_bytes"] > 0 else "$"] * count,
        "record_bytes": [one["record_bytes"]] * count,
        "header_bytes": [one["wire_bytes"] - one["record_bytes"]] * count,
        "fetches": [one["fetches"]] * count, "omitted": [one["omitted"]] * count,
        "fetch_offset_before": [one["fetch_offset"]] * count, "fetch_offset": [one["fetch_offset"]] * count,
        "high_watermark_before": [one["high_watermark"]] * count, "high_watermark": [one["high_watermark"]] * count,
        "log_start_offset": [one["log_start_offset"]] * count,
    }  # fmt: skip
    said = {name: value for name, value in values.items() if name not in TRAFFIC}
    line = {**JOURNAL, "kind": "traffic", "time": time, "tick": time - FIRST, **columns, **said}
    return json.dumps({name: value for name, value in line.items() if value is not None})


def changed(line: str, **fields: Any) -> str:
    """The line with other fields; None leaves one out."""
    return json.dumps({name: value for name, value in {**json.loads(line), **fields}.items() if value is not None})


def event_line(kind: Kind, time: int, **values: Any) -> str:
    return json.dumps({**JOURNAL, "kind": kind.value, "time": time, "tick": time - FIRST, **values})


def quota_line(**values: Any) -> str:
    said = {"role": "leader", "bytes_per_second": 5.0, "policy": "strict", "enforce": True, "selection": "*",
            "reason": "start"}  # fmt: skip
    return event_line(Kind.QUOTA, FIRST, **{**said, **values})


def write_file(
    folder: Path,
    *,
    lines: Sequence[str],
    broker: int = 101,
    number: int = 1,
    name_ends: str = ".ndjson.gz",
    closed: bool = True,
    run: str = JOURNAL["run"],
    cluster: str | None = None,
    rack: str | None = None,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"journal-{broker}-20261121T084000Z-{number:06d}"
    path = folder / f"{name}{name_ends}"
    opened = {"broker": broker, "run": run, "file": f"{name}.ndjson.gz", "cluster": cluster, "rack": rack}
    head = event_line(Kind.FILE_OPENED, FIRST, **opened)
    foot = event_line(Kind.FILE_CLOSED, FIRST, broker=broker, run=run, file=f"{name}.ndjson.gz", lines=len(lines) + 1)
    text = "\n".join([head, *lines, *([foot] if closed else [])]) + "\n"
    path.write_bytes(gzip.compress(text.encode()))
    return path

"""What a partition costs to parse: plain Construct, and the walker generated from it.

    python -m benchmarks.codec [--json]

Interleaved repeats in one process, medians, ratios to the walker. Loads: v3 requests and responses of 1000 partitions,
many partitions per topic and one per topic.
"""

from __future__ import annotations

import io
import json
import statistics
import time
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from protocol.fetch import request_layout, response_layout
from protocol.walker import request_walker, response_walker, walk_whole

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = 3
PARTITIONS = 1000
REPEATS = 15
RECORD_BYTES = 64


def request_body(topics: int) -> bytes:
    """A follower's request of `PARTITIONS` partitions in so many topics."""
    entry = {"fetch_offset": 10**9, "log_start_offset": 0, "partition_max_bytes": 1 << 20}
    blocks = [
        {"topic": f"topic-{n}", "partitions": [{"partition": p, **entry} for p in range(PARTITIONS // topics)]}
        for n in range(topics)
    ]
    head = {"replica_id": 102, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 10 << 20, "isolation_level": 0}
    return bytes(request_layout(VERSION).build({**head, "topics": blocks}))


def response_body(topics: int) -> bytes:
    """A leader's answer to it, with little records."""
    entry = {
        "error_code": 0, "high_watermark": 10**9, "last_stable_offset": -1, "log_start_offset": 0,
        "aborted_transactions": None, "records": bytes(RECORD_BYTES),
    }  # fmt: skip
    blocks = [
        {"topic": f"topic-{n}", "partitions": [{"partition_index": p, **entry} for p in range(PARTITIONS // topics)]}
        for n in range(topics)
    ]
    return bytes(response_layout(VERSION).build({"throttle_time_ms": 0, "responses": blocks}))


def contenders(kind: str, body: bytes) -> dict[str, Callable[[], Any]]:
    """The ways to parse `body`, by name."""
    layout = (request_layout if kind == "request" else response_layout)(VERSION)
    walk = (request_walker if kind == "request" else response_walker)(VERSION)
    return {
        "Construct": lambda: layout.parse_stream(io.BytesIO(body)),
        "walker": lambda: walk_whole(walk, body, 0, len(body)),
    }


def measure(run: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median microseconds per partition of each contender, taken in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in run}
    for _ in range(REPEATS):
        for name, parse in run.items():
            began = time.perf_counter()
            parse()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(found) * 1e6 / PARTITIONS for name, found in seconds.items()}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per load.")
def main(*, as_json: bool) -> None:
    """Measure Fetch v3 of 1000 partitions."""
    table = Table("message", "topics", "Construct, µs/partition", "walker, µs/partition", "ratio")
    for kind, make in (("request", request_body), ("response", response_body)):
        for topics in (10, 1000):
            found = measure(contenders(kind, make(topics)))
            ratio = found["Construct"] / found["walker"]
            if as_json:
                click.echo(json.dumps({"message": kind, "topics": topics, **found, "ratio": ratio}))
            table.add_row(kind, str(topics), f"{found['Construct']:.2f}", f"{found['walker']:.3f}", f"{ratio:.1f}")
    if not as_json:
        Console().print(table)


if __name__ == "__main__":
    main()

"""The cost of parsing a partition: plain Construct, and the walkers generated from it.

    python -m benchmarks.codec [--json]

Interleaved repeats in one process, medians, ratios to Construct. Loads: requests and responses of 1000 partitions,
100 partitions per topic and one per topic, of v3 (KIP-73's) and v17 (flexible, topic ids). Walkers: one that makes rows
with attributes, and one that makes plain tuples.
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

from protocol.fetch.tables import FIRST_VERSION_WITH_TOPIC_IDS, request_layout, response_layout
from protocol.fetch.walker import request_walker, response_walker, walk_whole
from protocol.wire.layout import TAGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from protocol.wire.topics import Topic

VERSIONS = (3, 17)
PARTITIONS = 1000
TOPICS = (10, 1000)
REPEATS = 15
RECORD_BYTES = 64


def topic_of(version: int, number: int) -> Topic:
    return number.to_bytes(16) if version >= FIRST_VERSION_WITH_TOPIC_IDS else f"topic-{number}"


def blocks(version: int, topics: int, partition: str, entry: dict[str, Any]) -> list[dict[str, Any]]:
    """Return so many topics of equally many partitions, all of them with this entry."""
    name = "topic_id" if version >= FIRST_VERSION_WITH_TOPIC_IDS else "topic"
    each = range(PARTITIONS // topics)
    return [
        {name: topic_of(version, number), "partitions": [{partition: p, **entry, TAGS: []} for p in each], TAGS: []}
        for number in range(topics)
    ]


def request_body(version: int, topics: int) -> bytes:
    """Return a follower's request of `PARTITIONS` partitions in so many topics."""
    entry = {
        "current_leader_epoch": 7, "fetch_offset": 10**9, "last_fetched_epoch": 7, "log_start_offset": 0,
        "partition_max_bytes": 1 << 20,
    }  # fmt: skip
    head = {
        "replica_id": 102, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 10 << 20, "isolation_level": 0,
        "session_id": 0, "session_epoch": 0, "forgotten_topics_data": [], "rack_id": "", TAGS: [],
    }  # fmt: skip
    body = {**head, "topics": blocks(version, topics, "partition", entry)}
    return bytes(request_layout(version).build(body))


def response_body(version: int, topics: int) -> bytes:
    """Return a leader's answer to it, with little records."""
    entry = {
        "error_code": 0, "high_watermark": 10**9, "last_stable_offset": -1, "log_start_offset": 0,
        "aborted_transactions": None, "preferred_read_replica": -1, "records": bytes(RECORD_BYTES),
    }  # fmt: skip
    head = {"throttle_time_ms": 0, "error_code": 0, "session_id": 0, TAGS: []}
    body = {**head, "responses": blocks(version, topics, "partition_index", entry)}
    return bytes(response_layout(version).build(body))


def contenders(kind: str, version: int, topics: int) -> dict[str, Callable[[], Any]]:
    """Return the ways to parse such a message, by name."""
    body = (request_body if kind == "request" else response_body)(version, topics)
    layout = (request_layout if kind == "request" else response_layout)(version)
    walker = request_walker if kind == "request" else response_walker
    rows, tuples = walker(version), walker(version, tuple)
    return {
        "Construct": lambda: layout.parse_stream(io.BytesIO(body)),
        "rows": lambda: walk_whole(rows, body, 0, len(body)),
        "tuples": lambda: walk_whole(tuples, body, 0, len(body)),
    }


def measure(run: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return median microseconds per partition of each contender, taken in turns.

    Each walk comes right after a parse by Construct, so neither the caches nor the allocator are warm for it.
    """
    seconds: dict[str, list[float]] = {name: [] for name in run}
    baseline = run["Construct"]
    for _ in range(REPEATS):
        for name, parse in run.items():
            if parse is not baseline:
                baseline()
            began = time.perf_counter()
            parse()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(found) * 1e6 / PARTITIONS for name, found in seconds.items()}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per load.")
def main(*, as_json: bool) -> None:
    """Measure Fetch v3 and v17 of 1000 partitions."""
    table = Table(
        "message",
        "topics",
        "Construct",
        "rows",
        "tuples",
        title="µs/partition (times faster than Construct)",
    )
    for version in VERSIONS:
        for kind in ("request", "response"):
            for topics in TOPICS:
                found = measure(contenders(kind, version, topics))
                ratios = {name: found["Construct"] / cost for name, cost in found.items()}
                if as_json:
                    load = {"message": kind, "version": version, "topics": topics}
                    click.echo(json.dumps({**load, "microseconds": found, "ratio": ratios}))
                costs = [f"{cost:.3f} ({ratios[name]:.0f})" for name, cost in found.items() if name != "Construct"]
                table.add_row(f"{kind} v{version}", str(topics), f"{found['Construct']:.2f}", *costs)
    if not as_json:
        Console().print(table)


if __name__ == "__main__":
    main()

"""Journals of a made-up cluster whose truth is known: to test the pipeline's jobs, and to see how they grow.

B brokers in a ring, P partitions: partition p is led by broker p mod B, and the next broker in the ring catches up on
it. Both sidecars keep a journal. Every second a role moves exactly its quota, and all partitions have equal shares but
a hot one. In the second of an injected violation it moves twice the quota, during a stall nothing. Invariant:
everything is a formula of (partition, second): no state, no randomness.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from journal_schema import LINE_SECONDS, REPLICAS, VERSION, Kind
from proxy.journal.encoding import shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FIRST_BROKER = 101
START_SECONDS = 1_795_226_400
"""2026-11-21T02:00:00Z."""
RUN = "20261121T020000Z"
TOPIC = "generated"
BYTES_PER_MESSAGE = 1000
HEADER_BYTES = 18
"""Bytes of an entry's header in Fetch v3 (message spec FetchResponse.json). Leaders' quotas count them too; they are
small enough to stay within the promise."""
FETCHES, OMITTED = 10, 8
"""How often a partition is fetched, and left out, in one second."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A made-up cluster: what is in its journals, and so what a job has to find.

    violations: (leader's id, second) in which twice the quota moved.
    stalls: (leader's id, first second, second after the last) in which nothing moved.
    hot_share: the share of its leader's traffic that partition 0 has.
    """

    brokers: int = 3
    partitions: int = 6
    seconds: int = 120
    quota_bytes_per_second: int = 6_000_000
    written_bytes_per_second: int = 10_000
    """The rate at which producers write to each partition."""
    violations: tuple[tuple[int, int], ...] = ()
    stalls: tuple[tuple[int, int, int], ...] = ()
    hot_share: float | None = None

    def __post_init__(self) -> None:
        if self.partitions % self.brokers or self.brokers < 2:
            raise ValueError(
                f"expected partitions ({self.partitions}) to be a multiple of brokers, found {self.brokers}"
            )

    @property
    def ids(self) -> range:
        return range(FIRST_BROKER, FIRST_BROKER + self.brokers)

    @property
    def rows(self) -> int:
        """Seconds of partitions, at both ends."""
        return 2 * self.partitions * self.seconds

    @property
    def traffic_lines(self) -> int:
        """The number of traffic lines: one per link and fifteen seconds, at both ends."""
        return 2 * self.brokers * -(-self.seconds // LINE_SECONDS)

    @property
    def lines(self) -> int:
        """The number of all lines: each file has two quotas, and says when it was opened and closed."""
        return self.traffic_lines + 4 * self.brokers

    def follower_of(self, leader: int) -> int:
        return FIRST_BROKER + (leader - FIRST_BROKER + 1) % self.brokers

    def partitions_of(self, leader: int) -> range:
        return range(leader - FIRST_BROKER, self.partitions, self.brokers)

    def messages_per_second(self, partition: int) -> int:
        """Return how far `partition` gets in an ordinary second, in whole messages."""
        total = self.quota_bytes_per_second // BYTES_PER_MESSAGE
        each = self.partitions // self.brokers
        if self.hot_share is None or partition % self.brokers or each == 1:
            return total // each
        return int(total * self.hot_share) if partition == 0 else int(total * (1 - self.hot_share)) // (each - 1)

    def seconds_worth(self, leader: int, second: int) -> int:
        """Return 1 for an ordinary second, 2 for a violation, 0 while stalled."""
        if any(leader == one and first <= second < end for one, first, end in self.stalls):
            return 0
        return 2 if (leader, second) in self.violations else 1

    def offset(self, partition: int, second: int) -> int:
        """Return the offset that the follower asks for at the end of that second; 0 before the first."""
        leader = FIRST_BROKER + partition % self.brokers
        worth = second + 1
        worth += sum(leader == one and at <= second for one, at in self.violations)
        for one, first, end in self.stalls:
            worth -= max(min(second + 1, end) - first, 0) if leader == one else 0
        return self.messages_per_second(partition) * worth

    def high_watermark(self, second: int) -> int:
        """Return a high watermark so far ahead that no replica catches up."""
        ahead = 3 * self.seconds * self.quota_bytes_per_second // BYTES_PER_MESSAGE
        return ahead + second * (self.written_bytes_per_second // BYTES_PER_MESSAGE)


def write(cluster: Cluster, folder: Path) -> list[Path]:
    """Write the journals below `folder`, a closed file of each broker; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_write_file(cluster, broker, folder) for broker in cluster.ids]


def _write_file(cluster: Cluster, broker: int, folder: Path) -> Path:
    path = folder / f"journal-{broker}-{RUN}-000001.ndjson.gz"
    body = [_event(broker, Kind.FILE_OPENED, file=path.name), *_quotas(cluster, broker), *_traffic(cluster, broker)]
    foot = _event(broker, Kind.FILE_CLOSED, file=path.name, lines=len(body))
    with gzip.open(path, "wt", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in (*body, foot))
    return path


def _quotas(cluster: Cluster, broker: int) -> Iterator[str]:
    for role in ("leader", "follower"):
        yield _event(
            broker, Kind.QUOTA, role=role, bytes_per_second=float(cluster.quota_bytes_per_second), policy="strict",
            enforce=True, selection="*", reason="start",
        )  # fmt: skip


def _traffic(cluster: Cluster, broker: int) -> Iterator[str]:
    before = FIRST_BROKER + (broker - FIRST_BROKER - 1) % cluster.brokers
    for first in range(0, cluster.seconds, LINE_SECONDS):
        seconds = range(first, min(first + LINE_SECONDS, cluster.seconds))
        for role, leader, peer in (("leader", broker, cluster.follower_of(broker)), ("follower", before, before)):
            yield _event(
                broker, Kind.TRAFFIC, tick=first, role=role, peer=str(peer), throttled=True, in_sync=False,
                **_link(cluster, leader, seconds),
            )  # fmt: skip


def _link(cluster: Cluster, leader: int, seconds: range) -> dict[str, Sequence[object]]:
    """Return the lists of a traffic line: of each second, and of each partition that `leader` leads."""
    worth = [cluster.seconds_worth(leader, second) for second in seconds]
    partitions = cluster.partitions_of(leader)
    total = BYTES_PER_MESSAGE * sum(map(cluster.messages_per_second, partitions))
    count = len(partitions)
    rows = [_replica(cluster, partition, seconds, worth) for partition in partitions]
    return {
        "second_record_bytes": [total * one for one in worth],
        "second_wire_bytes": [total * one + count * HEADER_BYTES * (one > 0) for one in worth],
        "second_fetches": [count * FETCHES * (one > 0) for one in worth],
        "second_omitted": [count * OMITTED] * len(seconds),
        **{field.name: list(column) for field, column in zip(REPLICAS, zip(*rows, strict=True), strict=True)},
    }  # fmt: skip


def _replica(cluster: Cluster, partition: int, seconds: range, worth: Sequence[int]) -> tuple[str | int, ...]:
    """Return an element of each of the schema's lists of partitions."""
    each = cluster.messages_per_second(partition) * BYTES_PER_MESSAGE
    sizes = [each * one for one in worth]
    busy = sum(one > 0 for one in worth)
    before, last = seconds[0] - 1, seconds[-1]
    return (
        TOPIC, partition, shape([True] * len(sizes), sizes), sum(sizes), busy * HEADER_BYTES, busy * FETCHES,
        len(sizes) * OMITTED, cluster.offset(partition, before), cluster.offset(partition, last),
        cluster.high_watermark(before), cluster.high_watermark(last), 0,
    )  # fmt: skip


def _event(broker: int, kind: Kind, *, tick: int = 0, **fields: object) -> str:
    common = {"v": VERSION, "kind": kind.value, "time": START_SECONDS + tick, "broker": broker, "run": f"{RUN}-gen",
              "tick": tick}  # fmt: skip
    return json.dumps(common | fields, separators=(",", ":"))

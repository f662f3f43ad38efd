"""Runs clients of several libraries against a cluster, through its sidecars or around them, and says what came of it.

What they do is in QuotaClient.java: transactions with several codecs, then a consumer group of two. Invariant: an
outcome is of a run in which every committed record came once to the group, nothing of what was aborted came, no
request failed and no member lost its partitions; whatever else happened is a LabError.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..cluster.kafka_python import AlterClientQuotasRequest, AlterClientQuotasResponse
from ..errors import LabError
from ..host.addresses import KAFKA_PORT
from .program import ClientProgram, servers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..cluster.cluster import Cluster

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MEMBERS = ("first", "second")
TRANSACTIONS = 3
_HERE = Path(__file__).parent
_TIMEOUT_SECONDS = 30.0
_RATES = ("producer_byte_rate", "consumer_byte_rate")


@dataclass(frozen=True, slots=True)
class QuotaClient:
    """A library, and what its clients do.

    Args:
        kafka: version of kafka-clients; None: librdkafka.
        codecs: of the producers, one partition each.
        records: of each of three transactions.
        record_bytes: of each record.
        batch_bytes: `batch.size`.
        timeout_ms: after which a request without an answer is a failure.
    """

    kafka: str | None
    codecs: tuple[str, ...] = CODECS
    records: int = 50
    record_bytes: int = 20_000
    batch_bytes: int = 100_000
    timeout_ms: int = 10_000

    @property
    def name(self) -> str:
        return "librdkafka" if self.kafka is None else f"kafka-clients {self.kafka}"

    def client_ids(self, prefix: str) -> list[str]:
        return [prefix + name for name in (*self.codecs, *MEMBERS)]

    async def run(self, cluster: Cluster, topic: str, prefix: str, addresses: Mapping[int, str]) -> Outcome:
        """Run to the end against brokers by these addresses. Raises LabError."""
        source = _HERE / ("quota_client_librdkafka.py" if self.kafka is None else "QuotaClient.java")
        sizes = (self.records, self.record_bytes, self.batch_bytes, self.timeout_ms)
        arguments = (servers(cluster), topic, prefix, ",".join(self.codecs), *sizes)
        return outcome_of(self, await ClientProgram(source, self.kafka).run(cluster, addresses, arguments))


class Flow(NamedTuple):
    """A client id's traffic, and what its client said of it."""

    carried: tuple[tuple[float, int], ...]
    """Each record in order: seconds since 1970, and bytes."""
    throttle_ms: int
    """The longest throttle time that it was told."""
    latency_ms: int
    """The longest time from a request to its answer."""
    closed: int
    """Connections that were closed under it."""
    retries: tuple[str, ...]
    """The error for which each batch was sent again."""

    @property
    def bytes_per_second(self) -> float:
        """The rate after the first record; 0.0 if no other came later."""
        seconds = self.carried[-1][0] - self.carried[0][0] if self.carried else 0.0
        return sum(size for _, size in self.carried[1:]) / seconds if seconds else 0.0

    def worst_bytes(self, seconds: float) -> int:
        """Return the most bytes that came in any span of so many seconds."""
        times = self.carried
        spans = (sum(size for at, size in times[n:] if at < began + seconds) for n, (began, _) in enumerate(times))
        return max(spans, default=0)


class Outcome(NamedTuple):
    """The traffic of the producers and the members, by the ends of their client ids."""

    producers: dict[str, Flow]
    members: dict[str, Flow]
    rebalances: int
    """Assignments beyond those of the first member alone and of both."""


def outcome_of(client: QuotaClient, events: list[list[str]]) -> Outcome:
    """Return what came of a run by what its clients said. Raises LabError: something was lost, doubled or failed."""
    bad = [" ".join(event) for event in events if event[0] in ("failed", "lost")]
    if bad:
        raise LabError(f"{client.name}: {bad[:5]}")
    committed, read, aborted = (
        Counter(event[-1] for event in events if event[0] == kind) for kind in ("committed", "read", "aborted")
    )
    expected = len(client.codecs) * client.records
    if read != committed or (committed.total(), aborted.total()) != (2 * expected, expected):
        found = f"{committed.total()} committed, {read.total()} read, {aborted.total()} aborted"
        raise LabError(f"{client.name}: lost {(committed - read).total()}, more {(read - committed).total()}; {found}")
    flows = {event[1]: _flow(events, event) for event in events if event[0] == "metrics"}
    producers = {who: flow for who, flow in flows.items() if who.endswith(client.codecs)}
    members = {who: flow for who, flow in flows.items() if who.endswith(MEMBERS)}
    assigned = Counter(event[1] for event in events if event[0] == "assigned" and event[3] != "0")
    rebalances = sum(max(count - (2 if who.endswith("first") else 1), 0) for who, count in assigned.items())
    return Outcome(producers, members, rebalances)


def _flow(events: list[list[str]], metrics: list[str]) -> Flow:
    kinds = ("acked", "read")
    carried = [(int(e[2]) / 1000, int(e[3])) for e in events if e[0] in kinds and e[1] == metrics[1]]
    retries = [e[3] for e in events if e[0] == "retried" and e[1] == metrics[1]]
    throttle, _, latency, closed = map(int, metrics[2:])
    return Flow(tuple(carried), throttle, latency, closed, tuple(retries))


def set_client_quotas(address: str, quotas: Mapping[str | None, float | None]) -> None:
    """Set the broker's own quotas: of each client id its rate for either kind of traffic; None removes it. The client
    id None is `<default>`. Raises LabError."""
    entry = AlterClientQuotasRequest.EntryData
    entries = [
        entry(
            entity=[entry.EntityData(entity_type="client-id", entity_name=client_id)],
            ops=[entry.OpData(key=key, value=rate or 0.0, remove=rate is None) for key in _RATES],
        )
        for client_id, rate in quotas.items()
    ]
    request = AlterClientQuotasRequest(entries=entries, validate_only=False, version=0)
    request.with_header(correlation_id=1)
    with socket.create_connection((address, KAFKA_PORT), timeout=_TIMEOUT_SECONDS) as connection:
        connection.sendall(request.encode(header=True, framed=True))
        with connection.makefile("rb") as stream:
            (size,) = struct.unpack(">i", stream.read(4))
            answer = AlterClientQuotasResponse.decode(stream.read(size), version=0, header=True)
    refused = [
        f"{each.entity}: error {each.error_code}, {each.error_message}" for each in answer.entries if each.error_code
    ]
    if refused:
        raise LabError(f"the broker refused: {refused}")

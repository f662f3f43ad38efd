"""The metrics of what passes: bytes, replicas, fetches and connections, and what throttling does to them.

Rows like those of `metrics`. Invariant: what could rise has a sample from the start, since Prometheus' increase() sees
no rise in a series that begins with its first event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..network.redirected import Refusal
from ..relay.in_flight import Undecoded
from ..roles import Role
from .metric_row import PREFIX, Metric, counted, one, per_role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .metric_row import Sample, Sources


def _throttled_bytes(sources: Sources) -> Iterator[Sample]:
    for role in Role:
        statistics = sources.statistics.of(role)
        yield (role.value, "true"), statistics.throttled_bytes_in_sync
        yield (role.value, "false"), statistics.throttled_bytes_catching_up


def _relayed_bytes(sources: Sources) -> Iterator[Sample]:
    for role in Role:
        statistics = sources.statistics.of(role)
        yield (role.value, "request"), statistics.relayed_request_bytes
        yield (role.value, "response"), statistics.relayed_response_bytes


def _fetch_requests(sources: Sources) -> Iterator[Sample]:
    for role in Role:
        for version, count in sorted(sources.statistics.of(role).fetch_requests.items()):
            yield (role.value, str(version)), count


def _replica_counts(sources: Sources) -> Iterator[Sample]:
    for role in Role:
        counts = sources.replica_stats(role)
        yield (role.value, "true"), counts.in_sync
        yield (role.value, "false"), counts.behind


def _undecoded(sources: Sources) -> Iterator[Sample]:
    # Every reason from the start: Prometheus' increase() sees no rise in a series that begins with its first event.
    for role in Role:
        undecoded = sources.statistics.of(role).undecoded
        for reason in sorted({*undecoded, *(reason.value for reason in Undecoded)}):
            yield (role.value, reason), undecoded[reason]


def _refused(sources: Sources) -> list[Sample]:
    refused = sources.statistics.follower.refused
    of_source = 0 if sources.overload is None else sources.overload.accept_limiter.refused_of_source
    return [*(((reason.value,), refused[reason.value]) for reason in Refusal), (("source",), of_source)]


def partition_rates_of(sources: Sources) -> Iterator[Sample]:
    if sources.partition_rates is not None:
        for role in Role:
            for rate in sources.partition_rates(role):
                yield (role.value, rate.topic, str(rate.partition)), rate.bytes_per_second


TRAFFIC_METRICS = (
    Metric(
        "LeaderReplicationThrottledRate",
        "gauge",
        (),
        "Throttled bytes per second served to followers, over the KIP-73 window.",
        one(lambda sources: sources.rate_bytes_per_second(Role.LEADER)),
    ),
    Metric(
        "FollowerReplicationThrottledRate",
        "gauge",
        (),
        "Throttled bytes per second fetched from leaders, over the KIP-73 window.",
        one(lambda sources: sources.rate_bytes_per_second(Role.FOLLOWER)),
    ),
    Metric(
        "SumReplicaLag",
        "gauge",
        (),
        "Messages that this broker's throttled replicas are behind their leaders.",
        one(lambda sources: sources.replica_stats(Role.FOLLOWER).lag_messages),
    ),
    Metric(
        "PartitionBytesInRate",
        "gauge",
        ("role", "topic", "partition"),
        "Bytes per second fetched of a throttled partition, smoothed over five seconds.",
        partition_rates_of,
    ),
    Metric(
        PREFIX + "throttled_bytes_total",
        "counter",
        ("role", "in_sync"),
        "Bytes of throttled partitions, as KIP-73 counts them.",
        _throttled_bytes,
    ),
    Metric(
        PREFIX + "omitted_partitions_total",
        "counter",
        ("role",),
        "Partitions left out of a Fetch because the quota was spent; while observing, those that would have been.",
        counted(lambda statistics: statistics.omitted_partitions),
    ),
    Metric(
        PREFIX + "substituted_partitions_total",
        "counter",
        ("role",),
        "Partitions answered with empty records because the quota was spent; none while observing.",
        counted(lambda statistics: statistics.substituted_partitions),
    ),
    Metric(
        PREFIX + "withheld_bytes_total",
        "counter",
        ("role",),
        "Record bytes that arrived over quota and were discarded; while observing, those that would have been.",
        counted(lambda statistics: statistics.withheld_bytes),
    ),
    Metric(
        PREFIX + "local_answers_total",
        "counter",
        ("role",),
        "Fetches answered here, without asking the leader.",
        counted(lambda statistics: statistics.local_answers),
    ),
    Metric(
        PREFIX + "hold_seconds",
        "histogram",
        ("role",),
        "How long Fetches were held because everything they asked for was over quota.",
        counted(lambda statistics: statistics.hold_seconds),
    ),
    Metric(
        PREFIX + "held_requests",
        "gauge",
        ("role",),
        "Fetches held now.",
        counted(lambda statistics: statistics.held_requests),
    ),
    Metric(
        PREFIX + "replica_lag_messages",
        "gauge",
        ("role",),
        "Messages that throttled replicas are behind, as seen in this role.",
        per_role(lambda sources, role: sources.replica_stats(role).lag_messages),
    ),
    Metric(
        PREFIX + "replicas",
        "gauge",
        ("role", "in_sync"),
        "Throttled replicas on connections open now.",
        _replica_counts,
    ),
    Metric(
        PREFIX + "fetch_requests_total",
        "counter",
        ("role", "api_version"),
        "Replica Fetch requests seen.",
        _fetch_requests,
    ),
    Metric(
        PREFIX + "undecoded_total",
        "counter",
        ("role", "reason"),
        "Passed on without being understood, and therefore not throttled.",
        _undecoded,
    ),
    Metric(
        PREFIX + "relayed_bytes_total",
        "counter",
        ("role", "direction"),
        "All bytes relayed, of any kind.",
        _relayed_bytes,
    ),
    Metric(
        PREFIX + "connections",
        "gauge",
        ("role",),
        "Connections open now.",
        counted(lambda statistics: statistics.connections),
    ),
    Metric(
        PREFIX + "opaque_connections",
        "gauge",
        ("role",),
        "Connections open now that pass as they are, and so unthrottled, since their frames cannot be told apart.",
        counted(lambda statistics: statistics.opaque_connections),
    ),
    Metric(
        PREFIX + "refused_connections_total",
        "counter",
        ("reason",),
        "Connections that were accepted and not relayed.",
        _refused,
    ),
)

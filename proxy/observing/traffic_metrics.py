"""The metrics of traffic: bytes, replicas, fetches and connections, and the effect of throttling.

Rows of `metric_row`. Invariant: every counter has a sample from the start, since Prometheus' increase() sees
no rise in a series that begins with its first event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..network.redirected import Refusal
from ..roles import Role
from ..statistics.counters import Undecoded
from .metric_row import counted, counted_by, counter, gauge, histogram, one, per_role, per_role_and

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .metric_row import Sample, Sources


def _fetch_requests(sources: Sources) -> Iterator[Sample]:
    for role in Role:
        for version, count in sorted(sources.statistics.of(role).fetch_requests.items()):
            yield (role.value, str(version)), count


def _undecoded(sources: Sources) -> Iterator[Sample]:
    # Every reason from the start: Prometheus' increase() sees no rise in a series that begins with its first event.
    for role in Role:
        undecoded = sources.statistics.of(role).undecoded
        for reason in sorted({*undecoded, *(reason.value for reason in Undecoded)}):
            yield (role.value, reason), undecoded[reason]


def _refused(sources: Sources) -> list[Sample]:
    refused = sources.statistics.follower.refused
    of_source = silent = others = 0
    if sources.accept_limiter is not None:
        of_source = sources.accept_limiter.refused_of_source
        silent = sources.accept_limiter.silent.closed
        others = sources.accept_limiter.refused_of_others
    by_reason = (((reason.value,), refused[reason.value]) for reason in Refusal)
    return [*by_reason, (("source",), of_source), (("silent",), silent), (("others",), others)]


def partition_rates_of(sources: Sources) -> Iterator[Sample]:
    if sources.partition_rates is not None:
        for role in Role:
            for rate in sources.partition_rates(role):
                yield (role.value, rate.topic, str(rate.partition)), rate.bytes_per_second


TRAFFIC_METRICS = (
    gauge(
        "LeaderReplicationThrottledRate",
        "Throttled bytes per second served to followers, over the KIP-73 window.",
        one(lambda sources: sources.rate_bytes_per_second(Role.LEADER)),
    ),
    gauge(
        "FollowerReplicationThrottledRate",
        "Throttled bytes per second fetched from leaders, over the KIP-73 window.",
        one(lambda sources: sources.rate_bytes_per_second(Role.FOLLOWER)),
    ),
    gauge(
        "SumReplicaLag",
        "Messages that this broker's throttled replicas are behind their leaders.",
        one(lambda sources: sources.replica_stats(Role.FOLLOWER).lag_messages),
    ),
    gauge(
        "PartitionBytesInRate{role,topic,partition}",
        "Bytes per second fetched of a throttled partition, smoothed over five seconds.",
        partition_rates_of,
    ),
    counter(
        "throttled_bytes_total{role,in_sync}",
        "Bytes of throttled partitions, as KIP-73 counts them.",
        counted_by(true=lambda role: role.throttled_bytes_in_sync, false=lambda role: role.throttled_bytes_catching_up),
    ),
    counter(
        "omitted_partitions_total{role}",
        "Partitions left out of a Fetch because the quota was spent; while observing, those that would have been.",
        counted(lambda role: role.omitted_partitions),
    ),
    counter(
        "substituted_partitions_total{role}",
        "Partitions answered with empty records because the quota was spent; none while observing.",
        counted(lambda role: role.substituted_partitions),
    ),
    counter(
        "withheld_bytes_total{role}",
        "Record bytes that arrived over quota and were discarded; while observing, those that would have been.",
        counted(lambda role: role.withheld_bytes),
    ),
    counter(
        "local_answers_total{role}",
        "Fetches answered by the sidecar, without asking the leader.",
        counted(lambda role: role.local_answers),
    ),
    histogram(
        "hold_seconds{role}",
        "How long Fetches were held because everything they asked for was over quota.",
        counted(lambda role: role.hold_seconds),
    ),
    gauge("held_requests{role}", "Fetches held now.", counted(lambda role: role.held_requests)),
    gauge(
        "replica_lag_messages{role}",
        "Messages that throttled replicas are behind, as seen in this role.",
        per_role(lambda sources, role: sources.replica_stats(role).lag_messages),
    ),
    gauge(
        "replicas{role,in_sync}",
        "Throttled replicas on connections open now.",
        per_role_and(
            true=lambda sources, role: sources.replica_stats(role).in_sync,
            false=lambda sources, role: sources.replica_stats(role).behind,
            unknown=lambda sources, role: sources.replica_stats(role).new,
        ),
    ),
    counter("fetch_requests_total{role,api_version}", "Replica Fetch requests seen.", _fetch_requests),
    counter(
        "undecoded_total{role,reason}",
        "Frames and connections that passed unthrottled because the sidecar could not decode them.",
        _undecoded,
    ),
    counter(
        "relayed_bytes_total{role,direction}",
        "All bytes relayed, of any kind.",
        counted_by(request=lambda role: role.relayed_request_bytes, response=lambda role: role.relayed_response_bytes),
    ),
    gauge("connections{role}", "Connections open now.", counted(lambda role: role.connections)),
    gauge(
        "opaque_connections{role}",
        "Open connections that pass undecoded, and so unthrottled.",
        counted(lambda role: role.opaque_connections),
    ),
    counter("refused_connections_total{reason}", "Connections closed before they were relayed.", _refused),
)

"""The metrics: name, type, labels, help and where the value comes from, one row each; read at scrape time.

docs/metrics.md explains every row and a test compares the two. KIP-73's own names stay as they are, the
others carry the prefix. Knows no exposition format (`exposition`) and no socket. Invariant: reading a value answers at
once, from memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..config.reload import ReloadResult
from ..config.starting import Source
from ..http.statistics import Refusal as HttpRefusal
from ..logs.queue import told
from ..network.redirected import Refusal
from ..process.supervision import Task
from ..relay.exchange import Undecoded
from ..roles import Role
from ..throttle.doubts import Reason
from .bound_metrics import BOUND_METRICS
from .metric_row import PREFIX, Metric, Read, Sample, Sources, counted, one, per_role
from .overload import OVERLOAD_METRICS
from .rate_metrics import RATE_METRICS
from .tls_metrics import TLS_METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..journal.writer import JournalStatistics

__all__ = ["METRICS", "PREFIX", "Metric", "Sample", "Sources", "partition_rates_of"]


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
        counts = sources.survey(role)
        yield (role.value, "true"), counts.in_sync
        yield (role.value, "false"), counts.behind


def _undecoded(sources: Sources) -> list[Sample]:
    # Every reason from the start: Prometheus' increase() sees no rise in a series that begins with its first event.
    both = sources.statistics.leader.undecoded + sources.statistics.follower.undecoded
    reasons = {*both, *(reason.value for reason in Undecoded)}
    return [((reason,), both[reason]) for reason in sorted(reasons)]


def _doubts(sources: Sources) -> Iterator[Sample]:
    for role in Role:
        found = {doubt.reason: doubt.size for doubt in sources.doubts(role)}
        for reason in Reason:
            yield (role.value, reason.value), found.get(reason, 0)


def _refused(sources: Sources) -> list[Sample]:
    refused = sources.statistics.follower.refused
    of_source = 0 if sources.overload is None else sources.overload.doorkeeper.refused_of_source
    return [*(((reason.value,), refused[reason.value]) for reason in Refusal), (("source",), of_source)]


def _http_answers(sources: Sources) -> Iterator[Sample]:
    for status, count in sorted(sources.http.answers.items()):
        yield (str(status),), count


def _http_refused(sources: Sources) -> list[Sample]:
    return [((reason.value,), sources.http.refused[reason]) for reason in HttpRefusal]


def _journal(read: Callable[[JournalStatistics], float]) -> Read:
    return lambda sources: [] if sources.journal is None else [((), read(sources.journal))]


def _quota_until(sources: Sources) -> Iterator[Sample]:
    for role, until in sources.quotas().until.items():
        yield (role.value,), until.timestamp()


def _quota_next_change(sources: Sources) -> Iterator[Sample]:
    change = sources.upcoming()
    if change is None:
        return
    for role in Role:
        if change.after.of(role) != change.before.of(role) or change.after.enforce != change.before.enforce:
            yield (role.value,), change.at.timestamp()


def partition_rates_of(sources: Sources) -> Iterator[Sample]:
    if sources.partition_rates is not None:
        for role in Role:
            for rate in sources.partition_rates(role):
                yield (role.value, rate.topic, str(rate.partition)), rate.bytes_per_second


METRICS = (
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
        one(lambda sources: sources.survey(Role.FOLLOWER).lag_messages),
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
        PREFIX + "limit_bytes_per_second",
        "gauge",
        ("role",),
        "The quota in effect, of a rate that sets itself the one chosen; +Inf if unlimited.",
        per_role(lambda sources, role: sources.limit_bytes_per_second(role)),
    ),
    Metric(
        PREFIX + "quota_until_timestamp_seconds",
        "gauge",
        ("role",),
        "When something the quota in effect is made of ends by an `until`; no sample if nothing does.",
        _quota_until,
    ),
    Metric(
        PREFIX + "quota_next_change_timestamp_seconds",
        "gauge",
        ("role",),
        "When the quota next changes by an `until` or a schedule; no sample if it does not.",
        _quota_next_change,
    ),
    Metric(
        PREFIX + "quota_doubts",
        "gauge",
        ("role", "reason"),
        "Reasons to doubt that the quota in effect throttles what was meant; 0 where there is none.",
        _doubts,
    ),
    Metric(
        PREFIX + "enforcing",
        "gauge",
        (),
        "1 if quotas are enforced, 0 if they are only observed.",
        one(lambda sources: sources.quotas().enforce),
    ),
    Metric(
        PREFIX + "omitted_partitions_total",
        "counter",
        ("role",),
        "Partitions left out of a Fetch because the quota was spent.",
        counted(lambda statistics: statistics.omitted_partitions),
    ),
    Metric(
        PREFIX + "substituted_partitions_total",
        "counter",
        ("role",),
        "Partitions answered with empty records because the quota was spent.",
        counted(lambda statistics: statistics.substituted_partitions),
    ),
    Metric(
        PREFIX + "withheld_bytes_total",
        "counter",
        ("role",),
        "Record bytes that arrived over quota and were discarded.",
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
        per_role(lambda sources, role: sources.survey(role).lag_messages),
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
        ("reason",),
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
        PREFIX + "refused_connections_total",
        "counter",
        ("reason",),
        "Connections that were accepted and not relayed.",
        _refused,
    ),
    Metric(
        PREFIX + "config_reloads_total",
        "counter",
        ("outcome",),
        "Times quotas.toml was read again.",
        lambda sources: [((result.value,), sources.reloads.outcomes[result]) for result in ReloadResult],
    ),
    Metric(
        PREFIX + "config_last_reload_successful",
        "gauge",
        (),
        "0 while quotas.toml is wrong and the last good one stays in effect.",
        one(lambda sources: sources.reloads.last_reload_successful),
    ),
    Metric(
        PREFIX + "config_last_reload_success_timestamp_seconds",
        "gauge",
        (),
        "When quotas.toml was last read and found good.",
        one(lambda sources: sources.reloads.last_success_timestamp_seconds),
    ),
    Metric(
        PREFIX + "quotas_in_force",
        "gauge",
        ("source",),
        "1 for where the quotas in force are from, 0 for the others; none: nothing is throttled.",
        lambda sources: [((source.value,), source is sources.quota_source()) for source in Source],
    ),
    Metric(
        PREFIX + "quotas_kept_total",
        "counter",
        ("outcome",),
        "Times the last good quotas were written to disk for the next start.",
        lambda sources: [((outcome,), sources.quota_keeping.get(outcome, 0)) for outcome in ("written", "failed")],
    ),
    Metric(
        PREFIX + "config_info",
        "info",
        ("hash",),
        "The quotas.toml in effect, by the start of its SHA-256.",
        lambda sources: [((sources.quotas().hash,), 1.0)],
    ),
    Metric(
        PREFIX + "journal_lines_total",
        "counter",
        (),
        "Lines written to the journal.",
        _journal(lambda journal: journal.lines),
    ),
    Metric(
        PREFIX + "journal_dropped_total",
        "counter",
        (),
        "Lines that the disk did not take in time, or not at all.",
        _journal(lambda journal: journal.dropped),
    ),
    Metric(
        PREFIX + "journal_removed_files_total",
        "counter",
        (),
        "Oldest files of the journal, removed to stay below journal.keep.",
        _journal(lambda journal: journal.removed_files),
    ),
    Metric(
        PREFIX + "task_restarts_total",
        "counter",
        ("task",),
        "Background tasks that failed and were started again.",
        lambda sources: [((task.value,), sources.task_restarts.get(task, 0)) for task in Task],
    ),
    Metric(
        PREFIX + "loop_lag_seconds",
        "gauge",
        (),
        "How late the loop that serves every connection ran what was due, at worst in the last 15 to 30 seconds.",
        one(lambda sources: sources.loop_lag_seconds()),
    ),
    Metric(
        PREFIX + "log_dropped_total",
        "counter",
        ("reason",),
        "Log lines that nobody will read.",
        lambda sources: told(sources.statistics.log_dropped),
    ),
    Metric(
        PREFIX + "http_answers_total",
        "counter",
        ("code",),
        "HTTP requests answered, by status code.",
        _http_answers,
    ),
    Metric(
        PREFIX + "http_refused_total",
        "counter",
        ("reason",),
        "HTTP connections ended before their peer wanted it, and requests that were not served.",
        _http_refused,
    ),
    Metric(
        PREFIX + "http_connections",
        "gauge",
        (),
        "HTTP connections open now.",
        one(lambda sources: sources.http.connections),
    ),
    *RATE_METRICS,
    *BOUND_METRICS,
    *OVERLOAD_METRICS,
    *TLS_METRICS,
    Metric(
        PREFIX + "build_info",
        "info",
        ("version",),
        "The sidecar's version.",
        lambda sources: [((sources.version(),), 1.0)],
    ),
)

"""The metrics of the sidecar itself: journal, log, background tasks, loop, pages, overload and TLS.

Rows like those of `metrics`. Under overload first no further connection is accepted; then no further replica is
remembered and no further frame held, and these pass untouched. Invariants: without a journal its metrics have no
sample; every reason of a failed handshake is there from its leg's start, since Prometheus' increase() sees no rise in a
series that begins with its first event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..http.request_checks import HttpRefusal
from ..logs.queue import told
from ..network.accept_limiter import Pause
from ..process.supervision import Task
from ..relay.direction import Cause
from ..relay.in_flight import Full
from ..roles import Role
from ..tls.failures import Reason
from .metric_row import PREFIX, Metric, one, per_role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..journal.writer import JournalStatistics
    from .metric_row import Overload, Read, Sample, Sources


def _http_answers(sources: Sources) -> Iterator[Sample]:
    for status, count in sorted(sources.http.answers.items()):
        yield (str(status),), count


def _http_refused(sources: Sources) -> list[Sample]:
    return [((reason.value,), sources.http.refused[reason]) for reason in HttpRefusal]


def _journal(read: Callable[[JournalStatistics], float]) -> Read:
    return lambda sources: [] if sources.journal is None else [((), read(sources.journal))]


OWN_METRICS = (
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
    Metric(
        PREFIX + "build_info",
        "info",
        ("version",),
        "The sidecar's version.",
        lambda sources: [((sources.version(),), 1.0)],
    ),
)


def _pauses(sources: Sources) -> Iterator[Sample]:
    for pause in Pause:
        yield (pause.value,), 0 if sources.overload is None else sources.overload.accept_limiter.pauses[pause]


def _paused(sources: Sources) -> Iterator[Sample]:
    pausing = None if sources.overload is None else sources.overload.accept_limiter.pausing
    for pause in Pause:
        yield (pause.value,), pause is pausing


def _ended(sources: Sources) -> Iterator[Sample]:
    for role in Role:
        ended = sources.statistics.of(role).ended
        for cause in Cause:
            yield (role.value, cause.value), ended[cause.value]


def _in_flight(sources: Sources) -> Iterator[Sample]:
    for role in Role:
        pauses = sources.statistics.of(role).in_flight_pauses
        for full in Full:
            yield (role.value, full.value), pauses[full.value]


def _from(read: Callable[[Overload], float]) -> Read:
    return lambda sources: [((), 0 if sources.overload is None else read(sources.overload))]


OVERLOAD_METRICS = (
    Metric(
        PREFIX + "accept_pauses_total",
        "counter",
        ("reason",),
        "Times that no connection was accepted for a while, because there was no room for it.",
        _pauses,
    ),
    Metric(
        PREFIX + "accept_paused",
        "gauge",
        ("reason",),
        "1 for the reason why no connection is accepted now; 0 for the others.",
        _paused,
    ),
    Metric(
        PREFIX + "ended_connections_total",
        "counter",
        ("role", "cause"),
        "Relayed connections that have ended, by cause.",
        _ended,
    ),
    Metric(
        PREFIX + "in_flight_pauses_total",
        "counter",
        ("role", "bound"),
        "Times that a connection was not read on because it had too much in flight.",
        _in_flight,
    ),
    Metric(
        PREFIX + "held_bytes",
        "gauge",
        (),
        "Bytes of frames that have to be whole before anything is done with them, held now.",
        _from(lambda overload: overload.reaper.buffers.held),
    ),
    Metric(
        PREFIX + "remembered_replicas",
        "gauge",
        ("role",),
        "Throttled replicas remembered now, those missing from requests for a short time included.",
        per_role(lambda sources, role: sources.remembered_replicas(role)),
    ),
)


def _failures(sources: Sources) -> Iterator[Sample]:
    for leg in sources.tls or ():
        for reason in Reason:
            yield (leg.name, reason.value), leg.failures[reason]


def _handshakes(sources: Sources) -> Iterator[Sample]:
    for leg in sources.tls or ():
        yield (leg.name,), leg.handshakes_done


def _expiry(sources: Sources) -> Iterator[Sample]:
    for leg in sources.tls or ():
        for what, expires in leg.loaded.expires.items():
            yield (leg.name, what), expires


def _reloads(sources: Sources) -> Iterator[Sample]:
    yield from () if sources.tls is None else sources.tls.reloads()


TLS_METRICS = (
    Metric(
        PREFIX + "tls_handshakes_total",
        "counter",
        ("leg",),
        "TLS handshakes that succeeded.",
        _handshakes,
    ),
    Metric(
        PREFIX + "tls_handshake_failures_total",
        "counter",
        ("leg", "reason"),
        "TLS handshakes that did not succeed, and with them their connection.",
        _failures,
    ),
    Metric(
        PREFIX + "certificate_expiry_timestamp_seconds",
        "gauge",
        ("leg", "store"),
        "When the first certificate of a leg's keystore or truststore ends.",
        _expiry,
    ),
    Metric(
        PREFIX + "tls_reloads_total",
        "counter",
        ("leg", "outcome"),
        "Times a leg's keys were read again because their files had changed.",
        _reloads,
    ),
)

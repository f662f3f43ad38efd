"""The metrics of the sidecar itself: journal, log, background tasks, loop, pages, overload and TLS.

Rows of `metric_row`. Under overload first no further connection is accepted; then no further replica is
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
from ..statistics.counters import Full
from ..tls.handshakes import Reason
from .metric_row import counted_of_each, counter, gauge, info, one

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..journal.writer import JournalStatistics
    from .metric_row import Read, Sample, Sources


def _http_answers(sources: Sources) -> Iterator[Sample]:
    for status, count in sorted(sources.http.answers.items()):
        yield (str(status),), count


def _http_refused(sources: Sources) -> list[Sample]:
    return [((reason.value,), sources.http.refused[reason]) for reason in HttpRefusal]


def _journal(read: Callable[[JournalStatistics], float]) -> Read:
    return lambda sources: [] if sources.journal is None else [((), read(sources.journal))]


OWN_METRICS = (
    counter("journal_lines_total", "Lines written to the journal.", _journal(lambda journal: journal.lines)),
    counter(
        "journal_dropped_total",
        "Lines that the disk did not take, and partitions left out.",
        _journal(lambda journal: journal.dropped),
    ),
    counter(
        "journal_removed_files_total",
        "Oldest files of the journal, removed to stay below journal.keep.",
        _journal(lambda journal: journal.removed_files),
    ),
    counter(
        "task_restarts_total{task}",
        "Background tasks that failed and were restarted.",
        lambda sources: [((task.value,), sources.task_restarts.get(task, 0)) for task in Task],
    ),
    gauge(
        "loop_lag_seconds",
        "How late the event loop ran a task that was due, the worst of the last 15 to 30 seconds.",
        one(lambda sources: sources.loop_lag_seconds()),
    ),
    counter(
        "log_dropped_total{reason}",
        "Log lines lost.",
        lambda sources: told(sources.statistics.log_dropped),
    ),
    counter("http_answers_total{code}", "HTTP requests answered, by status code.", _http_answers),
    counter(
        "http_refused_total{reason}",
        "HTTP connections closed early, and requests not served.",
        _http_refused,
    ),
    info("build_info{version}", "The sidecar's version.", lambda sources: [((sources.version(),), 1.0)]),
)


def _pauses(sources: Sources) -> Iterator[Sample]:
    for pause in Pause:
        yield (pause.value,), 0 if sources.accept_limiter is None else sources.accept_limiter.pauses[pause]


def _paused(sources: Sources) -> Iterator[Sample]:
    pausing = None if sources.accept_limiter is None else sources.accept_limiter.pausing
    for pause in Pause:
        yield (pause.value,), pause is pausing


OVERLOAD_METRICS = (
    counter(
        "accept_pauses_total{reason}",
        "Times that accepting paused because there was no room for a connection.",
        _pauses,
    ),
    gauge("accept_paused{reason}", "1 for the reason why no connection is accepted now; 0 for the others.", _paused),
    counter(
        "ended_connections_total{role,cause}",
        "Relayed connections that have ended, by cause.",
        counted_of_each(Cause, lambda role: role.ended),
    ),
    counter(
        "in_flight_pauses_total{role,bound}",
        "Times that reading from a connection paused because too much was in flight.",
        counted_of_each(Full, lambda role: role.in_flight_pauses),
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
    counter("tls_handshakes_total{leg}", "TLS handshakes that succeeded.", _handshakes),
    counter(
        "tls_handshake_failures_total{leg,reason}",
        "TLS handshakes that failed; their connections were closed.",
        _failures,
    ),
    gauge(
        "certificate_expiry_timestamp_seconds{leg,store}",
        "When the first certificate of a leg's store expires, Unix seconds.",
        _expiry,
    ),
    counter(
        "tls_reloads_total{leg,outcome}",
        "Times a leg's keys were read again because their files had changed.",
        _reloads,
    ),
)

"""The metrics of the sidecar itself: its journal, log, background tasks, loop and pages.

Rows like those of `metrics`. Invariant: without a journal its metrics have no sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..http.statistics import HttpRefusal
from ..logs.queue import told
from ..process.supervision import Task
from .metric_row import PREFIX, Metric, one

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

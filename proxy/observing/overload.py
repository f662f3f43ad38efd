"""The metrics of overload: connections, replicas and frames that are refused or pass untouched.

The order in which it gives way: first no further connection is accepted; then no further replica is remembered and no
further frame held, and these pass untouched. Reads counts only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..network.accept_limiter import Pause
from ..relay.exchange import Cause, Full
from ..roles import Role
from .metric_row import PREFIX, Metric, per_role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .metric_row import Overload, Read, Sample, Sources


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
        _from(lambda overload: overload.caretaker.buffers.held),
    ),
    Metric(
        PREFIX + "remembered_replicas",
        "gauge",
        ("role",),
        "Throttled replicas remembered now, those missing from requests for a short time included.",
        per_role(lambda sources, role: sources.remembered_replicas(role)),
    ),
)

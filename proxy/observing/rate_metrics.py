"""The metrics of rates that set themselves.

Rows like those of `metrics`. Invariant: if the file says a role's rate itself, the metrics of a choice have no sample
for that role. `deadline_late` is the exception: it is 0 then, so that a rule sees it rise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..rates.signals import Signal
from ..roles import Role
from .metric_row import PREFIX, Metric, Read, Sources, per_role

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..rates.choice import Choice


def _chosen(read: Callable[[Choice], float | None]) -> Read:
    def samples(sources: Sources) -> list[tuple[tuple[str, ...], float]]:
        chosen = {role: sources.chosen(role) for role in Role}
        values = {role: read(choice) for role, choice in chosen.items() if choice is not None}
        return [((role.value,), value) for role, value in values.items() if value is not None]

    return samples


def _late(sources: Sources, role: Role) -> float:
    choice = sources.chosen(role)
    return choice is not None and choice.late


def _lag_bytes(sources: Sources) -> list[tuple[tuple[str, ...], float]]:
    found = {role: sources.replica_stats(role).lag_bytes for role in Role}
    return [((role.value,), lag) for role, lag in found.items() if lag is not None]


def _limited_by(sources: Sources) -> list[tuple[tuple[str, ...], float]]:
    chosen = {role: sources.chosen(role) for role in Role}
    return [
        ((role.value, str(signal)), float(choice.signal == signal))
        for role, choice in chosen.items()
        if choice is not None and choice.auto
        for signal in Signal
    ]


RATE_METRICS = (
    Metric(
        PREFIX + "auto_rate_bytes_per_second",
        "gauge",
        ("role",),
        "The rate chosen as one that does not hurt; no sample where the rate is another, as what a deadline needs.",
        _chosen(lambda choice: choice.bytes_per_second if choice.auto and not choice.may_hurt else None),
    ),
    Metric(
        PREFIX + "auto_limited_by",
        "gauge",
        ("role", "signal"),
        "1 for the signal that keeps a rate that does not hurt from being more; 0 for the others.",
        _limited_by,
    ),
    Metric(
        PREFIX + "deadline_timestamp_seconds",
        "gauge",
        ("role",),
        "When catch-up is to be over; no sample without a deadline.",
        _chosen(lambda choice: None if choice.finish_by is None else choice.finish_by.timestamp()),
    ),
    Metric(
        PREFIX + "deadline_needed_bytes_per_second",
        "gauge",
        ("role",),
        "The rate needed to be done by the deadline, whatever the most it may be.",
        _chosen(lambda choice: choice.needed_bytes_per_second),
    ),
    Metric(
        PREFIX + "deadline_late",
        "gauge",
        ("role",),
        "1 if what is behind will not be done by the deadline, or was not; else 0.",
        per_role(_late),
    ),
    Metric(
        PREFIX + "lag_bytes",
        "gauge",
        ("role",),
        "Bytes that throttled replicas are behind, by the size of their messages so far; no sample while unknown.",
        _lag_bytes,
    ),
)

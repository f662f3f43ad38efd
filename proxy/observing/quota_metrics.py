"""The metrics of quotas: rates in force, those that set themselves, inner rates and priorities, changes, and whether
quotas.toml was read.

Rows of `metric_row`. Invariants: they show the quotas in force, whatever is in the file; an inner rate has a
sample as long as quotas.toml has it.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from ..diagnostics.conditions import Kind
from ..quota_files.effective_quotas import Source
from ..quota_files.reload import ReloadResult
from ..quotas.priorities import Need
from ..rates.signals import Signal
from ..roles import Role
from .metric_row import Read, counted_by, counter, gauge, info, one, per_role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from admission.shares import BudgetNode

    from ..rates.choice import Choice
    from .metric_row import Sample, Sources


def _conditions(sources: Sources) -> Iterator[Sample]:
    found = Counter(each.name for each in sources.conditions())
    for kind in Kind:
        yield (kind.label, kind.severity.value), found[kind.label]


def _quota_until(sources: Sources) -> Iterator[Sample]:
    for role, until in sources.quotas().until.items():
        if role in sources.served:
            yield (role.value,), until.timestamp()


def _quota_next_change(sources: Sources) -> Iterator[Sample]:
    change = sources.upcoming()
    if change is None:
        return
    for role in sources.served:
        if change.after.of(role) != change.before.of(role) or change.after.enforce != change.before.enforce:
            yield (role.value,), change.at.timestamp()


def _last_success(sources: Sources) -> Iterator[Sample]:
    if sources.reloads.last_success_timestamp_seconds is not None:
        yield (), sources.reloads.last_success_timestamp_seconds


def _overrides(sources: Sources) -> Iterator[Sample]:
    for label, count in Counter(each.label or "" for each in sources.overrides()).items():
        yield (label,), count


def _oldest_override(sources: Sources) -> Iterator[Sample]:
    for ends in (True, False):
        made = [each.since.timestamp() for each in sources.overrides() if (each.until is not None) is ends]
        if made:
            yield (str(ends).lower(),), min(made)


QUOTA_METRICS = (
    gauge(
        "limit_bytes_per_second{role}",
        "The quota in effect, +Inf if unlimited; of a rate that sets itself, the one chosen.",
        per_role(lambda sources, role: sources.limit_bytes_per_second(role) if role in sources.served else math.inf),
    ),
    gauge(
        "quota_until_timestamp_seconds{role}",
        "When the first part of the quota ends by an `until`, Unix seconds; no sample if none does.",
        _quota_until,
    ),
    gauge(
        "quota_next_change_timestamp_seconds{role}",
        "When the quota next changes by an `until`, Unix seconds; no sample if it does not.",
        _quota_next_change,
    ),
    gauge("overrides{label}", "Overrides in force, by label; no sample if there is none.", _overrides),
    gauge(
        "oldest_override_timestamp_seconds{ends}",
        "When the oldest override with or without an end was made, Unix seconds.",
        _oldest_override,
    ),
    gauge(
        "conditions{name,severity}",
        "What is wrong now, by the names of docs/runbooks.md; 0 if it is not.",
        _conditions,
    ),
    gauge(
        "enforcing",
        "1 if quotas are enforced, 0 if they are only observed.",
        one(lambda sources: sources.quotas().enforce),
    ),
    counter(
        "config_reloads_total{outcome}",
        "Times quotas.toml was read again.",
        lambda sources: [((result.value,), sources.reloads.outcomes[result]) for result in ReloadResult],
    ),
    gauge(
        "config_last_reload_successful",
        "0 while quotas.toml is wrong and the last good one stays in effect.",
        one(lambda sources: sources.reloads.last_reload_successful),
    ),
    gauge(
        "config_last_reload_success_timestamp_seconds",
        "When quotas.toml was last read and valid, Unix seconds; of quotas of an earlier run, when they were kept.",
        _last_success,
    ),
    gauge(
        "quotas_in_force{source}",
        "1 for the source of the quotas in effect, 0 for the others; none: nothing is throttled.",
        lambda sources: [((source.value,), source is sources.quota_source()) for source in Source],
    ),
    counter(
        "quotas_kept_total{outcome}",
        "Times the last good quotas were written to disk for the next start.",
        lambda sources: [((outcome,), sources.quota_keeping.get(outcome, 0)) for outcome in ("written", "failed")],
    ),
    info(
        "config_info{hash}",
        "The quotas.toml in effect, by the start of its SHA-256.",
        lambda sources: [((sources.quotas().hash,), 1.0)],
    ),
)


def _of_each(read: Callable[[BudgetNode], float]) -> Read:
    def samples(sources: Sources) -> list[tuple[tuple[str, ...], float]]:
        return [((role.value, *bound.entity), read(bound)) for role in sources.served for bound in sources.bounds(role)]

    return samples


def _in_need(sources: Sources) -> Iterator[Sample]:
    for role in Role:
        in_need = sources.replica_stats(role).in_need
        for need in Need:
            if need is not Need.MOVES:
                yield (role.value, need.value), in_need.get(need.value, 0)


BOUND_METRICS = (
    gauge(
        "bound_limit_bytes_per_second{role,kind,name}",
        "A rate inside the role's quota, of a peer, a rack, or a topic or glob (label kind).",
        _of_each(lambda bound: bound.bytes_per_second),
    ),
    counter(
        "bound_throttled_bytes_total{role,kind,name}",
        "Bytes of throttled partitions under a rate inside the role's quota.",
        _of_each(lambda bound: bound.passed_bytes),
    ),
    counter(
        "cross_rack_bytes_total{role,direction}",
        "Bytes relayed between this broker's rack and another, where both are known.",
        counted_by(
            request=lambda role: role.cross_rack_request_bytes, response=lambda role: role.cross_rack_response_bytes
        ),
    ),
    gauge(
        "replicas_in_need{role,need}",
        "Throttled replicas behind whose partitions are under min ISR or under-replicated.",
        _in_need,
    ),
)


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
    gauge(
        "auto_rate_bytes_per_second{role}",
        "The rate that `auto` has chosen; no sample while a deadline needs more.",
        _chosen(lambda choice: choice.bytes_per_second if choice.auto and not choice.may_hurt else None),
    ),
    gauge(
        "auto_limited_by{role,signal}",
        "1 for the signal that keeps the rate of `auto` from rising; 0 for the others.",
        _limited_by,
    ),
    gauge(
        "deadline_timestamp_seconds{role}",
        "When catch-up has to be done, Unix seconds; no sample without a deadline.",
        _chosen(lambda choice: None if choice.finish_by is None else choice.finish_by.timestamp()),
    ),
    gauge(
        "deadline_needed_bytes_per_second{role}",
        "The rate needed to meet the deadline, whatever `max` is.",
        _chosen(lambda choice: choice.needed_bytes_per_second),
    ),
    gauge(
        "deadline_late{role}",
        "1 if catch-up misses its deadline even at `max`; else 0.",
        per_role(_late),
    ),
    gauge(
        "lag_bytes{role}",
        "Bytes that throttled replicas are behind, by the average size of their messages; no sample while unknown.",
        _lag_bytes,
    ),
)

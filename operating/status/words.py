"""Describes problems, quotas in force and the next changes in words, for one sidecar or fifty.

A fact about several sidecars is one line that names them. Pure. Invariant: nothing is left out but names of brokers
beyond `MAX_NAMED`, and their number is shown.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from proxy.quotas import format_bytes

from ..fleet.replies import layer_name
from ..quota_words import (
    client_words,
    format_count,
    format_distance,
    format_duration,
    format_rate_in_brief,
    format_time,
)
from .rows import amiss_at, amiss_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from proxy.observing.throttle_page import ChangeState, ClientState, Page, RateState, RoleChangeState, RoleState

    from .rows import Amiss, RoleRow

MAX_NAMED = 12
REVERT = "revert an override: throttle-sidecar undo ID, with the same --fleet or --url"
_MAX_CHANGES = 3
"""The most changes of an override that are shown; `throttle-sidecar overrides` has them all."""
_NO_HOLD = frozenset({"nothing", "nothing_behind", "lag_unknown", "deadline_passed"})
"""The values of `held_by` that name no bound and no signal; the reason beside them says it all."""


def warnings(rows: Sequence[RoleRow], pages: Iterable[Page]) -> list[str]:
    """Return the problems, those of most sidecars first."""
    said = [each for page in pages for each in amiss_at(page)] + [each for row in rows for each in amiss_in(*row)]
    groups: dict[tuple[str | None, str], list[Amiss]] = {}
    for each in said:
        groups.setdefault((each.role, each.text), []).append(each)
    found = sorted(groups.items(), key=lambda group: -len({each.broker for each in group[1]}))
    return [
        f"{whom([each.broker for each in group], role)}: "
        + text.replace("{count}", str(sum(each.counted for each in group)))
        for (role, text), group in found
    ]


def whom(brokers: Iterable[int], role: str | None = None) -> str:
    """Return `broker 101, leader`; `brokers 101, 102, … and 30 more`."""
    found = sorted(set(brokers))
    named = ", ".join(map(str, found[:MAX_NAMED]))
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    return f"broker{'s' if len(found) > 1 else ''} {named}{more}" + ("" if role is None else f", {role}")


def holding(pages: Sequence[Page], now: datetime) -> list[str]:
    """Return the quotas in effect, where, until when, and the next change."""
    same: dict[tuple[str, str, str | None, bool], list[Page]] = {}
    lines: dict[str, list[int]] = {}
    for page in pages:
        same.setdefault((page.policy, page.quotas.hash, page.version, _are_kept(page)), []).append(page)
        for line in (*_overrides(page, now), *_ahead(page, now)):
            lines.setdefault(line, []).append(page.broker)
        for line in (*_listener(page), *_clients(page)):
            lines.setdefault(line, []).append(page.broker)
    told = [_facts(group, now) for group in same.values()]
    told += [f"{whom(brokers)}{line}" for line, brokers in lines.items()]
    return [*told, REVERT] if any(page.quotas.overrides for page in pages) else told


def _overrides(page: Page, now: datetime) -> Iterator[str]:
    for override in page.quotas.overrides:
        label = "" if override.label is None else f" ({override.label})"
        ends = (
            "no end"
            if override.until is None
            else f"ends {format_time(override.until)} ({format_distance(override.until, now)})"
        )
        changed = "; ".join(
            f"{_named(each.place, each.key)} {each.value}, hides {each.hides}, {layer_name(each.layer)}"
            for each in override.effective[:_MAX_CHANGES]
        )
        more = len(override.effective) - _MAX_CHANGES
        more_said = f"; and {more} more" if more > 0 else ""
        changes = changed or "hidden by newer overrides"
        yield f": override {override.id}{label} by {override.by}, {ends}: {changes}{more_said}"


def _named(place: str, key: str) -> str:
    return key if place == "broker" else f"{place}.{key}"


def _facts(pages: Sequence[Page], now: datetime) -> str:
    page = pages[0]
    facts = [f"policy {page.policy}", f"quotas {page.quotas.hash}{_age(pages, now)}"]
    journals = [each.journal for each in pages if each.journal is not None]
    if journals:
        lines, dropped = sum(j.lines_total for j in journals), sum(j.dropped_total for j in journals)
        facts.append(f"journal {lines} lines, {dropped} dropped")
    if page.version:
        facts.append(f"version {page.version}")
    return f"{whom(each.broker for each in pages)}: {', '.join(facts)}"


def _are_kept(page: Page) -> bool:
    """Return True if the quotas in force are of an earlier run: since when they were kept is no time at which they were
    read."""
    return page.quotas.source == "last_good"


def _age(pages: Sequence[Page], now: datetime) -> str:
    # Where no quotas hold, an older sidecar says that they were read in 1970.
    read = [each.quotas.last_success_timestamp_seconds for each in pages]
    ages = [max(now.timestamp() - at, 0) for at in read if at]
    if not ages:
        return ""
    done, age = "first kept on disk" if _are_kept(pages[0]) else "read", format_duration(max(ages))
    return f" {done} {age} ago" if len(pages) == 1 else f", all {done} within the last {age}"


def _ahead(page: Page, now: datetime) -> Iterator[str]:
    for name, role in page.roles.items():
        if role.until is not None:
            yield f", {name}: quota ends {format_time(role.until)} ({format_distance(role.until, now)})"
        if role.rate is not None:
            yield f", {name}: {_chosen(role, role.rate)}"
        in_need = ", ".join(f"{count} {need}" for need, count in role.behind_in_need.items() if count)
        if in_need:
            yield f", {name}: replicas behind: {in_need}"
        for text in _bounds(role):
            yield f", {name}: {text}"
    change = page.quotas.next_change
    told = [] if change is None else list(_changes(page, change))
    if change is not None and told:
        when = f"{format_time(change.at)} ({format_distance(change.at, now)})"
        yield f": next change {when}: {', '.join(told)}"


def _listener(page: Page) -> Iterator[str]:
    """Yield the use of the listener's rate by clients and followers together."""
    leader = page.roles.get("leader")
    if (
        page.listener_bytes_per_second is not None
        and leader is not None
        and leader.passing_bytes_per_second is not None
    ):
        passing = leader.passing_bytes_per_second
        has, most, behind, in_sync, other = map(
            format_rate_in_brief,
            (sum(msgspec.structs.astuple(passing)), page.listener_bytes_per_second, *msgspec.structs.astuple(passing)),
        )
        yield f", listener has {has} of {most}: in sync {in_sync}, clients and others {other}, catching up {behind}"


def _share(state: ClientState) -> str:
    if not state.rate_bytes_per_second or not state.quota_bytes_per_second:
        return ""
    return f" ({state.rate_bytes_per_second / state.quota_bytes_per_second:.0%})"


def waiting(state: ClientState) -> str:
    """Describe how many connections of a client its quota holds, since when and how long at most; empty: none."""
    if state.muted_for_seconds is None:
        return ""
    since, left = format_duration(state.muted_for_seconds), format_duration(state.muted_seconds)
    return f", {state.muted_connections} of {state.connections} connections wait, since {since}, {left} more at most"


def waiting_lines(pages: Iterable[Page]) -> Iterator[str]:
    """Yield which clients still wait because of a quota, changed or ended as it may be."""
    for page in pages:
        for state in page.clients:
            if text := waiting(state):
                ended = " (its quota has ended)" if state.quota_bytes_per_second is None else ""
                yield f"{whom([page.broker])}: {client_words(state.entity)} as a {state.kind}{ended}{text}"


def _clients(page: Page) -> Iterator[str]:
    """Yield the quotas of clients, those that move most bytes first."""
    for state in page.clients[:MAX_NAMED]:
        quota = format_rate_in_brief(state.quota_bytes_per_second)
        has = "" if state.rate_bytes_per_second is None else f"{format_rate_in_brief(state.rate_bytes_per_second)} of "
        free = state.free_bytes_per_second
        tail = "" if free is None else f" behind the tail, {format_rate_in_brief(free)} at it"
        who = f"all other clients of {client_words(state.entity)}" if state.others else client_words(state.entity)
        yield f", {who} as a {state.kind}: {has}{quota}{_share(state)}{tail}{waiting(state)}"
    if len(page.clients) > MAX_NAMED:
        yield f": {len(page.clients) - MAX_NAMED} more quotas of clients"
    for key, by_section in page.client_settings.items():
        for entity, value in islice(by_section.items(), MAX_NAMED):
            yield f", {client_words(entity)}: {key} {value}"
        if len(by_section) > MAX_NAMED:
            yield f": {len(by_section) - MAX_NAMED} more of {key}"


def _bounds(role: RoleState) -> Iterator[str]:
    """Yield the rates inside the role's, those that are used most first."""
    found = sorted(role.bounds, key=lambda bound: -bound.rate_bytes_per_second / (bound.quota_bytes_per_second or 1))
    for bound in found[:MAX_NAMED]:
        passes, most = map(format_rate_in_brief, (bound.rate_bytes_per_second, bound.quota_bytes_per_second))
        yield f"{bound.kind} {bound.name} has {passes} of {most}"
    if len(found) > MAX_NAMED:
        yield f"{len(found) - MAX_NAMED} more rates of racks, peers and topics"


def _chosen(role: RoleState, rate: RateState) -> str:
    told = f"the rate sets itself, now {format_rate_in_brief(role.quota_bytes_per_second)}"
    if rate.held_by:
        held = "" if rate.held_by in _NO_HOLD else f", held by {rate.held_by}"
        told += f"{held}: {rate.reason}"
    if role.lag_bytes:
        told += f"; {format_bytes(role.lag_bytes)} behind"
    most = format_rate_in_brief(rate.most_bytes_per_second)
    if rate.needed_bytes_per_second is not None and rate.late:
        told += f"; {format_rate_in_brief(rate.needed_bytes_per_second)} would be needed"
    return f"{told} (at most {most})"


def _changes(page: Page, change: ChangeState) -> Iterator[str]:
    """Yield the next changes for the roles of the page; nothing if none of it is theirs."""
    shown = {name: after for name, after in change.roles.items() if name in page.roles}
    told = [text for name, after in shown.items() for text in _role_changes(name, page.roles[name], after)]
    if change.enforce != page.enforce:
        told.append("enforcing" if change.enforce else "observing only")
    if not told and any(after.bounds is None for after in shown.values()):
        told.append("an older sidecar does not say what, `throttle-sidecar check` does")
    yield from told


def _role_changes(name: str, before: RoleState, after: RoleChangeState) -> Iterator[str]:
    source = None if before.rate is None else before.rate.source
    old, new = _in_words(before, source), _in_words(after, after.rate_source)
    if old != new:
        yield f"{name} {old} -> {new}"
    bounds = after.bounds or ()
    for bound in bounds[:MAX_NAMED]:
        yield f"{name} {bound.kind} {bound.name} {bound.before} -> {bound.after}"
    if len(bounds) > MAX_NAMED:
        yield f"{len(bounds) - MAX_NAMED} more rates inside {name}"
    if after.replicas_change:
        yield f"other replicas ({name})"


def _in_words(quota: RoleState | RoleChangeState, source: str | None) -> str:
    """Return the rate in words; of a rate that sets itself its aim, since the chosen rate changes every second."""
    return format_rate_in_brief(quota.quota_bytes_per_second) if source is None else source


def summary(answered: int, silent: int, amiss: int) -> str:
    """Summarise several sidecars in one line."""
    told = [f"{format_count(answered + silent)} sidecars", f"{answered} answer"]
    if silent:
        told.append(f"{silent} do not" if silent > 1 else "1 does not")
    return f"{told[0]}: {', '.join([*told[1:], f'{amiss} with warnings' if amiss else 'none with warnings'])}"

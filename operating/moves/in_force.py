"""What the quotas files that a plan was written to mean for its move: which rates hold, when, and how long it then
takes.

Works by the sidecar's own rules (`quotas.effective`). Another section may go before the one that was written, a
schedule may begin before the move ends, or `mode.enforce` may be false. Pure; time is an argument.
Invariant: a time is promised only from rates that hold until then; where a rack's rate may come into it, a warning
says so.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from proxy.errors import ConfigurationError
from proxy.quotas import RATE_KEYS, effective, format_rate, parse_quotas
from proxy.quotas.rules import governing_mode
from proxy.roles import Role
from reassignment import moving, throttle

from ..editing.asks import Ask
from ..editing.changing import change
from ..editing.editing import End
from ..editing.facts import Place
from ..editing.shadows import found_at
from .displaced import displaced, dropped
from .inner_rates import Moment, inner_parts, racks_below
from .stretches import Stretch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from proxy.quotas import QuotaFile, Quotas
    from reassignment import RoleName, TopicPartition

    from .planning import MovePlan

_MOST_MOMENTS = 60
_KEYS = {role.value: key for key, role in RATE_KEYS.items()}


class WrittenFile(NamedTuple):
    """path: as messages name it. before: what it meant; None if there was no such file, or none that was good."""

    path: str
    content: bytes
    quotas: QuotaFile
    before: QuotaFile | None = None

    @classmethod
    def of(cls, path: str, before: bytes | None, content: bytes) -> WrittenFile:
        """Raises ConfigurationError: `content` is not good."""
        was = None
        with suppress(ConfigurationError):
            was = None if before is None else parse_quotas(before)
        return cls(path, content, parse_quotas(content, source=path), was)


def in_force(plan: MovePlan, files: Mapping[int, WrittenFile], now: datetime) -> MovePlan:
    """Return the plan with the rates that hold once the sidecars have read `files` (by broker), and with a warning for
    each rate that is another one than planned, and for each standing list that throttles less than before."""
    moments = {broker: _moments(file.quotas, broker, now) for broker, file in files.items()}
    written = [key for key in plan.rates if key[0] in files]
    holds = {key: _stretches(plan, key, moments[key[0]]) for key in written}
    inside = {key: inner_parts(plan.ground, key, moments[key[0]]) for key in written}
    found = replace(plan, holds=holds, inside=inside)
    warnings = [*_not_enforced(files, now), *_displaced(plan, files, now)]
    for key in holds:
        warnings += _about(found, key, files[key[0]], now)
        warnings += _about_inside(
            found, key, f"{files[key[0]].path}: broker {key[0]} as {key[1]}", moments[key[0]], now
        )
    return replace(found, warnings=(*plan.warnings, *dict.fromkeys(warnings)))


def _moments(quota_file: QuotaFile, broker: int, now: datetime) -> list[Moment]:
    """Return what the file means to a broker now, and from each of the next changes on."""
    found: list[Moment] = []
    at: datetime | None = now
    while at is not None and len(found) < _MOST_MOMENTS:
        quotas = effective(quota_file, broker, at)
        found.append(Moment((at - now).total_seconds(), quotas))
        at = quotas.next_change
    return found


def _stretches(plan: MovePlan, key: tuple[int, RoleName], moments: Sequence[Moment]) -> tuple[Stretch, ...]:
    found: list[Stretch] = []
    for begins, quotas in moments:
        rate = _rate(quotas, key[1], _listed(plan, key))
        if not found or found[-1].bytes_per_second != rate:
            found.append(Stretch(begins, rate))
    return tuple(found)


def _rate(quotas: Quotas, role: RoleName, listed: list[TopicPartition]) -> float:
    quota = quotas.of(Role(role))
    throttled = quotas.enforce and all(quota.selects(*partition) for partition in listed)
    return quota.bytes_per_second if throttled else math.inf


def _listed(plan: MovePlan, key: tuple[int, RoleName]) -> list[TopicPartition]:
    """Return the partitions of the move that a broker sends as a leader, or fetches as a follower."""
    broker, role = key
    moves = moving(plan.ground.moves)
    if role == "leader":
        return [partition for partition, move in moves.items() if broker in move.sources]
    return [partition for partition, move in moves.items() if broker in move.destinations]


def _not_enforced(files: Mapping[int, WrittenFile], now: datetime) -> Iterator[str]:
    for written in {file.path: file for file in files.values()}.values():
        mode = governing_mode(written.quotas, now)
        if mode is not None and mode.enforce is False:
            until = "" if mode.until is None else f" until {mode.until:%Y-%m-%dT%H:%M:%SZ}"
            yield (
                f"{written.path}: {mode.path}.enforce is false{until}: nothing is throttled, only observed:"
                f" throttle-sidecar set mode.enforce true --quotas {written.path}"
            )


def _displaced(plan: MovePlan, files: Mapping[int, WrittenFile], now: datetime) -> Iterator[str]:
    lists = throttle(plan.ground.moves, plan.rates).lists
    for path, written in {file.path: file for file in files.values()}.items():
        readers = [broker for broker, file in files.items() if file.path == path]
        if written.before is not None:
            found = displaced(written.before, written.quotas, lists, readers, now)
            others = dropped(written.before, written.quotas, lists, plan.ground.moves, readers, now)
            yield from (f"{path}: {warning}" for warning in (*found, *others))


def _about(plan: MovePlan, key: tuple[int, RoleName], written: WrittenFile, now: datetime) -> Iterator[str]:
    """Yield a warning wherever something else holds than the plan says, until its end."""
    broker, role = key
    who = f"{written.path}: broker {broker} as {role}"
    quotas = effective(written.quotas, broker, now)
    quota = quotas.of(Role(role))
    missing = [str(partition) for partition in _listed(plan, key) if not quota.selects(*partition)]
    if missing:
        yield f"{who}: {missing[0]} is not throttled: another list of that topic goes first"
    if quota.bytes_per_second != plan.rates[key]:
        holds, planned = format_rate(quota.bytes_per_second), format_rate(plan.rates[key])
        yield f"{who}: {holds} holds, not {planned}: {_first(key, written, now)}"
    ends = plan.total_seconds
    later = [stretch for stretch in plan.holding(key)[1:] if math.isnan(ends) or stretch.begins < ends]
    if later and quotas.enforce:
        begins, rate = later[0]
        at = f"{now + timedelta(seconds=begins):%Y-%m-%dT%H:%M:%SZ}"
        what = "nothing is throttled any more" if math.isinf(rate) else f"{format_rate(rate)} holds"
        yield f"{who}: from {at} {what}, and the move is not done by then"


def _about_inside(
    plan: MovePlan, key: tuple[int, RoleName], who: str, moments: Sequence[Moment], now: datetime
) -> Iterator[str]:
    """Yield a warning for each rate inside the planned one that is below it before the move ends."""
    planned, ends = plan.rates[key], plan.total_seconds
    if not moments[0].quotas.enforce:
        return
    for part in plan.inside[key]:
        begins, rate = part.first
        if rate < planned and (not begins or math.isnan(ends) or begins < ends):
            at = f" from {now + timedelta(seconds=begins):%Y-%m-%dT%H:%M:%SZ}" if begins else ""
            yield f"{who}: inside the planned {format_rate(planned)}, {part.name} has {format_rate(rate)}{at}"
    for rack, rack_rate in racks_below(key[1], planned, moments).items():
        yield (
            f"{who}: inside the planned {format_rate(planned)}, rack {rack} has {format_rate(rack_rate)}: which brokers"
            " are of it is not known here, and with one of them the move takes longer"
        )


def _first(key: tuple[int, RoleName], written: WrittenFile, now: datetime) -> str:
    """Say which section goes before the planned rate, and which command ends that."""
    broker, role = key
    place = Place(("brokers", str(broker)), _KEYS[role])
    found = found_at(written.quotas, place, broker, now)
    if found is None:
        return "no section sets this rate"
    first = f"{found[0].path} goes first"
    try:
        change(written.content, [Ask(place, End())], now, readers=[broker])
    except ConfigurationError:
        return first
    return f"{first}; throttle-sidecar set {place.key} --broker {broker} --end --quotas {written.path} ends it"

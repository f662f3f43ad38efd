"""What the quotas files that a plan was written to mean for its move: which rates hold, when, and how long it then
takes.

Works by the sidecar's own rules (`quotas.effective`). Another section may go before the one that was written, a
schedule may begin before the move ends, or `mode.enforce` may be false. Pure; time is an argument.
Invariant: a time is promised only from rates that hold until then; of a rate that sets itself and is not the plan's own
the least counts. Where a rack's rate may come into it, a warning says so.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, NamedTuple

from proxy.errors import ConfigurationError
from proxy.quotas import RATE_KEYS, RoleQuota, effective, format_rate, parse_quotas
from proxy.quotas.rate_source import LEAST_RATE, RateSource
from proxy.quotas.rules import governing_mode
from proxy.roles import Role
from reassignment import moving, throttle

from ..editing.asks import Ask
from ..editing.changing import ShadowedError, change
from ..editing.editing import Assign, End
from ..editing.facts import Place
from ..editing.quota_change import commands, typed
from ..editing.shadows import ends_of, found_at
from .displaced import displaced, dropped
from .inner_rates import Moment, inner_parts, racks_below
from .stretches import Stretch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from proxy.quotas import QuotaFile, Quotas
    from proxy.quotas.rate_source import Deadline
    from reassignment import RoleName, TopicPartition

    from .planning import MovePlan

_MOST_MOMENTS = 60
_KEYS = {role.value: key for key, role in RATE_KEYS.items()}


class WrittenFile(NamedTuple):
    """path: as messages name it. before: what it meant; None if there was no such file, or none that was good.
    where: the options by which `set` finds it; empty: it is the file at `path`."""

    path: str
    content: bytes
    quotas: QuotaFile
    before: QuotaFile | None = None
    where: tuple[str, ...] = ()

    @classmethod
    def of(cls, path: str, before: bytes | None, content: bytes) -> WrittenFile:
        """Raises ConfigurationError: `content` is not good."""
        was = None
        with suppress(ConfigurationError):
            was = None if before is None else parse_quotas(before)
        return cls(path, content, parse_quotas(content, source=path), was)

    def typed(self, lines: Iterable[Sequence[str]]) -> str:
        """Return ``throttle-sidecar set …`` commands as a shell takes them, for this file."""
        return typed([*line, *(self.where or ("--quotas", self.path))] for line in lines)


class _Held(NamedTuple):
    """From `begins`, seconds from now, a rate holds. bytes_per_second: that are sure; infinite: nothing is throttled.
    words: as the file says it. is_least: it may be more, since it sets itself."""

    begins: float
    bytes_per_second: float
    words: str
    is_least: bool


def in_force(
    plan: MovePlan, files: Mapping[int, WrittenFile], now: datetime, deadline: Deadline | None = None
) -> MovePlan:
    """Return the plan with the rates that hold once the sidecars have read `files` (by broker), and with a warning for
    each rate that is another one than planned, and for each standing list that throttles less than before.

    `deadline`: by which the sidecars find the rates; the planned ones are then the most that they may be.
    """
    moments = {broker: _moments(file.quotas, broker, now) for broker, file in files.items()}
    planned = {key: _planned(rate, deadline) for key, rate in plan.rates.items() if key[0] in files}
    held = {key: _held(plan, key, quota, moments[key[0]]) for key, quota in planned.items()}
    found = replace(
        plan,
        at_least=frozenset(key for key, rates in held.items() if any(each.is_least for each in rates)),
        holds={key: tuple(Stretch(*each[:2]) for each in rates) for key, rates in held.items()},
        inside={key: inner_parts(plan.ground, key, moments[key[0]]) for key in planned},
    )
    ends = _ends(found, deadline, now)
    warnings = [*_not_enforced(files, now), *_displaced(plan, files, now)]
    for key, quota in planned.items():
        who = f"{files[key[0]].path}: broker {key[0]} as {key[1]}"
        warnings += _about(found, key, quota, files[key[0]], now)
        if moments[key[0]][0].quotas.enforce:
            warnings += _about_later(found, held[key], who, now, ends)
            warnings += _about_inside(found, key, who, moments[key[0]], now, ends)
    return replace(found, warnings=(*plan.warnings, *dict.fromkeys(warnings)))


def _planned(bytes_per_second: float, deadline: Deadline | None) -> RoleQuota:
    """What the plan wrote for a role, as the sidecar reads it."""
    if deadline is None:
        return RoleQuota(bytes_per_second)
    return RoleQuota(bytes_per_second, source=RateSource(bytes_per_second, min(LEAST_RATE, bytes_per_second), deadline))


def _ends(plan: MovePlan, deadline: Deadline | None, now: datetime) -> float:
    """Return for how many seconds something may be left to move; NaN if nobody knows. With a deadline the sidecars
    choose the least rates that will do, so a move takes all the time it is given."""
    if deadline is None or math.isnan(plan.total_seconds):
        return plan.total_seconds
    return max(plan.total_seconds, (deadline.moment(now) - now).total_seconds())


def _moments(quota_file: QuotaFile, broker: int, now: datetime) -> list[Moment]:
    """Return what the file means to a broker now, and from each of the next changes on."""
    found: list[Moment] = []
    at: datetime | None = now
    while at is not None and len(found) < _MOST_MOMENTS:
        quotas = effective(quota_file, broker, at)
        found.append(Moment((at - now).total_seconds(), quotas))
        at = quotas.next_change
    return found


def _held(
    plan: MovePlan, key: tuple[int, RoleName], planned: RoleQuota, moments: Sequence[Moment]
) -> tuple[_Held, ...]:
    found: list[_Held] = []
    listed = _listed(plan, key)
    for begins, quotas in moments:
        held = _Held(begins, *_rate(quotas, key[1], listed, planned))
        if not found or found[-1][1:] != held[1:]:
            found.append(held)
    return tuple(found)


def _rate(quotas: Quotas, role: RoleName, listed: list[TopicPartition], planned: RoleQuota) -> tuple[float, str, bool]:
    """Return the rate that is sure, what holds, in words, and whether it may be more."""
    quota = quotas.of(Role(role))
    throttled = quotas.enforce and all(quota.selects(*partition) for partition in listed)
    if not throttled or math.isinf(quota.bytes_per_second):
        return math.inf, "nothing is throttled any more", False
    source, words = quota.source, f"{quota.rate_in_words()} holds"
    if source is None or source == planned.source:
        return quota.bytes_per_second, words, False
    return source.least, words, True


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
            ends = ends_of(written.quotas, mode, now)
            until = "" if ends is None else f" until {_at(ends)}"
            asks = _to_enforce(written, now)
            does_it = written.typed(commands(asks, ())) if asks else "no command changes that: edit it by hand"
            yield f"{written.path}: {mode.path}.enforce is false{until}: nothing is throttled, only observed: {does_it}"


def _to_enforce(written: WrittenFile, now: datetime) -> tuple[Ask, ...]:
    """What to ask for so that quotas are enforced; empty if no command does it. Before a schedule by the clock only a
    value goes that ends with it."""
    ask = Ask(Place(("mode",), "enforce"), Assign(value=True))
    try:
        change(written.content, [ask], now)
    except ShadowedError as error:
        return error.instead
    except ConfigurationError:
        return ()
    return (ask,)


def _displaced(plan: MovePlan, files: Mapping[int, WrittenFile], now: datetime) -> Iterator[str]:
    lists = throttle(plan.ground.moves, plan.rates).lists
    for path, written in {file.path: file for file in files.values()}.items():
        readers = [broker for broker, file in files.items() if file.path == path]
        if written.before is not None:
            found = displaced(written.before, written.quotas, lists, readers, now)
            others = dropped(written.before, written.quotas, lists, plan.ground.moves, readers, now)
            yield from (f"{path}: {warning}" for warning in (*found, *others))


def _about(
    plan: MovePlan, key: tuple[int, RoleName], planned: RoleQuota, written: WrittenFile, now: datetime
) -> Iterator[str]:
    """Yield a warning wherever something else holds now than the plan says."""
    broker, role = key
    who = f"{written.path}: broker {broker} as {role}"
    quotas = effective(written.quotas, broker, now)
    quota = quotas.of(Role(role))
    missing = [str(partition) for partition in _listed(plan, key) if not quota.selects(*partition)]
    if missing:
        yield f"{who}: {missing[0]} is not throttled: another list of that topic goes first"
    if (quota.bytes_per_second, quota.source) != (planned.bytes_per_second, planned.source):
        # A rate that sets itself may stay at its least all the time.
        least = quota.source is not None and not math.isnan(plan.total_seconds)
        by = "; the time is by the least that it may be" if least else ""
        yield f"{who}: {quota.rate_in_words()} holds, not {planned.rate_in_words()}: {_first(key, written, now)}{by}"


def _about_later(plan: MovePlan, held: tuple[_Held, ...], who: str, now: datetime, ends: float) -> Iterator[str]:
    """Yield a warning if something else holds before the move is sure to be done: of what comes first, and of the
    first time in which nothing is throttled, which the other must not hide."""
    later = [each for each in held[1:] if math.isnan(ends) or each.begins < ends]
    for begins, _, what, _ in dict.fromkeys([*later[:1], *[each for each in later if math.isinf(each[1])][:1]]):
        then = "may not be done by then"
        if begins >= plan.total_seconds:
            then += ": it may take until its deadline"
        elif plan.ground.sizes and not plan.at_least:
            then = "is not done by then"
        yield f"{who}: from {_at(now + timedelta(seconds=begins))} {what}, and the move {then}"


def _about_inside(
    plan: MovePlan, key: tuple[int, RoleName], who: str, moments: Sequence[Moment], now: datetime, ends: float
) -> Iterator[str]:
    """Yield a warning for each rate inside the planned one that is below it before the move ends."""
    planned = plan.rates[key]
    for part in plan.inside[key]:
        begins, rate = part.first
        if rate < planned and (not begins or math.isnan(ends) or begins < ends):
            at = f" from {_at(now + timedelta(seconds=begins))}" if begins else ""
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
    does_it = written.typed([["throttle-sidecar", "set", place.key, "--broker", str(broker), "--end"]])
    return f"{first}; {does_it} ends it"


def _at(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"

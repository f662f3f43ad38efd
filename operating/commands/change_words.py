"""A change of quotas.toml in words and as JSON: what was, what is, what each broker meets before and after, the undo.

Pure; time is an argument. Invariant: what is told to hold is what the sidecar's own rules make of the file.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from proxy.errors import ConfigurationError
from proxy.quotas import advise, hash_of, parse_quotas
from proxy.quotas.advice import tiny_rates
from proxy.quotas.section_reading import SCHEDULES, UNTIL
from proxy.roles import Role

from ..editing.facts import facts, written
from ..editing.layout import as_inline
from ..editing.quota_change import commands, typed
from ..quota_words import differences, format_distance, format_time, source_in_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.quotas import QuotaFile, Quotas

    from ..editing.changing import Effect, QuotaChange, ShadowedError
    from ..editing.facts import Place

Json = dict[str, Any]
NO_COMMAND = "no command can undo this without changing which schedule goes first. Put these lines back by hand:"


@dataclass(frozen=True, slots=True)
class Told:
    """One change of a quotas file, to be told to the operator.

    Args:
        change: the change.
        source: the file's name.
        where: the options that name the file, for the command that takes the change back.
        now: with an offset.
        warned: the broker whose new warnings are told; None: of every broker for which something changes those of its
            rates. What else is hardly meant depends on the broker's proxy.toml, and on lists that are for others.
    """

    change: QuotaChange
    source: str
    where: tuple[str, ...]
    now: datetime
    warned: int | None = None

    @property
    def places(self) -> list[Place]:
        return list(dict.fromkeys(ask.place for ask in self.change.asks))

    def lines(self) -> list[str]:
        if not self.change.changes_something:
            return [
                f"{self.source}: {place}: says so already, and it holds: nothing is changed" for place in self.places
            ]
        return [
            *(line for place in self.places for line in self._place(place)),
            *(f"  also {entry}, which went first" for entry in self._entries_too()),
            *(f"  taken out: {gone}, which was over" for gone in self.change.swept),
            *(f"  note: nothing changes yet: {shadow}" for shadow in self.change.shadows),
            *self._effects(),
            *(f"warning: {warning}" for warning in self.warnings()),
        ]

    def undo_lines(self) -> list[str]:
        undo = self.undo()
        if undo is not None:
            return [f"undo: {typed(undo)}" if undo else "undo: not needed: what was there had ended"]
        if self._was_wrong() is not None:
            return ["undo: none: the file as it was would have been refused"]
        return [f"undo: {NO_COMMAND}", *(f"  {line}" for line in self._lines_gone())]

    def undo(self) -> list[list[str]] | None:
        if self.change.undo is None:
            return None
        return commands(self.change.undo, self.where, later=self._has_windows())

    def _has_windows(self) -> bool:
        """Whether the file has schedules with times. If it has, the undo is told with `--later`: an undo that is typed
        at night may bring back a value that holds only by day, and must not be refused for that."""
        return any(schedule.window is not None for schedule in parse_quotas(self.change.after).schedules)

    def _lines_gone(self) -> list[str]:
        after = self.change.after.decode().splitlines()
        return [line for line in self.change.before.decode().splitlines() if line.strip() and line not in after]

    def _entries_too(self) -> list[str]:
        """Return the schedules' sections that were changed as well, as far as the file had them before."""
        was = facts(self.change.before)
        sections = {written(path[:-1]) for path in was if path[0] == SCHEDULES}
        return [entry for entry in dict.fromkeys(self.change.entries) if entry in sections]

    def _place(self, place: Place) -> list[str]:
        lines = [
            f"{self.source}: {place}",
            f"  was  {_said(self.change.before, place, self.now)}",
            f"  now  {_said(self.change.after, place, self.now)}",
        ]
        said, ends = facts(self.change.after), (*place.section, UNTIL)
        if place.path in said and said[place.path] != facts(self.change.before).get(place.path):
            until = said.get(ends)
            if isinstance(until, datetime) and facts(self.change.before).get(ends) == until:
                at = f"{format_time(until)} ({format_distance(until, self.now)})"
                lines.append(f"  note: the whole section ends at {at}, and this value ends with it")
        return lines

    def _was_wrong(self) -> ConfigurationError | None:
        try:
            parse_quotas(self.change.before)
        except ConfigurationError as error:
            return error
        return None

    def _effects(self) -> list[str]:
        wrong = self._was_wrong()
        if wrong is not None:
            return [f"  note: the file as it was would have been refused: {wrong}"]
        groups: dict[tuple[str, ...], list[Effect]] = {}
        for effect in self.change.effects:
            groups.setdefault((_change_in_words(effect), *self._ahead(effect)), []).append(effect)
        if not groups:
            return ["every broker: nothing changes now"]
        everybody = len(self.change.brokers.every)
        return [
            line
            for (what, *ahead), effects in groups.items()
            for line in (f"{_whom(effects, everybody)}: {what}", *(f"  then {each}" for each in ahead))
        ]

    def _ahead(self, effect: Effect) -> list[str]:
        return [
            f"{format_time(ahead.at)} ({format_distance(ahead.at, self.now)}): "
            + ", ".join(differences(ahead.before, ahead.after))
            for ahead in effect.ahead
        ]

    def warnings(self) -> list[str]:
        """The warnings about the file after the change that were not true of the file before it."""
        if self._was_wrong() is not None:
            return []
        if self.warned is not None:
            old, new = (parse_quotas(content) for content in (self.change.before, self.change.after))
            return _new_warnings(old, new, self.warned, self.now)
        found: dict[str, list[Effect]] = {}
        for effect in self.change.effects:
            known = set() if effect.before is None else {*tiny_rates(effect.before)}
            for warning in tiny_rates(effect.after):
                if warning not in known:
                    found.setdefault(warning, []).append(effect)
        everybody = len(self.change.brokers.every)
        return [f"{_whom(effects, everybody)}: {warning}" for warning, effects in found.items()]

    def as_json(self) -> Json:
        """The change as `--json` prints it. Rates are in bytes per second, null for one without limit, the most that it
        may be for one that sets itself (`rate_source`). `broker` null stands for every broker that the file does not
        name."""
        return {
            "file": self.source,
            "changed": self.change.changes_something,
            "hash": hash_of(self.change.after),
            "places": [
                {"place": str(place), "was": _fact(self.change.before, place), "now": _fact(self.change.after, place)}
                for place in self.places
            ],
            "also_changed": self._entries_too(),
            "taken_out": self.change.swept,
            "goes_first": [_shadow(shadow) for shadow in self.change.shadows],
            "brokers": [
                {
                    "broker": effect.broker,
                    "before": None if effect.before is None else _quotas(effect.before),
                    "after": _quotas(effect.after),
                    "ahead": [{"at": ahead.at, **_quotas(ahead.after)} for ahead in effect.ahead],
                }
                for effect in self.change.effects
            ],
            "warnings": self.warnings(),
            "undo": self.undo(),
        }


def _new_warnings(old: QuotaFile, new: QuotaFile, broker_id: int, now: datetime) -> list[str]:
    known = {*advise(old, broker_id, now)}
    return [warning for warning in advise(new, broker_id, now) if warning not in known]


def refusal_lines(error: ShadowedError, where: Sequence[str]) -> list[str]:
    """Say which section goes before the place that was to change, and which command has the wanted effect."""
    lines = list(error.problems)
    if error.instead:
        lines.append(f"this does it: {typed(commands(error.instead, where))}")
    own = [shadow for shadow in error.shadows if shadow.is_the_brokers_own]
    if own and error.instead and any(ask.alone for ask in error.instead):
        lines.append("for brokers without a value of their own alone: the same with --broker default")
    elif not error.instead:
        lines.append("no command does it: edit the section that goes first by hand, then throttle-sidecar check")
    if any(SCHEDULES in shadow.section for shadow in error.shadows):
        lines.append("to write it all the same, for when the schedule is over: the same with --later")
    return lines


def refusal_json(error: ConfigurationError, source: str | None, where: Sequence[str]) -> Json:
    shadows, instead = getattr(error, "shadows", ()), getattr(error, "instead", ())
    return {
        "file": source,
        "changed": False,
        "problems": error.problems,
        "goes_first": [_shadow(shadow) for shadow in shadows],
        "instead": commands(instead, where) if instead else None,
    }


def _shadow(shadow: Any) -> Json:
    return {
        "place": str(shadow.place),
        "broker": shadow.broker,
        "section": shadow.section,
        "says": shadow.said,
        "ends": shadow.ends,
    }


def _quotas(quotas: Quotas) -> Json:
    return {
        "enforce": quotas.enforce,
        **{
            role.value: {
                "bytes_per_second": _finite(quotas.of(role).bytes_per_second),
                # By when it is to end is for the sidecar that takes it to say.
                "rate_source": None if (source := quotas.of(role).source) is None else source_in_json(source),
                "inside": {str(entity): _finite(rate) for entity, rate in quotas.of(role).finer.said()},
                "replicas": quotas.of(role).listed(),
            }
            for role in Role
        },
    }


def _finite(bytes_per_second: float) -> float | None:
    return None if math.isinf(bytes_per_second) else bytes_per_second


def _change_in_words(effect: Effect) -> str:
    if effect.before is None:
        return "holds now"
    return ", ".join(differences(effect.before, effect.after)) or "nothing changes now"


def _whom(effects: Sequence[Effect], everybody: int) -> str:
    named = [str(effect.broker) for effect in effects if effect.broker is not None]
    others = len(named) < len(effects)
    if others and len(effects) == everybody:
        return "every broker"
    told = [f"broker{'s' if len(named) > 1 else ''} {', '.join(named)}"] if named else []
    return " and ".join([*told, *(["every other broker"] if others else [])])


def _said(content: bytes, place: Place, now: datetime) -> str:
    """Say what a file has at one place: the section's own value, and then the values of schedules, which go before it
    while they hold."""
    said = facts(content)
    own = said.get(place.path)
    told = "not set" if own is None else _shown(own) + _end(said.get((*place.section, UNTIL)), now)
    for path, value in said.items():
        if path[0] == SCHEDULES and path[2:] == place.path:
            told += f"; {path[0]}[{path[1]}] {_shown(value)}{_end(said.get((*path[:2], UNTIL)), now)}"
    return told


def _fact(content: bytes, place: Place) -> Any:
    return facts(content).get(place.path)


def _end(until: object, now: datetime) -> str:
    return f", until {format_time(until)} ({format_distance(until, now)})" if isinstance(until, datetime) else ""


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return as_inline(value)
    return json.dumps(value, ensure_ascii=False, default=str)

"""What ``set`` is asked for, and what it says of an edit: the place, the value, the change in words, the undo command.

Pure; time is an argument. Invariant: the undo command, typed as it is printed, brings back what held.
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ..errors import ConfigurationError, InvalidValueError
from ..quotas import RATE_KEYS, REPLICAS_KEYS, advise, effective, parse_quotas, shown
from ..quotas.editing import Assign, End, Place, Remove, facts
from .quota_words import differences, format_distance, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..quotas.editing import Edit, Value, Wish

ENFORCE = "mode.enforce"
KEYS = (*RATE_KEYS, *REPLICAS_KEYS, ENFORCE)
DEFAULT_BROKER = "default"
_SPAN = re.compile(r"(?:([0-9]{1,4})d)?(?:([0-9]{1,4})h)?(?:([0-9]{1,5})m)?(?:([0-9]{1,6})s)?", re.ASCII)
_LONGEST = timedelta(days=366)
_UNTIL = "until"


def parse_place(key: str, broker: str | None, topic: str | None) -> Place:
    """Raises InvalidValueError for a key that is none, or that does not belong there."""
    if key not in KEYS:
        alike = difflib.get_close_matches(key, KEYS, n=1)
        advice = f" (did you mean {alike[0]}?)" if alike else ""
        raise InvalidValueError(f"{key}: unknown key; expected one of {', '.join(KEYS)}{advice}")
    if key == ENFORCE:
        if broker is not None or topic is not None:
            raise InvalidValueError(f"{key}: holds for the whole file: leave out --broker and --topic")
        return Place(("mode",), "enforce")
    if topic is None:
        return Place(("brokers", DEFAULT_BROKER if broker is None else broker), key)
    if key in RATE_KEYS:
        raise InvalidValueError(f"{key}: a rate belongs to a broker: --broker N, or neither for every broker")
    if broker is not None:
        raise InvalidValueError(f'{key}: of a topic, or of a broker: for one broker write "0:{broker},1:{broker}"')
    return Place(("topics", topic), key)


def parse_value(key: str, text: str) -> Value:
    """As quotas.toml types it; whether it is valid is for the file's own parser to say."""
    if key == ENFORCE:
        return {"true": True, "false": False}.get(text, text)
    return int(text) if key in RATE_KEYS and re.fullmatch(r"-?[0-9]{1,20}", text, re.ASCII) else text


def parse_span(text: str) -> timedelta:
    """`2h`, `90m`, `1d12h`. Raises InvalidValueError."""
    match = _SPAN.fullmatch(text.strip())
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0, 0)
    span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    if not timedelta() < span <= _LONGEST:
        raise InvalidValueError(f"expected a time like 2h, 90m or 1d12h, of at most 366d, found {shown(text)}")
    return span


@dataclass(frozen=True, slots=True)
class Told:
    """One edit, to be told. `broker_id`: whose quotas are shown; None: nobody's."""

    place: Place
    before: bytes
    edit: Edit
    broker_id: int | None
    now: datetime

    @property
    def changes_something(self) -> bool:
        return self.before != self.edit.content

    def lines(self, source: str) -> list[str]:
        if not self.changes_something:
            return [f"{source}: {self.place}: says so already, nothing is changed"]
        return [
            f"{source}: {self.place}",
            f"  was  {self._said(self.before)}",
            f"  now  {self._said(self.edit.content)}",
            *self._notes(),
            *self._effect(),
        ]

    def _said(self, content: bytes) -> str:
        """The value for good, and the one for a time that goes before it."""
        said = facts(content)
        section, key = self.place
        own = said.get((*section, key))
        told = "not set" if own is None else _shown(own) + self._end(said.get((*section, _UNTIL)))
        for path, value in said.items():
            if path[0] == "schedules" and path[2:] == (*section, key):
                told += f"; {path[0]}[{path[1]}] {_shown(value)}{self._end(said.get((*path[:2], _UNTIL)))}"
        return told

    def _end(self, until: object) -> str:
        if not isinstance(until, datetime):
            return ""
        return f", until {format_time(until)} ({format_distance(until, self.now)})"

    def _notes(self) -> list[str]:
        said = facts(self.edit.content)
        section, key = self.place
        for_good = facts(self.before).get((*section, key)) != said.get((*section, key))
        until = said.get((*section, _UNTIL))
        if for_good and until is not None and facts(self.before).get((*section, _UNTIL)) == until:
            return [f"  note: the whole section ends{self._end(until).removeprefix(',')}, and this with it"]
        return []

    def _effect(self) -> list[str]:
        if self.broker_id is None:
            return []
        try:
            old, new = parse_quotas(self.before), parse_quotas(self.edit.content)
        except ConfigurationError as error:
            return [f"  note: the file as it was would have been refused: {error}"]
        changes = differences(*(effective(each, self.broker_id, self.now) for each in (old, new)))
        lines = [f"broker {self.broker_id}: {change}" for change in changes]
        if not changes:
            lines = [f"broker {self.broker_id}: nothing changes now (another section goes first, or none concerns it)"]
        known = advise(old, self.broker_id, self.now)
        return lines + [f"warning: {each}" for each in advise(new, self.broker_id, self.now) if each not in known]

    def undo(self, where: Sequence[str]) -> str:
        """The command; `where` are the options that name the file."""
        match self.edit.undo:
            case Assign(until=datetime() as until) if until <= self.now:
                return "not needed: what was there had ended"
        kind, *name = self.place.section
        key = ENFORCE if kind == "mode" else self.place.key
        option = {"brokers": ["--broker", *name], "topics": ["--topic", *name]}.get(kind, [])
        option = [] if name == [DEFAULT_BROKER] and kind == "brokers" else option
        return shlex.join(["throttle-sidecar", "set", *where, *option, *_typed(self.edit.undo, key)])


def _typed(wish: Wish, key: str) -> list[str]:
    match wish:
        case Remove():
            return [key, "--remove"]
        case End():
            return [key, "--end"]
        case Assign(value, until):
            text = str(value).lower() if isinstance(value, bool) else str(value)
            ends = [] if until is None else ["--until", until.isoformat()]
            # A value like "-1", or one that is empty, is no option.
            return [*ends, "--", key, text] if text.startswith("-") else [*ends, key, text]


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)

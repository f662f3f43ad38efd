"""Changes one key of quotas.toml and nothing else: comments, order and spelling stay as people wrote them.

A value may be given for good (`Assign`) or until a time. One that ends is written so that what held before holds again
by itself: as a section with an `until` of its own where there was none, else as a schedule without times, which goes
before the section. The newest word wins: a value for good replaces those that schedules without times have at the same
place, too, or they would go before it. Every edit comes with the wishes that take it back.

Bytes in, bytes out; time is an argument. Invariant: of what the file says, nothing but the place that was named is
different afterwards, in its section and in schedules without times; a file for which that cannot be had is refused.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import tomlkit
import tomlkit.items

from proxy.errors import ConfigurationError
from proxy.quotas.section_reading import SCHEDULES, UNTIL

from .facts import Path, Place, Value, facts, is_well_formed, schedule_count, section_facts, written
from .layout import (
    appended,
    as_toml,
    assignments,
    delete_value,
    loses_comments,
    replace_value,
    with_line_ends_of,
    within,
)
from .rewriting import rewritten, schedule_lines
from .sweeping import is_over

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

NO_QUOTAS = "# no quotas"
_WINDOW_KEYS = ("from", "to", "days", "timezone")


@dataclass(frozen=True, slots=True)
class Assign:
    value: Value
    until: datetime | None = None
    """None: for good, or for as long as the section it stands in has said already."""
    in_front: bool = False
    """With `until`: as a schedule at the end of the file, where it goes before every other, whatever there is."""


class Remove(NamedTuple):
    """Take the value out of the file, for good and as far as schedules without times have it."""


class End(NamedTuple):
    """Take the value out that would end by an `until`."""


Wish = Assign | Remove | End


class Edit(NamedTuple):
    """undo: one wish after the other. entries: schedules' sections that were changed too, as messages name them."""

    content: bytes
    undo: tuple[Wish, ...]
    entries: tuple[str, ...] = ()


def edit(content: bytes, place: Place, wish: Wish, now: datetime, *, source: str = "quotas.toml") -> Edit:
    """Return the file with `wish` come true, and the wishes that take it back.

    Raises ConfigurationError, led by `source`: it is not TOML, has not what is to be removed, or is written in a way
    that cannot be changed at that place alone. Whether what comes out is valid is for `parse_quotas` to say.
    """
    editor = _Editor(content, place, now, source)
    try:
        if isinstance(wish, Remove):
            return editor.remove()
        if isinstance(wish, End):
            return editor.end()
        if wish.until is None:
            return editor.assign(wish.value)
        return editor.assign_until(wish.value, wish.until, in_front=wish.in_front)
    except (tomlkit.exceptions.TOMLKitError, TypeError, ValueError, AttributeError) as error:
        # What tomlkit has to say of a value where it looks for a table, and of a table written on one line.
        raise editor.refusal() from error


class _Editor:
    def __init__(self, content: bytes, place: Place, now: datetime, source: str) -> None:
        self._place, self._now, self._source = place, now, source
        try:
            self._text = content.decode()
            self._facts = facts(content)
            self._document = tomlkit.parse(self._text)
            well_formed = is_well_formed(tomllib.loads(self._text), {SCHEDULES})
        except (UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError, tomlkit.exceptions.TOMLKitError) as error:
            raise ConfigurationError(f"{source}: not TOML: {error}") from error
        if not well_formed:
            raise self.refusal()
        self._own = section_facts(self._facts, place.section)

    def assign(self, value: Value) -> Edit:
        own, key, section = self._own, self._place.key, self._place.section
        # What has ended must not come to life again, and what would end is for good now.
        over, ends = is_over(own.get(UNTIL), self._now), own.keys() == {key, UNTIL}
        gone = own.keys() - {key} if over or ends else set()
        self._write(section, {key: value})
        for each in gone:
            delete_value(within(self._document, section), each.split("."))
        undo: list[Wish] = [Remove()] if over or key not in own else [Assign(own[key])]
        if ends and not over:
            undo = [Remove(), Assign(own[key], own[UNTIL])]
        entries = [number for number in self._entries() if self._entry(number) != value]
        for number in entries:
            replace_value(within(self._document, (SCHEDULES, number, *section)), key.split("."), value)
        undo += [Assign(self._entry(number), self._ends(number)) for number in entries]
        changed: dict[Path, Any] = {(*section, each): None for each in gone}
        changed |= {(SCHEDULES, number, *section, key): value for number in entries} | {(*section, key): value}
        return self._edited(changed, undo, entries)

    def assign_until(self, value: Value, until: datetime, *, in_front: bool) -> Edit:
        section, key = self._place
        number = None if in_front else self._entry_for(until)
        if number is not None:
            before = Assign(self._entry(number), self._ends(number))
            table = within(self._document, (SCHEDULES, number))
            replace_value(table, [UNTIL], until)
            replace_value(within(table, section), key.split("."), value)
            entry = (SCHEDULES, number)
            return self._edited({(*entry, UNTIL): until, (*entry, *section, key): value}, [before], [number])
        if in_front or (self._own and self._own.keys() != {key, UNTIL}):
            return self._edited_with_schedule(value, until)
        undo: Wish = End()
        if self._own and not is_over(self._own[UNTIL], self._now):
            undo = Assign(self._own[key], self._own[UNTIL])
        values = {key: value, UNTIL: until}
        self._write(section, values)
        return self._edited({(*section, each): found for each, found in values.items()}, [undo])

    def remove(self) -> Edit:
        key, entries = self._place.key, self._entries()
        if key not in self._own and not entries:
            raise ConfigurationError(f"{self._source}: {self._place}: not there, so there is nothing to remove")
        undo: list[Wish] = []
        gone: set[str] = set()
        if key in self._own:
            gone = {key, UNTIL} & self._own.keys() if self._own.keys() <= {key, UNTIL} else {key}
            table = within(self._document, self._place.section)
            for each in gone:
                delete_value(table, each.split("."))
            if not self._own.keys() - gone and not _has_comments(table):
                _delete_path(self._document, self._place.section)
            ends = self._own.get(UNTIL)
            # Of a section that has ended it is as it was: over.
            undo = [Assign(self._own[key], ends if UNTIL in gone or is_over(ends, self._now) else None)]
        undo += [Assign(self._entry(number), self._ends(number)) for number in entries]
        edited = self._edited({(*self._place.section, each): None for each in gone}, undo, entries)
        return self._without_entries(edited, entries)

    def end(self) -> Edit:
        number = max(self._entries(over=True), default=None)
        if number is not None:
            undo = [Assign(self._entry(number), self._ends(number))]
            return self._without_entries(Edit(self._text.encode(), tuple(undo)), [number])
        if self._own.keys() == {self._place.key, UNTIL}:
            return self.remove()
        raise ConfigurationError(f"{self._source}: {self._place}: nothing there ends by itself (no until)")

    def _entries(self, *, over: bool = False) -> list[int]:
        """The schedules without times that say this; those that have ended only if `over`."""
        found = []
        for number in range(schedule_count(self._facts)):
            said, entry = self._facts, (SCHEDULES, number)
            if (*entry, *self._place.path) in said and not any((*entry, key) in said for key in _WINDOW_KEYS):
                ends = (self._ends(number), said.get((*entry, *self._place.section, UNTIL)))
                if over or not any(is_over(end, self._now) for end in ends):
                    found.append(number)
        return found

    def _entry_for(self, until: datetime) -> int | None:
        """The schedule in which a value that ends then is written in place of another: one that ends then anyway, or
        one that says nothing else."""
        entries = self._entries()
        alone = {(*self._place.section, self._place.key), (UNTIL,)}
        same = [number for number in entries if self._ends(number) == until]
        mine = [number for number in entries if {p[2:] for p in self._facts if p[:2] == (SCHEDULES, number)} == alone]
        return max(same or mine, default=None)

    def _entry(self, number: int) -> Value:
        value: Value = self._facts[(SCHEDULES, number, *self._place.path)]
        return value

    def _ends(self, number: int) -> datetime:
        """A schedule without times has an end, or it would not be valid."""
        until: datetime = self._facts[(SCHEDULES, number, UNTIL)]
        return until

    def _without_entries(self, edited: Edit, numbers: Collection[int]) -> Edit:
        """Take the place out of these schedules, and what that leaves empty."""
        if not numbers:
            return edited
        gone: dict[Place, None] = {}
        for number in numbers:
            section = (SCHEDULES, number, *self._place.section)
            only = section_facts(self._facts, section).keys() <= {self._place.key, UNTIL}
            gone |= {Place(section, key): None for key in ([self._place.key, UNTIL] if only else [self._place.key])}
        text = rewritten(edited.content.decode(), gone, source=self._source)
        return Edit(text.encode(), edited.undo, tuple(self._named(numbers)))

    def _named(self, numbers: Collection[int]) -> list[str]:
        return [written((SCHEDULES, number, *self._place.section)) for number in numbers]

    def _write(self, section: Path, values: Mapping[str, Any]) -> None:
        table = within(self._document, section)
        if table is None:
            self._append(f"[{written(section)}]", *assignments(values))
            return
        for key, value in values.items():
            if not replace_value(table, key.split("."), value):
                table.append(tomlkit.key(key.split(".")), as_toml(value))

    def _edited_with_schedule(self, value: Value, until: datetime) -> Edit:
        self._append(*schedule_lines(until, {self._place.section: {self._place.key: value}}))
        number = schedule_count(self._facts)
        changed: dict[Path, Any] = {
            (SCHEDULES, number, UNTIL): until,
            (SCHEDULES, number, *self._place.path): value,
        }
        return self._edited(changed, [End()], [number])

    def _append(self, *lines: str) -> None:
        try:
            self._document = tomlkit.parse(appended(self._text, lines))
        except tomlkit.exceptions.TOMLKitError as error:
            raise self.refusal() from error

    def _edited(self, changed: Mapping[Path, Any], undo: Collection[Wish], entries: Collection[int] = ()) -> Edit:
        """`changed`: what is said now, None where nothing is."""
        text = with_line_ends_of(self._text, tomlkit.dumps(self._document))
        if any(value is None for value in changed.values()):
            text = _without_a_gap_at_the_end(text)
        content = text.encode()
        expected = self._facts | dict(changed)
        try:
            found = facts(content)
        except tomllib.TOMLDecodeError as error:
            raise self.refusal() from error
        if found != {path: value for path, value in expected.items() if value is not None}:
            raise self.refusal()
        if loses_comments(self._text, text):
            raise self.refusal()
        return Edit(content, tuple(undo), tuple(self._named(entries)))

    def refusal(self) -> ConfigurationError:
        return ConfigurationError(
            f"{self._source}: {self._place}: the file is written in a way that cannot be edited here without changing "
            "something else (inline tables?): edit it by hand, then throttle-sidecar check"
        )


def _delete_path(document: Any, path: Path) -> None:
    parent = within(document, path[:-1])
    if parent is not None and path[-1] in parent:
        del parent[path[-1]]


def _has_comments(table: Any) -> bool:
    return "#" in (table.as_string() if hasattr(table, "as_string") else tomlkit.dumps(table))


def _without_a_gap_at_the_end(text: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    # An empty file is refused as one that is just being written.
    return (text.rstrip() or NO_QUOTAS) + newline

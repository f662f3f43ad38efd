"""Changes one key of quotas.toml and nothing else: comments, order and spelling stay as people wrote them.

A value may be given for good (`Assign`) or until a time. One that ends is written so that what held before holds again
by itself: as a section with an `until` of its own where there was none, else as a schedule without times, which goes
before the section. Every edit comes with the wish that takes it back.

Bytes in, bytes out; reads no file and no clock. Invariant: of what the file says, nothing but the place that was named
is different afterwards; a file for which that cannot be had is refused.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import tomlkit
import tomlkit.items

from ..errors import ConfigurationError
from .reading import SCHEDULES, UNTIL, quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import datetime

Path = tuple[str | int, ...]
Value = str | int | bool
NO_QUOTAS = "# no quotas"


class Place(NamedTuple):
    """Where a value stands: ``Place(("brokers", "101"), "leader.replication.throttled.rate")``."""

    section: tuple[str, ...]
    """``("brokers", id or "default")``, ``("topics", name or glob)`` or ``("mode",)``."""
    key: str

    def __str__(self) -> str:
        kind, *name = self.section
        return ".".join([kind, *map(quoted, name), self.key])


@dataclass(frozen=True, slots=True)
class Assign:
    value: Value
    until: datetime | None = None
    """None: for good, or for as long as the section it stands in has said already."""


class Remove(NamedTuple):
    """Take the value that is there for good out of the file."""


class End(NamedTuple):
    """Take the value out that would end by an `until`."""


Wish = Assign | Remove | End


class Edit(NamedTuple):
    content: bytes
    undo: Wish


def edit(content: bytes, place: Place, wish: Wish, *, source: str = "quotas.toml") -> Edit:
    """Return the file with `wish` come true, and the wish that takes it back.

    Raises ConfigurationError, led by `source`: it is not TOML, has not what is to be removed, or is written in a way
    that cannot be changed at that place alone. Whether what comes out is valid is for `parse_quotas` to say.
    """
    editor = _Editor(content, place, source)
    try:
        if isinstance(wish, Remove):
            return editor.remove()
        if isinstance(wish, End):
            return editor.end()
        return editor.assign(wish.value) if wish.until is None else editor.assign_until(wish.value, wish.until)
    except (tomlkit.exceptions.TOMLKitError, TypeError, ValueError, AttributeError) as error:
        # What tomlkit has to say of a value where it looks for a table, and of a table written on one line.
        raise editor.refusal() from error


class _Editor:
    def __init__(self, content: bytes, place: Place, source: str) -> None:
        self._place, self._source = place, source
        try:
            self._text = content.decode()
            self._facts = facts(content)
            self._document = tomlkit.parse(self._text)
            well_formed = _is_well_formed(tomllib.loads(self._text), {SCHEDULES})
        except (UnicodeDecodeError, tomllib.TOMLDecodeError, tomlkit.exceptions.TOMLKitError) as error:
            raise ConfigurationError(f"{source}: not TOML: {error}") from error
        if not well_formed:
            raise self.refusal()
        self._own = _section_facts(self._facts, place.section)

    def assign(self, value: Value) -> Edit:
        before = self._own.get(self._place.key)
        self._write(self._place.section, {self._place.key: value})
        return self._edited(
            {(*self._place.section, self._place.key): value}, Remove() if before is None else Assign(before)
        )

    def assign_until(self, value: Value, until: datetime) -> Edit:
        values = {self._place.key: value, UNTIL: until}
        temporary = self._temporary()
        if temporary is None and self._own:
            return self._edited_with_schedule(value, until)
        if temporary is None or temporary == self._place.section:
            ends_at: Path = self._place.section
            self._write(self._place.section, values)
        else:
            ends_at = temporary[: -len(self._place.section)]
            schedule = self._document[SCHEDULES][temporary[1]]
            replace_value(schedule, [UNTIL], until)
            replace_value(_within(schedule, self._place.section), self._place.key.split("."), value)
        undo: Wish = End()
        if temporary is not None:
            undo = Assign(self._facts[(*temporary, self._place.key)], self._facts[(*ends_at, UNTIL)])
        section: Path = temporary or self._place.section
        return self._edited({(*section, self._place.key): value, (*ends_at, UNTIL): until}, undo)

    def remove(self) -> Edit:
        key = self._place.key
        if key not in self._own:
            raise ConfigurationError(f"{self._source}: {self._place}: not there, so there is nothing to remove")
        gone = {key, UNTIL} if self._own.keys() <= {key, UNTIL} else {key}
        table = _within(self._document, self._place.section)
        for each in gone & self._own.keys():
            delete_value(table, each.split("."))
        if not self._own.keys() - gone and not _has_comments(table):
            _delete_path(self._document, self._place.section)
        undo = Assign(self._own[key], self._own.get(UNTIL) if UNTIL in gone else None)
        return self._edited({(*self._place.section, each): None for each in gone}, undo)

    def end(self) -> Edit:
        temporary = self._temporary()
        if temporary is None:
            raise ConfigurationError(f"{self._source}: {self._place}: nothing there ends by itself (no until)")
        if temporary == self._place.section:
            return self.remove()
        schedules, number = self._document[SCHEDULES], int(temporary[1])
        if _has_comments(schedules[number]):
            raise ConfigurationError(f"{self._source}: {SCHEDULES}[{number}]: has comments in it: remove it by hand")
        del schedules[number]
        if not schedules:
            del self._document[SCHEDULES]
        value, until = self._facts[(*temporary, self._place.key)], self._facts[(SCHEDULES, number, UNTIL)]
        return self._edited(None, Assign(value, until), without_schedule=number)

    def _temporary(self) -> Path | None:
        """The section in which this value, and nothing else, ends by an `until`: a schedule's, the last such, or the
        file's own."""
        wanted = {(*self._place.section, self._place.key), (UNTIL,)}
        for number in reversed(range(_schedules(self._facts))):
            said = {path[2:] for path in self._facts if path[:2] == (SCHEDULES, number)}
            if said == wanted:
                return (SCHEDULES, number, *self._place.section)
        return self._place.section if self._own.keys() == {self._place.key, UNTIL} else None

    def _write(self, section: tuple[str, ...], values: Mapping[str, Any]) -> None:
        table = _within(self._document, section)
        if table is None:
            self._append(f"[{_header(section)}]", *_assignments(values))
            return
        for key, value in values.items():
            if not replace_value(table, key.split("."), value):
                table.append(tomlkit.key(key.split(".")), value)

    def _edited_with_schedule(self, value: Value, until: datetime) -> Edit:
        header = f"[{SCHEDULES}.{_header(self._place.section)}]"
        self._append(f"[[{SCHEDULES}]]", *_assignments({UNTIL: until}), header, *_assignments({self._place.key: value}))
        number = _schedules(self._facts)
        changed: dict[Path, Any] = {
            (SCHEDULES, number, UNTIL): until,
            (SCHEDULES, number, *self._place.section, self._place.key): value,
        }
        return self._edited(changed, End())

    def _append(self, *lines: str) -> None:
        """What is new goes to the end, where it moves nothing."""
        newline = "\r\n" if "\r\n" in self._text else "\n"
        before = self._text.rstrip()
        text = f"{before}{newline * 2 if before else ''}{newline.join(lines)}{newline}"
        try:
            self._document = tomlkit.parse(text)
        except tomlkit.exceptions.TOMLKitError as error:
            raise self.refusal() from error

    def _edited(self, changed: Mapping[Path, Any] | None, undo: Wish, *, without_schedule: int | None = None) -> Edit:
        """`changed`: what is said now, None where nothing is."""
        text = tomlkit.dumps(self._document)
        if not isinstance(undo, End | Remove):
            text = _without_a_gap_at_the_end(text)
        content = text.encode()
        expected = dict(_without(self._facts, without_schedule)) | dict(changed or {})
        try:
            found = facts(content)
        except tomllib.TOMLDecodeError as error:
            raise self.refusal() from error
        if found != {path: value for path, value in expected.items() if value is not None}:
            raise self.refusal()
        return Edit(content, undo)

    def refusal(self) -> ConfigurationError:
        return ConfigurationError(
            f"{self._source}: {self._place}: the file is written in a way that cannot be edited here without changing "
            "something else (inline tables?): edit it by hand, then throttle-sidecar check"
        )


def facts(content: bytes) -> dict[Path, Any]:
    """Everything the file says, by place: ``("brokers", "101", "leader.replication.throttled.rate")``, in the
    third schedule led by ``("schedules", 2)``. Raises tomllib.TOMLDecodeError."""
    document = tomllib.loads(content.decode())
    found = dict(_layer_facts(document))
    schedules = document.get(SCHEDULES)
    for number, table in enumerate(schedules if isinstance(schedules, list) else ()):
        found |= {(SCHEDULES, number, *path): value for path, value in _layer_facts(table)}
    return found


def _is_well_formed(document: Any, lists: Collection[str] = ()) -> bool:
    """Sections are tables, and schedules a list of them, whatever is in them."""
    if not isinstance(document, dict):
        return False
    sections = [section for kind in ("brokers", "topics") for section in _values(document.get(kind, {}))]
    tables = [document.get("mode", {}), *sections]
    schedules = [schedule for key in lists for schedule in _items(document.get(key, []))]
    return all(isinstance(table, dict) for table in tables) and all(map(_is_well_formed, schedules))


def _values(table: Any) -> list[Any]:
    return list(table.values()) if isinstance(table, dict) else [None]


def _items(listed: Any) -> list[Any]:
    return listed if isinstance(listed, list) else [None]


def _layer_facts(table: Any) -> Iterator[tuple[Path, Any]]:
    for kind, value in table.items() if isinstance(table, dict) else ():
        if kind in ("brokers", "topics") and isinstance(value, dict):
            for name, section in value.items():
                yield from (((kind, name, *path), found) for path, found in _leaves(section))
        elif kind != SCHEDULES or not isinstance(value, list):
            yield from (((kind, *path), found) for path, found in _leaves(value))


def _leaves(value: Any, prefix: str = "") -> Iterator[tuple[Path, Any]]:
    """Dotted keys and quoted ones alike."""
    if not isinstance(value, dict):
        yield ((prefix,) if prefix else ()), value
        return
    for key, found in value.items():
        yield from _leaves(found, f"{prefix}.{key}" if prefix else key)


def _section_facts(found: Mapping[Path, Any], section: tuple[str, ...]) -> dict[str, Any]:
    size = len(section)
    return {str(path[size]): value for path, value in found.items() if path[:size] == section and len(path) > size}


def _schedules(found: Mapping[Path, Any]) -> int:
    return 1 + max((int(path[1]) for path in found if path[0] == SCHEDULES and len(path) > 1), default=-1)


def _without(found: Mapping[Path, Any], schedule: int | None) -> Iterator[tuple[Path, Any]]:
    """Without one of the schedules: those after it move up."""
    for path, value in found.items():
        if schedule is None or path[0] != SCHEDULES or int(path[1]) < schedule:
            yield path, value
        elif int(path[1]) > schedule:
            yield (SCHEDULES, int(path[1]) - 1, *path[2:]), value


def _header(section: tuple[str, ...]) -> str:
    kind, *name = section
    return ".".join([kind, *map(quoted, name)])


def _assignments(values: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {tomlkit.item(value).as_string()}" for key, value in values.items()]


def _within(table: Any, path: tuple[str, ...]) -> Any:
    """The table at `path`, None if there is none."""
    for key in path:
        if not hasattr(table, "keys") or key not in table:
            return None
        table = table[key]
    return table


def _holder(table: Any, parts: list[str]) -> tuple[Any, str] | None:
    """Where a dotted key stands, however it is spelt: the innermost table, and the key in it."""
    for size in range(len(parts), 0, -1):
        key = ".".join(parts[:size])
        if hasattr(table, "keys") and key in table:
            found = (table, key) if size == len(parts) else _holder(table[key], parts[size:])
            if found is not None:
                return found
    return None


def replace_value(table: Any, parts: list[str], value: Any) -> bool:
    """Put it where that dotted key stands, however it is spelt; False if it stands nowhere."""
    found = _holder(table, parts)
    if found is not None:
        holder, key = found
        holder[key] = value
    return found is not None


def delete_value(table: Any, parts: list[str]) -> None:
    """With the tables that only its dots made."""
    found = _holder(table, parts)
    if found is not None:
        holder, key = found
        del holder[key]


def _delete_path(document: Any, path: tuple[str, ...]) -> None:
    parent = _within(document, path[:-1])
    if parent is not None and path[-1] in parent:
        del parent[path[-1]]


def _has_comments(table: Any) -> bool:
    return "#" in (table.as_string() if hasattr(table, "as_string") else tomlkit.dumps(table))


def _without_a_gap_at_the_end(text: str) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    # An empty file is refused as one that is just being written.
    return (text.rstrip() or NO_QUOTAS) + newline

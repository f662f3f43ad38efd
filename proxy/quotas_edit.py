"""Changes single keys of quotas.toml as an operator wrote it: comments, order and spelling of everything else stay.

Text in, text out; knows no file, and not what a value means. tomlkit keeps the layout, tomllib has the last word: an
edit whose outcome is not exactly the change that was asked for is refused, so a layout that tomlkit gets wrong (a
section written on one line) costs an error message and nothing else.
Invariant: what is returned says what the text said, plus exactly these changes.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from .errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from tomlkit import TOMLDocument
    from tomlkit.items import Key

Toml = dict[str, Any]
_NOTHING_LEFT = "# no quotas: everything passes\n"
_SOURCE = "quotas.toml"


class Place(NamedTuple):
    """One key of one section.

    table: `brokers` or `topics`.
    name: `default` or a broker's id; a topic or a glob.
    key: Kafka's dotted name, however the file spells it.
    """

    table: str
    name: str
    key: str

    def __str__(self) -> str:
        return f"{self.table}.{tomlkit.key(self.name).as_string()}.{self.key}"


class Change(NamedTuple):
    """`value` None removes the key, and the section with it if no key is left."""

    place: Place
    value: str | int | bool | datetime | None


def said(text: str, *, source: str = _SOURCE) -> Toml:
    """The text as plain values. Raises ConfigurationError if it is no TOML."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{source}: not TOML: {error}") from error


def value_at(document: Toml, place: Place) -> Any:
    """What the file says there, None if nothing; `document` is what `said` gave."""
    section = document.get(place.table, {}).get(place.name, {})
    path = _path(section, place.key)
    return None if path is None else _at(section, path)


def edited(text: str, changes: Iterable[Change], *, source: str = _SOURCE) -> str:
    """The text with these changes, in their order; a comment if nothing else is left.

    Raises:
        ConfigurationError: it is no TOML, or its layout does not allow the changes.
    """
    expected = said(text, source=source)
    refusal = ConfigurationError(f"{source}: is laid out so that it cannot be changed here: edit it by hand")
    try:
        document = tomlkit.parse(text)
        changes = tuple(changes)
        for change in changes:
            _apply(expected, change)
            if change.value is None:
                _remove(document.get(change.place.table, {}).get(change.place.name, {}), change.place.key)
            else:
                _set(document, change.place, change.value)
        text = _without_headers(tomlkit.dumps(document), {change.place[:2] for change in changes}, expected)
        outcome = said(text, source=source)
    except (TOMLKitError, ConfigurationError) as error:
        raise refusal from error
    if _meaning(outcome) != _meaning(expected):
        raise refusal
    return text if text.strip() else _NOTHING_LEFT


def _meaning(document: Toml) -> dict[tuple[str, ...], Any]:
    """Every value by table, name and dotted key: how dots are nested, and sections without keys, mean nothing."""
    return {(*path[:2], ".".join(path[2:])): value for path, value in _leaves(document)}


def _apply(document: Toml, change: Change) -> None:
    """The same on plain values."""
    table, name, key = change.place
    section = document.setdefault(table, {}).setdefault(name, {})
    path = _path(section, key)
    if path is not None:
        del _at(section, path[:-1])[path[-1]]
        if not dict(_leaves(section)):
            section.clear()
    if change.value is not None:
        section[key] = change.value


def _set(document: TOMLDocument, place: Place, value: Any) -> None:
    table = document.get(place.table)
    section = None if table is None else table.get(place.name)
    path = None if section is None else _path(section, place.key)
    if path is not None:
        _at(section, path[:-1])[path[-1]] = value
    elif section is not None:
        _append(section, section, tomlkit.key(place.key.split(".")), value)
    else:
        section = tomlkit.table()
        section.add(tomlkit.key(place.key.split(".")), value)
        if table is None:
            table = tomlkit.table(is_super_table=True)
            document.add(place.table, table)
        last = next(reversed(list(table.values())), None)
        _append(table, last, tomlkit.key(place.name), section)


def _append(table: Any, last: Any, key: Key, value: Any) -> None:
    """Add below `last`, above the blank lines and comments that lead on to the next section."""
    trailing: list[Any] = []
    if isinstance(last, Table):
        body = last.value.body
        while body and body[-1][0] is None:
            trailing.insert(0, body.pop())
    table.add(key, value)
    (value if isinstance(value, Table) else last).value.body.extend(trailing)


def _remove(section: Any, key: str) -> None:
    path = _path(section, key)
    if path is not None:
        del _at(section, path[:-1])[path[-1]]


def _without_headers(text: str, touched: set[tuple[str, str]], expected: Toml) -> str:
    """Sections that lost their last key lose their header; comments in them stay, they may be of what comes next."""
    emptied = {(table, name) for table, name in touched if not expected.get(table, {}).get(name)}
    if not emptied:
        return text
    lines = text.splitlines(keepends=True)
    for number in reversed([number for number, line in enumerate(lines) if _header(line) in emptied]):
        del lines[number]
        if number < len(lines) and not lines[number].strip() and (number == 0 or not lines[number - 1].strip()):
            del lines[number]
    return "".join(lines)


def _header(line: str) -> tuple[str, ...] | None:
    if not line.lstrip().startswith("["):
        return None
    try:
        parsed: Any = tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return None
    path = []
    while isinstance(parsed, dict) and parsed:
        name, parsed = next(iter(parsed.items()))
        path.append(name)
    return tuple(path)


def _path(section: Any, key: str) -> tuple[str, ...] | None:
    """Where the dotted key is, as the file nests it."""
    return next((path for path, _ in _leaves(section) if ".".join(path) == key), None)


def _leaves(table: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in table.items():
        if hasattr(value, "items"):
            yield from _leaves(value, (*prefix, str(key)))
        else:
            yield (*prefix, str(key)), value


def _at(table: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        table = table[key]
    return table

"""Changes many keys of quotas.toml at once, as a move of many topics needs it: comments, order and spelling stay.

`editing` changes one key and can take it back; this parses once whatever the number of changes, and puts new keys and
sections beside their kind. Text in, text out; knows no file, and not what a value means. tomlkit keeps the layout,
`facts` have the last word: what is laid out so that tomlkit would change more (a section on one line) is refused.
Invariant: what is returned says what the text said, plus exactly these changes.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from ..errors import ConfigurationError
from .editing import Place, delete_value, facts, replace_value

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from tomlkit import TOMLDocument
    from tomlkit.items import Key

    Changes = Mapping[Place, str | int | bool | datetime | None]
    """None removes the key, and its section if no other is left."""

_NOTHING_LEFT = "# no quotas: everything passes\n"


class Said:
    """What a quotas file says, by place.

    Raises:
        ConfigurationError: it is no TOML.
    """

    def __init__(self, text: str, *, source: str = "quotas.toml") -> None:
        try:
            self._facts = facts(text.encode())
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigurationError(f"{source}: not TOML: {error}") from error

    def at(self, place: Place) -> Any:
        """None if nothing."""
        return self._facts.get((*place.section, place.key))

    def with_changes(self, changes: Changes) -> dict[tuple[str | int, ...], Any]:
        changed = {(*place.section, place.key): value for place, value in changes.items()}
        return {path: value for path, value in (self._facts | changed).items() if value is not None}

    def says(self, expected: Mapping[tuple[str | int, ...], Any]) -> bool:
        return self._facts == expected

    def has_section(self, section: tuple[str, ...]) -> bool:
        return any(path[: len(section)] == section for path in self._facts)


def rewritten(text: str, changes: Changes, *, source: str = "quotas.toml") -> str:
    """The text with these changes; a comment if nothing else is left.

    Raises:
        ConfigurationError: it is no TOML, or its layout does not allow the changes.
    """
    expected = Said(text, source=source).with_changes(changes)
    refusal = ConfigurationError(f"{source}: is laid out so that it cannot be changed here: edit it by hand")
    try:
        document = tomlkit.parse(text)
        for place, value in changes.items():
            if value is None:
                _remove(document, place)
            else:
                _set(document, place, value)
        text = tomlkit.dumps(document)
        left = Said(text, source=source)
        emptied = {place.section for place in changes if not left.has_section(place.section)}
        text = _without_headers(text, emptied)
        outcome = Said(text, source=source)
    except (TOMLKitError, ConfigurationError) as error:
        raise refusal from error
    if not outcome.says(expected):
        raise refusal
    return text if text.strip() else _NOTHING_LEFT


def _set(document: TOMLDocument, place: Place, value: Any) -> None:
    kind, name = place.section
    table = document.get(kind)
    section = None if table is None else table.get(name)
    if section is None:
        section = tomlkit.table()
        section.add(tomlkit.key(place.key.split(".")), value)
        if table is None:
            table = tomlkit.table(is_super_table=True)
            document.add(kind, table)
        last = next(reversed(list(table.values())), None)
        _append(table, last, tomlkit.key(name), section)
    elif not replace_value(section, place.key.split("."), value):
        _append(section, section, tomlkit.key(place.key.split(".")), value)


def _append(table: Any, last: Any, key: Key, value: Any) -> None:
    """Add below `last`, above the blank lines and comments that lead on to the next section."""
    trailing: list[Any] = []
    if isinstance(last, Table):
        body = last.value.body
        while body and body[-1][0] is None:
            trailing.insert(0, body.pop())
    table.add(key, value)
    (value if isinstance(value, Table) else last).value.body.extend(trailing)


def _remove(document: TOMLDocument, place: Place) -> None:
    kind, name = place.section
    delete_value(document.get(kind, {}).get(name, {}), place.key.split("."))


def _without_headers(text: str, emptied: set[tuple[str, ...]]) -> str:
    """Sections that lost their last key lose their header; comments in them stay, they may be of what comes next."""
    if not emptied:
        return text
    lines = text.splitlines(keepends=True)
    for number in reversed([number for number, line in enumerate(lines) if _header(line) in emptied]):
        del lines[number]
        if number < len(lines) and not lines[number].strip() and (number == 0 or not lines[number - 1].strip()):
            del lines[number]
    while lines and not lines[-1].strip():
        del lines[-1]
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

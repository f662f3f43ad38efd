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
from tomlkit.container import OutOfOrderTableProxy
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from proxy.errors import ConfigurationError
from proxy.quotas.section_reading import SCHEDULES, UNTIL

from .facts import Place, facts, schedule_count, without_schedules, written
from .layout import (
    appended,
    as_toml,
    assignments,
    delete_value,
    loses_comments,
    replace_value,
    with_line_ends_of,
    within,
    without_headers,
    without_schedule_blocks,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from tomlkit import TOMLDocument
    from tomlkit.items import Key

    from .facts import Path, Value

    Changes = Mapping[Place, Value | datetime | None]
    """None removes the key, with it its section if no other is left, and a schedule that has no section left."""

_NOTHING_LEFT = "# no quotas: everything passes\n"
_OF_A_SECTION = 4
"""``("schedules", number, kind, name or key, …)``: a schedule's own keys have shorter paths."""


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
        return self._facts.get(place.path)

    def places(self) -> list[Place]:
        return [Place(path[:-1], str(path[-1])) for path in self._facts if len(path) > 1]

    def with_changes(self, changes: Changes) -> dict[Path, Any]:
        changed = {place.path: value for place, value in changes.items()}
        return {path: value for path, value in (self._facts | changed).items() if value is not None}

    def says(self, expected: Mapping[Path, Any]) -> bool:
        return self._facts == expected

    def schedule_count(self) -> int:
        return schedule_count(self._facts)

    def has_section(self, section: Path) -> bool:
        return any(path[: len(section)] == section for path in self._facts)


def rewritten(text: str, changes: Changes, *, gone: Collection[int] = (), source: str = "quotas.toml") -> str:
    """The text with these changes; a comment if nothing else is left.

    Args:
        text: of the file.
        changes: by place, as the text has them before.
        gone: numbers of schedules that go as a whole.
        source: leads the messages.

    Raises:
        ConfigurationError: it is no TOML, or its layout does not allow the changes.
    """
    before, said = text, Said(text, source=source)
    expected = said.with_changes(changes)
    gone = {*gone, *_emptied_schedules(expected, changes)}
    refusal = _refusal(source)
    try:
        text = _with_values(text, changes)
        left = Said(text, source=source)
        sections = {place.section for place in changes if not _is_in(place.section, gone)}
        text = without_headers(text, {section for section in sections if not left.has_section(section)})
        text = without_schedule_blocks(text, gone)
        outcome = Said(text, source=source)
    except (TOMLKitError, ConfigurationError, TypeError, AttributeError) as error:
        # tomlkit of a value where it looks for a table.
        raise refusal from error
    if not outcome.says(without_schedules(expected, gone)) or loses_comments(before, text):
        raise refusal
    return with_line_ends_of(before, text) if text.strip() else _NOTHING_LEFT


def with_schedule(
    text: str, until: datetime, values: Mapping[Place, Value], *, source: str = "quotas.toml"
) -> tuple[str, int]:
    """The text with one more schedule at its end, without times, and that schedule's number.

    Args:
        text: of the file.
        until: when the schedule ends.
        values: what holds until then, by its place in the file's own sections.
        source: leads the messages.

    Raises:
        ConfigurationError: it is no TOML, or its layout does not allow another schedule.
    """
    said = Said(text, source=source)
    number = said.schedule_count()
    sections: dict[Path, dict[str, Value]] = {}
    for place, value in values.items():
        sections.setdefault(place.section, {})[place.key] = value
    new = {Place((SCHEDULES, number, *place.section), place.key): value for place, value in values.items()}
    expected = said.with_changes({Place((SCHEDULES, number), UNTIL): until, **new})
    text = appended(text, schedule_lines(until, sections))
    try:
        outcome = Said(text, source=source)
    except ConfigurationError as error:
        raise _refusal(source) from error
    if not outcome.says(expected):
        raise _refusal(source)
    return text, number


def schedule_lines(until: datetime, sections: Mapping[Path, Mapping[str, Value]]) -> list[str]:
    """Return a schedule without times: when it ends, and what holds until then in each of these sections."""
    lines = [f"[[{SCHEDULES}]]", *assignments({UNTIL: until})]
    for section, values in sections.items():
        lines += [f"[{SCHEDULES}.{written(section)}]", *assignments(values)]
    return lines


def _refusal(source: str) -> ConfigurationError:
    return ConfigurationError(f"{source}: is laid out so that it cannot be changed here: edit it by hand")


def _with_values(text: str, changes: Changes) -> str:
    """A section of a kind that stands in several parts of the file goes to its end: tomlkit adds nothing to those."""
    document = tomlkit.parse(text)
    at_the_end: dict[Path, dict[str, Any]] = {}
    for place, value in changes.items():
        if value is None:
            delete_value(within(document, place.section), place.key.split("."))
        elif _belongs_to_parts(document, place.section):
            at_the_end.setdefault(place.section, {})[place.key] = value
        else:
            _set(document, place, value)
    text = tomlkit.dumps(document)
    if not at_the_end:
        return text
    lines = (["", f"[{written(section)}]", *assignments(values)] for section, values in at_the_end.items())
    return appended(text, [line for block in lines for line in block][1:])


def _belongs_to_parts(document: TOMLDocument, section: Path) -> bool:
    """Whether the section is new, and others of its kind stand apart, with sections of other kinds between them."""
    table = document.get(section[0])
    return isinstance(table, OutOfOrderTableProxy) and section[1] not in table


def _is_in(section: Path, schedules: Collection[int]) -> bool:
    return section[0] == SCHEDULES and section[1] in schedules


def _emptied_schedules(expected: Mapping[Path, Any], changes: Changes) -> set[int]:
    """Those that lose their last section by these changes."""
    touched = {int(place.section[1]) for place in changes if place.section[0] == SCHEDULES}
    speaking = {int(path[1]) for path in expected if path[0] == SCHEDULES and len(path) >= _OF_A_SECTION}
    return touched - speaking


def _set(document: TOMLDocument, place: Place, value: Any) -> None:
    if place.section[0] == SCHEDULES:
        if not replace_value(within(document, place.section), place.key.split("."), value):
            raise ConfigurationError(f"{place}: not there")
        return
    kind, name = map(str, place.section)
    table = document.get(kind)
    section = None if table is None else table.get(name)
    if section is None:
        section = tomlkit.table()
        section.add(tomlkit.key(place.key.split(".")), as_toml(value))
        if table is None:
            table = tomlkit.table(is_super_table=True)
            document.add(kind, table)
        last = next(reversed(list(table.values())), None)
        _append(table, last, tomlkit.key(name), section)
    elif not replace_value(section, place.key.split("."), value):
        _append(section, section, tomlkit.key(place.key.split(".")), as_toml(value))


def _append(table: Any, last: Any, key: Key, value: Any) -> None:
    """Add below `last`, above the blank lines and comments that lead on to the next section."""
    trailing: list[Any] = []
    if isinstance(last, Table):
        body = last.value.body
        while body and body[-1][0] is None:
            trailing.insert(0, body.pop())
    table.add(key, value)
    (value if isinstance(value, Table) else last).value.body.extend(trailing)

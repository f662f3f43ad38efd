"""Everything that quotas.toml says, flat: one value by its place, whatever way it is spelt.

A place is ``("brokers", "101", "leader.replication.throttled.rate")``; in the third schedule it begins with
``("schedules", 2)``. Editors are held to these facts: a layout may change, what is said may not.
Bytes in, values out. Invariant: two files with the same facts mean the same to every broker at every time.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.files.toml_reading import load_toml
from proxy.quotas.keys import quoted
from proxy.quotas.section_reading import SCHEDULES
from proxy.quotas.sections import RATE_KEYS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

NAMED_KINDS = ("brokers", "peers", "racks", "topics")
"""Kinds of sections of which each has a name."""
Path = tuple[str | int, ...]
Value = str | int | bool | dict[str, Any]
"""A table is that of a rate that sets itself."""


class Place(NamedTuple):
    """Where a value stands: ``Place(("brokers", "101"), "leader.replication.throttled.rate")``."""

    section: Path
    """``("brokers", id or "default")``, ``("peers", id)``, ``("racks", name)``, ``("topics", name or glob)`` or
    ``("mode",)``; led by ``("schedules", number)`` in a schedule, and that alone for the schedule's own keys."""
    key: str

    def __str__(self) -> str:
        return f"{written(self.section)}.{self.key}"

    @property
    def path(self) -> Path:
        return (*self.section, self.key)


def written(section: Path) -> str:
    """As messages name it: ``topics."clicks-*"``, ``schedules[2].brokers.101``."""
    if section[0] == SCHEDULES:
        return ".".join([f"{SCHEDULES}[{section[1]}]", *([written(section[2:])] if section[2:] else [])])
    kind, *name = map(str, section)
    return ".".join([kind, *map(quoted, name)])


@lru_cache(maxsize=4)
def facts(content: bytes) -> MappingProxyType[Path, Any]:
    """Raises what `load_toml` does.

    A change asks a dozen times what its two texts say: what they said is kept, and nobody changes it.
    """
    document = load_toml(content.decode())
    found = dict(_layer_facts(document))
    schedules = document.get(SCHEDULES)
    for number, table in enumerate(schedules if isinstance(schedules, list) else ()):
        found |= {(SCHEDULES, number, *path): value for path, value in _layer_facts(table)}
    return MappingProxyType(found)


def section_facts(found: Mapping[Path, Any], section: Path) -> dict[str, Any]:
    size = len(section)
    return {str(path[size]): value for path, value in found.items() if path[:size] == section and len(path) == size + 1}


def schedule_count(found: Mapping[Path, Any]) -> int:
    return 1 + max((int(path[1]) for path in found if path[0] == SCHEDULES and len(path) > 1), default=-1)


def without_schedules(found: Mapping[Path, Any], gone: Collection[int]) -> dict[Path, Any]:
    """Without some of the schedules: those after them move up."""
    kept: dict[Path, Any] = {}
    for path, value in found.items():
        if path[0] != SCHEDULES or len(path) == 1:
            kept[path] = value
        elif path[1] not in gone:
            kept[(SCHEDULES, int(path[1]) - sum(number < int(path[1]) for number in gone), *path[2:])] = value
    return kept


def is_well_formed(document: Any, lists: Collection[str] = ()) -> bool:
    """Sections are tables, and schedules a list of them, whatever is in them."""
    if not isinstance(document, dict):
        return False
    sections = [section for kind in NAMED_KINDS for section in _values(document.get(kind, {}))]
    tables = [document.get("mode", {}), *sections]
    schedules = [schedule for key in lists for schedule in _items(document.get(key, []))]
    return all(isinstance(table, dict) for table in tables) and all(map(is_well_formed, schedules))


def _values(table: Any) -> list[Any]:
    return list(table.values()) if isinstance(table, dict) else [None]


def _items(listed: Any) -> list[Any]:
    return listed if isinstance(listed, list) else [None]


def _layer_facts(table: Any) -> Iterator[tuple[Path, Any]]:
    for kind, value in table.items() if isinstance(table, dict) else ():
        if kind in NAMED_KINDS and isinstance(value, dict):
            for name, section in value.items():
                yield from (((kind, name, *path), found) for path, found in _leaves(section))
        elif kind != SCHEDULES or not isinstance(value, list):
            yield from (((kind, *path), found) for path, found in _leaves(value))


def _leaves(value: Any, prefix: str = "") -> Iterator[tuple[Path, Any]]:
    """Dotted keys and quoted ones alike. The table of a rate that sets itself is one value."""
    if not isinstance(value, dict) or prefix in RATE_KEYS:
        yield ((prefix,) if prefix else ()), value
        return
    for key, found in value.items():
        yield from _leaves(found, f"{prefix}.{key}" if prefix else key)

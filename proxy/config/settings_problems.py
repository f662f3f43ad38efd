"""Collects what is wrong with proxy.toml, so that one run of ``check`` shows all of it.

Knows where each value came from (the file or an override), not what the values mean.
Invariant: every message is ``source: key.path: expected …, found …``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from ..errors import ConfigurationError
from ..quotas.units import shown
from ..suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    import msgspec

_AT = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_FIELD = re.compile(r"Object (?P<kind>contains unknown|missing required) field `(?P<field>.*)`")
_EXPECTED = re.compile(r"Expected (?P<expected>.*?)(?:, got .*)?")
_TYPE_NAMES = {
    "object": "a table",
    "array": "a list",
    "str": "text",
    "int": "an integer",
    "bool": "true or false",
    "int | str": "an integer or text",
}


class Problems:
    def __init__(self, source: str, document: dict[str, Any], origins: Mapping[str, str]) -> None:
        self._source = source
        self._document = document
        self._origins = origins
        self._messages: list[str] = []

    def add(self, path: str, reason: str) -> None:
        source = self._origins.get(_dotted(path), self._source)
        self._messages.append(f"{source}: {path}: {reason}")

    def add_unknown(self, key: str, reason: str) -> None:
        """A top-level key nobody knows; blamed on the override that made it up, if one did."""
        made_up = next((path for path in self._origins if path.startswith(f"{key}.")), key)
        self.add(made_up, reason)

    def add_from_msgspec(self, name: str, error: msgspec.ValidationError, table: type[msgspec.Struct]) -> None:
        """msgspec names the place as ``$.peers[0].listen``, relative to the table that was converted."""
        place = _AT.fullmatch(str(error))
        what, path = (place["what"], name + (place["path"] or "")) if place else (str(error), name)
        if field := _FIELD.fullmatch(what):
            unknown = field["kind"].startswith("contains")
            fields = _fields(table, path.removeprefix(name).strip("."))
            known = f"; expected one of {', '.join(fields)}" if fields else ""
            advice = did_you_mean(field["field"], fields)
            self.add(f"{path}.{field['field']}", f"unknown key{known}{advice}" if unknown else "missing")
        elif expected := _EXPECTED.fullmatch(what):
            wanted = re.sub("`(.*?)`", lambda m: _TYPE_NAMES.get(m[1], m[1]), expected["expected"])
            self.add(path, f"expected {wanted}, found {shown(self._found(path))}")
        else:
            self.add(path, what)

    def raise_if_any(self) -> None:
        if self._messages:
            raise ConfigurationError(self._messages)

    def _found(self, path: str) -> object:
        value: Any = self._document
        for key in _dotted(path).split("."):
            value = value[int(key)] if isinstance(value, list) else value[key]
        return value


def _fields(table: type[msgspec.Struct], path: str) -> tuple[str, ...]:
    """Of the table at `path` in it: of itself, or of the tables of one of its lists, ``peers[0]``."""
    if not path:
        return table.__struct_fields__
    listed = get_type_hints(table).get(path.partition("[")[0])
    return next((item.__struct_fields__ for item in get_args(listed) if hasattr(item, "__struct_fields__")), ())


def _dotted(path: str) -> str:
    return re.sub(r"\[(\d+)\]", r".\1", path)

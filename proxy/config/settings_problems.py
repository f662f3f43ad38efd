"""Collects what is wrong with a TOML file, so that one run of ``check`` shows all of it.

Knows where each value came from (the file or an override), not what the values mean.
Invariant: every message is ``source: key.path: expected …, found … (line N)``, and there is one for each key.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..errors import ConfigurationError
from ..files.toml_reading import KeyLines

if TYPE_CHECKING:
    from collections.abc import Mapping

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Problems:
    """`source` is the file; `origins` says by key path which override a value came from instead; `text` is what stands
    in the file."""

    def __init__(self, source: str, origins: Mapping[str, str] = _NOTHING, text: str = "") -> None:
        self._source = source
        self._origins = origins
        self._text = text
        self._messages: dict[str, str] = {}

    def __contains__(self, path: str) -> bool:
        """Return True if something is wrong with this key itself."""
        return path in self._messages

    def add(self, path: str, reason: str) -> None:
        """Add a problem. Only the first of a key, or of a key below it, is kept: others follow from that."""
        if any(path == wrong or path.startswith(f"{wrong}.") for wrong in self._messages):
            return
        origin = self._origins.get(_dotted(path))
        # A good file is not looked over for its lines.
        line = KeyLines(self._text).of(path) if origin is None and self._text else None
        told = reason if line is None else f"{reason} (line {line})"
        self._messages[path] = f"{origin or self._source}: {path}: {told}"

    def add_unknown(self, path: str, reason: str) -> None:
        """Add an unknown key. If an override made up its table, the override's key is named."""
        made_up = next((each for each in self._origins if each.startswith(f"{_dotted(path)}.")), path)
        self.add(made_up, reason)

    def raise_if_any(self) -> None:
        """Raise what was found. Raises ConfigurationError."""
        if self._messages:
            raise ConfigurationError(list(self._messages.values()))


def _dotted(path: str) -> str:
    return re.sub(r"\[(\d+)\]", r".\1", path)

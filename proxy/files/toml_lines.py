"""Finds the line of a key in a TOML text, for error messages: the parser does not report it.

Pure. Knows only where keys and tables begin, not what they mean. Invariant: a line that is told is that of the key, or
of the nearest table or key around it; where neither is found, none is told.
"""

from __future__ import annotations

from .toml_reading import TOKEN

MOST_CHARACTERS = 2**18
"""Keys further down have the line of the table that they are in: 3 MB of keys nobody knows took six seconds."""


class KeyLines:
    """Args: text: TOML that has been parsed."""

    def __init__(self, text: str) -> None:
        self._lines: dict[str, int] = {}
        """By path: dotted, without quotes, `[n]` after the name of an array's tables."""
        self._counts: dict[str, int] = {}
        """How many tables each array has so far."""
        self._table = ""
        self._scan(text[:MOST_CHARACTERS])

    def of(self, path: str) -> int | None:
        """Return the line of `path`, written as messages name it."""
        wanted = path.replace('"', "").replace("'", "")
        while wanted and wanted not in self._lines:
            wanted = _parent(wanted)
        return self._lines.get(wanted)

    def _add(self, path: str, line: int) -> None:
        """Count what is around the key as well, which may have no line of its own."""
        while path and path not in self._lines:
            self._lines[path] = line
            path = _parent(path)

    def _scan(self, text: str) -> None:
        line, depth, brackets = 1, 0, 0
        parts: list[str] | None = []
        """Of the key that is being read; None in a value."""
        for token in TOKEN.finditer(text):
            found, kind = token[0], token.lastgroup
            if kind == "newline" and depth == 0:
                parts, brackets = [], 0
            elif kind in ("word", "text") and parts is not None:
                parts.append(found.strip("\"'"))
            elif kind == "other" and parts is None:
                depth += (found in "[{") - (found in "]}")
            elif found == "[":
                brackets += 1
            elif found == "]" and parts:
                self._begin_table(parts, line, is_array=brackets == 2)
                # The second bracket of [[…]] is still to come.
                parts, depth = None, brackets - 1
            elif found == "=" and parts:
                self._add(".".join([self._table, *parts] if self._table else parts), line)
                parts = None
            line += found.count("\n")

    def _begin_table(self, parts: list[str], line: int, *, is_array: bool) -> None:
        path = ""
        for number, part in enumerate(parts):
            path = f"{path}.{part}" if path else part
            is_last = number == len(parts) - 1
            if is_last and is_array:
                self._counts[path] = self._counts.get(path, 0) + 1
            if path in self._counts:
                path = f"{path}[{self._counts[path] - 1}]"
        self._table = path
        self._add(path, line)


def _parent(path: str) -> str:
    return path[: max(path.rfind("."), path.rfind("["), 0)]

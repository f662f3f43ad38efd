"""Parses TOML of other authors; finds the lines of its keys, and the key that a misspelt one was meant to be.

A key of 200 KB with a dot behind each letter made tomllib hold 14.5 GB, one 3000 deep ended in RecursionError, and a
number of 5000 digits in a ValueError that is no TOMLDecodeError. So text that would cost the parser too much is refused
first, by a scan that takes one step a token. Pure.

Invariants: what is wrong comes out as ConfigurationError that names the source and, where there is one, the line. The
line reported for a key is its own, or that of the nearest table or key around it; where neither is found, there is
none.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError, beginning

if TYPE_CHECKING:
    from collections.abc import Iterable


MAX_DEPTH = 16
"""The most nested brackets, and the most parts of a dotted key. The longest real key,
`topics.a.leader.replication.throttled.replicas`, has six."""
MAX_WORD_CHARACTERS = 256
"""The most characters of a word without quotes: a topic's name has 249 at most, a date and time 35, a number 20."""
MAX_TOLD_CHARACTERS = 1000
"""The most characters of tomllib's message that are shown."""
# Atomic groups, and no possessive quantifiers around a look-ahead: Python 3.11.2 (Debian 12) takes these to match
# nothing.
TOKEN = re.compile(
    r'''(?P<comment>\#[^\n]*)
      | (?P<text>"""(?>(?:[^"\\]|\\.|"(?!""))*)"{3,5} | \'{3}(?>(?:[^']|'(?!''))*)\'{3,5}
                | "(?:[^"\\\n]|\\.)*+" | '[^'\n]*+')
      | (?P<newline>\n)
      | (?P<word>[A-Za-z0-9_+:-]++)
      | (?P<other>.)''',
    re.DOTALL | re.VERBOSE,
)
_BARE = re.compile(
    r"(?:Invalid value|Expected newline or end of document).*\(at line (\d{1,9}), column \d+\)", re.ASCII
)
"""The messages of tomllib that a value without quotes may cause."""
_BARE_VALUE = re.compile(r"""[^=#"']+=\s*(?P<value>[A-Za-z0-9*/.][\w.*/:,%+-]{0,100})\s*(?:\#.*)?""", re.ASCII)
"""A line whose value could only be text: what TOML takes without quotes is no error."""
_BYTE_ORDER_MARK = "\ufeff"
_BEGINS_KEY = frozenset("=\n,[{")
MAX_CHARACTERS = 2**18
"""The part of a file in which each key has a line of its own; further down a key has the line of its table: 3 MB of
unknown keys took six seconds."""


class CostlyError(tomllib.TOMLDecodeError):
    """TOML that would cost the parser too much. The message says what is wrong with it, and in which line."""


def parse_toml(content: bytes, *, source: str) -> dict[str, Any]:
    """Parse a TOML document. Raises ConfigurationError."""
    text = ""
    try:
        text = content.decode()
        return load_toml(text)
    except CostlyError as error:
        raise ConfigurationError(f"{source}: {error}") from error
    # Besides TOMLDecodeError, which is one: ValueError for a date that is none and an integer with too many digits.
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{source}: not TOML: {_told(error)}{_hint(text, str(error))}") from error


def _hint(text: str, told: str) -> str:
    """Return what to write where a value stands without the quotes that it needs; empty if that is not what is
    wrong."""
    place = _BARE.fullmatch(told)
    lines = text.split("\n")
    if place is None or not 0 < int(place[1]) <= len(lines):
        return ""
    bare = _BARE_VALUE.fullmatch(lines[int(place[1]) - 1])
    if bare is None:
        return ""
    if bare["value"] == "auto":
        return ': a rate that sets itself is written { auto = true, max = "300MiB/s" }'
    return f': text needs quotes: "{bare["value"]}"'


def _told(error: Exception) -> str:
    """Return tomllib's message with a bounded length and its place. It shows a key that is there twice as a whole,
    however long, and has the place behind that."""
    what, at, place = str(error).rpartition(" (at ")
    return f"{beginning(what, MAX_TOLD_CHARACTERS)}{at}{place}" if at else beginning(place, MAX_TOLD_CHARACTERS)


def load_toml(text: str) -> dict[str, Any]:
    """Parse TOML, refusing text that costs too much. Raises CostlyError, and whatever tomllib.loads raises:
    TOMLDecodeError, ValueError, RecursionError."""
    if text.startswith(_BYTE_ORDER_MARK):
        # An editor does not show a byte order mark, and of such a text tomllib says only that its first statement is
        # not valid.
        raise tomllib.TOMLDecodeError("expected UTF-8 without a byte order mark, found one (at line 1, column 1)")
    costly = what_costs_dearly(text)
    if costly is not None:
        raise CostlyError(costly)
    return tomllib.loads(text)


def what_costs_dearly(text: str) -> str | None:
    """Return the first nesting that is too deep or word that is too long, with its line; None if there is neither."""
    line, depth, parts = 1, 0, 1
    for token in TOKEN.finditer(text):
        found, kind = token[0], token.lastgroup
        if kind == "text":
            line += found.count("\n")
        elif kind == "word":
            if len(found) > MAX_WORD_CHARACTERS:
                expected = f"at most {MAX_WORD_CHARACTERS} characters without quotes"
                return f"line {line}: expected {expected}, found {len(found)}"
        elif found in ('"', "'"):
            return None  # The string is not closed: tomllib reports that, and reads no further.
        else:
            line += kind == "newline"
            depth += (found in "[{") - (found in "]}")
            parts = 1 if found in _BEGINS_KEY else parts + (found == ".")
            if max(depth, parts) > MAX_DEPTH:
                what = "brackets" if depth > MAX_DEPTH else "a key"
                return f"line {line}: expected {what} at most {MAX_DEPTH} deep, found more"
    return None


class KeyLines:
    """Args: text: TOML that has been parsed."""

    def __init__(self, text: str) -> None:
        self._lines: dict[str, int] = {}
        """The line of each path: dotted, without quotes, `[n]` after the name of an array's tables."""
        self._counts: dict[str, int] = {}
        """The number of tables of each array so far."""
        self._table = ""
        self._scan(text[:MAX_CHARACTERS])

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
        """The parts of the key that is being read; None in a value."""
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


def did_you_mean(found: str, known: Iterable[str]) -> str:
    """Return `` (did you mean …?)``, or nothing if nothing known is like it.

    A dotted key is also compared by its parts, so that ``leader.rate`` finds ``leader.replication.throttled.rate``.
    """
    names = list(known)
    alike = difflib.get_close_matches(found, names, n=1)
    if not alike and found:
        parts = found.split(".")
        alike = [name for name in names if len(parts) > 1 and _are_in(parts, name.split("."))][:1]
    return f" (did you mean {alike[0]}?)" if alike else ""


def _are_in(parts: list[str], of: list[str]) -> bool:
    """Return True if the parts occur in that order, each spelt nearly so."""
    left = iter(of)
    return all(any(difflib.get_close_matches(part, [other], n=1) for other in left) for part in parts)

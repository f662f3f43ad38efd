"""The names in quotas.toml: keys with dots, brokers, racks, topics, and topic globs: `*`, `?`, `[abc]`, `[a-c]` and
`[!abc]`, with the meaning of Python's fnmatchcase, in bounded time.

A glob is cut at its stars into parts. The first part must begin the name and the last must end it. Each part in
between is taken at the first place where it is found after the part before it; this choice never has to be undone. A
regular expression tries every place for every star instead: 120 times `*a` against a name that nearly matches stopped
the loop for longer than 20 s (by fuzzing).

Pure. Invariants: `matches` agrees with fnmatchcase, in at most (length of the name) x (length of the glob) steps; a
name that is accepted can be written in a header as it is.
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


_WILDCARDS = re.compile(r"\[[^\]]*\]|[*?]")
_WILDCARD = re.compile(r"[?\[]")
_TRANSLATED = re.compile(r"\(\?s:(.*)\)\\[zZ]", re.DOTALL)
_MAX_CACHED = 4096
TOPIC_OR_GLOB = re.compile(r"[A-Za-z0-9._*?\[\]!-]{1,249}", re.ASCII)
GLOB_WILDCARD = re.compile(r"[*?\[]")
DEFAULT = "default"
"""Names each other broker, user or client id."""
MAX_BROKER_ID = 2**31 - 1
_BROKER = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)
PLAIN_TEXT = re.compile(r"[^\x00-\x1f\x7f\"\\]{1,249}")
"""The pattern of broker.rack, client.id and a user, which may be any text but quotes, backslashes and control
characters: messages and labels show the text as it is."""
SET_TWICE = "set twice, as a dotted key and as a quoted one"
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class _Part(Protocol):
    """The part of a glob between two stars, which matches a fixed number of characters."""

    size: int

    def is_at(self, name: str, at: int) -> bool: ...

    def find(self, name: str, at: int, end: int) -> int:
        """Return the first position from `at` on where the part matches and ends before `end`; -1 if there is none."""


class _Literal:
    def __init__(self, text: str) -> None:
        self._text = text
        self.size = len(text)

    def is_at(self, name: str, at: int) -> bool:
        return name.startswith(self._text, at)

    def find(self, name: str, at: int, end: int) -> int:
        return name.find(self._text, at, end)


class _Pattern:
    """A part with `?` or sets in it. Each of these matches exactly one character, so the regular expression of a part
    has only one way to match at a place, and takes no longer than the part is long."""

    def __init__(self, text: str) -> None:
        found = _TRANSLATED.fullmatch(translate(text))
        if found is None:
            raise AssertionError(f"fnmatch has another way to write {text!r} now")
        self._expression = re.compile(found[1], re.DOTALL)
        self.size = len(_characters(text))

    def is_at(self, name: str, at: int) -> bool:
        return self._expression.match(name, at) is not None

    def find(self, name: str, at: int, end: int) -> int:
        found = self._expression.search(name, at, end)
        return -1 if found is None else found.start()


class Glob:
    """A glob, ready to be matched with many names."""

    __slots__ = ("_first", "_last", "_least", "_middle")

    def __init__(self, text: str) -> None:
        parts = [_part(each) for each in _between_stars(text)]
        self._first = parts[0]
        self._last = parts[-1] if len(parts) > 1 else None
        self._middle = [part for part in parts[1:-1] if part.size]
        self._least = sum(part.size for part in parts)

    def matches(self, name: str) -> bool:
        if len(name) < self._least or not self._first.is_at(name, 0):
            return False
        last = self._last
        if last is None:
            return len(name) == self._least
        at, end = self._first.size, len(name) - last.size
        for part in self._middle:
            at = part.find(name, at, end)
            if at < 0:
                return False
            at += part.size
        return last.is_at(name, end)


@lru_cache(maxsize=_MAX_CACHED)
def glob_of(text: str) -> Glob:
    """Return the glob of a text, from a cache: quotas are worked out anew more often than globs are written."""
    return Glob(text)


@lru_cache(maxsize=_MAX_CACHED)
def specificity(glob: str) -> tuple[int, str]:
    """Return the sort key of a glob, from a cache: the longest first, by the number of literal characters, then by
    name."""
    return -len(_WILDCARDS.sub("", glob)), glob


def _part(text: str) -> _Part:
    return _Pattern(text) if _WILDCARD.search(text) else _Literal(text)


def _between_stars(text: str) -> list[str]:
    parts = [""]
    for each in _characters(text):
        if each == "*":
            parts.append("")
        else:
            parts[-1] += each
    return parts


def _characters(text: str) -> list[str]:
    """Cut the glob into stars and pieces that each match one character of a name. A set is one piece; a `[` that is not
    closed stands for itself, as in fnmatch."""
    found, at = [], 0
    while at < len(text):
        end = at + 1
        if text[at] == "[":
            inside = at + 1
            inside += text[inside : inside + 1] == "!"
            inside += text[inside : inside + 1] == "]"
            closing = text.find("]", inside)
            end = at + 1 if closing < 0 else closing + 1
        found.append(text[at:end])
        at = end
    return found


def flattened(
    table: dict[str, Any], prefix: str = "", *, whole: Collection[str] = frozenset()
) -> Iterator[tuple[str, Any]]:
    """Yield each key of a table as Kafka's dotted name, with its value. TOML makes nested tables of a dotted key unless
    the key is quoted; both spellings come out alike. `whole`: keys whose value may itself be a table, which is not
    taken for a dotted key."""
    for key, value in table.items():
        if isinstance(value, dict) and value and prefix + key not in whole:
            yield from flattened(value, f"{prefix}{key}.", whole=whole)
        else:
            yield prefix + key, value


def is_broker_id(text: str) -> bool:
    """Return True if it is an int32 of at least 0, as node.id is, written without a sign or a zero before it."""
    return _BROKER.fullmatch(text) is not None and int(text) <= MAX_BROKER_ID


def quoted(name: str) -> str:
    """Return a name as TOML wants it in a key."""
    return name if _BARE.fullmatch(name) else f'"{name}"'

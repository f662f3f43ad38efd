"""A .properties file as Java's clients load it (java.util.Properties). Pure; knows no key.

Invariant: a file that works with Kafka's own tools means the same here, byte by byte: it is ISO-8859-1, a later line
goes before an earlier one, and a backslash at the end of a line continues it. A byte order mark, which Java would take
for a part of the first key, is left out.
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

from proxy.errors import InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLANK = " \t\f"
_ENTRY = re.compile(r"((?:\\.|[^=:\\ \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)
_ENDS = re.compile(r"\r\n|\r|\n")
_CONTINUED = re.compile(r"(?:^|[^\\])(?:\\\\)*\\$")
_ESCAPED = re.compile(r"\\(?:u(?P<code>.{0,4})|(?P<character>.))", re.DOTALL)
_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_IS_CODE = re.compile(r"[0-9a-fA-F]{4}")


def read_properties(content: bytes) -> dict[str, str]:
    """Return the values by key. Raises InvalidValueError with the line."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InvalidValueError(
            "expected plain text, found UTF-16, which Java's clients cannot read either: save as UTF-8"
        )
    text = content.removeprefix(codecs.BOM_UTF8).decode("iso-8859-1")
    properties = {}
    for number, line in _lines(text):
        key, value = _ENTRY.fullmatch(line).groups()  # type: ignore[union-attr]  # every line fits
        properties[_unescaped(key, number)] = _unescaped(value, number)
    return properties


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank or comments, each with its number; of continued ones, the first number."""
    begun, first = "", 0
    for number, indented in enumerate(_ENDS.split(text), 1):
        line = indented.lstrip(_BLANK)
        # After nothing but a backslash, nothing has begun yet.
        if not begun and (not line or line[0] in "#!"):
            continue
        begun, first = begun + line, first if begun else number
        if _CONTINUED.search(line):
            begun = begun[:-1]
        else:
            yield first, begun
            begun, first = "", 0
    if begun:
        yield first, begun


def _unescaped(text: str, number: int) -> str:
    def one(found: re.Match[str]) -> str:
        code = found["code"]
        if code is None:
            return _CHARACTERS.get(found["character"], found["character"])
        if _IS_CODE.fullmatch(code) is None:
            # What was found is not shown: it may be the middle of a password.
            raise InvalidValueError(f"line {number}: expected four hexadecimal digits after \\u")
        return chr(int(code, 16))

    return _ESCAPED.sub(one, text)

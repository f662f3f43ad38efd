"""``sasl.jaas.config``, as Kafka's clients read it: one login module, its control flag and its options. Pure.

Kafka splits the text with Java's StreamTokenizer (JaasConfig.java): words and single or double quotes, ``//``, ``/*``
and a single ``/`` begin comments, a number is no word. Invariant: what Kafka refuses is refused, and a message never
contains a value, which may be a password.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ..errors import InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_TOKENS = re.compile(
    r"""
      [\x00-\x20]+                                        # whitespace
    | /\*(?:[^*]|\*(?!/))*(?:\*/)? | /[^*]?[^\r\n]*       # comments
    | "(?P<double>(?:\\[^\r\n]|[^"\\\r\n])*)(?:"|\\?(?=[\r\n])|\\?\Z)
    | '(?P<single>(?:\\[^\r\n]|[^'\\\r\n])*)(?:'|\\?(?=[\r\n])|\\?\Z)
    | (?P<number>-?(?:\d+\.?\d*|\.\d+|\.))
    | (?P<word>[A-Za-z_$\xa0-\U0010ffff][-\w.$\xa0-\U0010ffff]*)
    | (?P<sign>.)
    """,
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_ESCAPES = re.compile(r"\\(?:(?P<octal>[0-3][0-7]{0,2}|[4-7][0-7]?)|(?P<character>.))", re.DOTALL)
_CHARACTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Jaas(NamedTuple):
    """One entry of a JAAS configuration."""

    module: str
    options: dict[str, str]


class _Token(NamedTuple):
    """text: of a word or a quoted string; None for a number or a sign. sign: the character, if it is one."""

    text: str | None
    sign: str = ""


def read_jaas(text: str) -> Jaas:
    """Read the entry. Raises InvalidValueError."""
    tokens = list(_tokens(text))
    if not tokens:
        raise InvalidValueError("expected a login module, found nothing")
    module, *rest = tokens
    if module.text is None:
        raise InvalidValueError("expected the class of a login module first")
    if not rest or rest[0].text is None or rest[0].text.upper() not in _FLAGS:
        raise InvalidValueError(f"expected {', '.join(_FLAGS).lower()} after the login module")
    options: dict[str, str] = {}
    left = iter(rest[1:])
    for key in left:
        if key.sign == ";":
            break
        equals, value = next(left, None), next(left, None)
        if key.text is None or equals is None or equals.sign != "=":
            raise InvalidValueError(f"{_nth(options)}: expected key=value, and a semicolon after the last one")
        if value is None or value.text is None:
            expected = "a value; quotes around it, unless it begins with a letter and has only letters, digits and -._$"
            raise InvalidValueError(f"{_nth(options)}: expected {expected}")
        options[key.text] = value.text
    else:
        raise InvalidValueError("expected a semicolon at the end")
    if next(left, None) is not None:
        raise InvalidValueError("expected one login module, found more after the semicolon")
    return Jaas(module.text, options)


def _nth(options: dict[str, str]) -> str:
    """Name the option after these. Its key may be the middle of a password, where a quote is missing."""
    return f"option {len(options) + 1}"


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKENS.finditer(text):
        quoted = found["double"] if found["double"] is not None else found["single"]
        if quoted is not None:
            yield _Token(_ESCAPES.sub(_unescaped, quoted))
        elif found["word"] is not None:
            yield _Token(found["word"])
        elif found["number"] is not None:
            yield _Token(None)
        elif found["sign"] is not None:
            yield _Token(None, found["sign"])


def _unescaped(found: re.Match[str]) -> str:
    if found["octal"]:
        return chr(int(found["octal"], 8))
    return _CHARACTERS.get(found["character"], found["character"])

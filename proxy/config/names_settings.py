"""The table [names] of proxy.toml: how the sidecar logs in at a broker when it has a question of its own; and
sasl.jaas.config, which Kafka's own files have for it.

The keys are Kafka's client properties for authentication; the keys and certificates for a broker are those of its
leg. Reads no file. Kafka splits the text with Java's StreamTokenizer (JaasConfig.java): words and single or double
quotes, ``//``, ``/*`` and a single ``/`` begin comments, a number is no word. Invariants: no password goes over a leg
in plaintext unless that is written down; what Kafka refuses is refused, and a message never contains a value, which may
be a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ..errors import InvalidValueError
from ..files.toml_reading import did_you_mean
from ..quotas.names import flattened
from ..quotas.units import shown
from .tls_settings import Secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from .tables import Problems


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PROTOCOLS = ("SASL_SSL", "SASL_PLAINTEXT")
KEYS = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "sasl.password.file",
    "sasl.jaas.config",
    "sasl.oauthbearer.token.file",
)
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


@dataclass(frozen=True, slots=True)
class LoginSettings:
    """The login at brokers that the sidecar asks."""

    mechanism: str
    username: str
    secret: Secret
    """The password; for OAUTHBEARER the token."""
    in_plaintext: bool = False
    """True if security.protocol is SASL_PLAINTEXT: the login may also use a leg that is not encrypted."""


def read_login(tables: object, *, base: Path, problems: Problems) -> LoginSettings | None:
    """Return the login of `[names]`; None without a mechanism. Problems are added to `problems`, never a password."""
    if not isinstance(tables, dict):
        problems.add("names", f"expected a table, found {shown(tables)}")
        return None
    written = dict(flattened(tables))
    for key in written.keys() - set(KEYS):
        problems.add(f"names.{key}", f"unknown key; expected one of {', '.join(KEYS)}{did_you_mean(key, KEYS)}")
    texts = {key: value for key, value in written.items() if isinstance(value, str)}
    for key in written.keys() - texts.keys():
        problems.add(f"names.{key}", "expected text")
    if not written:
        return None
    protocol = texts.get("security.protocol", "SASL_SSL")
    if protocol not in PROTOCOLS:
        problems.add("names.security.protocol", f"expected {' or '.join(PROTOCOLS)}, found {shown(protocol)}")
    mechanism = texts.get("sasl.mechanism", "")
    if mechanism not in MECHANISMS:
        problems.add("names.sasl.mechanism", f"expected one of {', '.join(MECHANISMS)}, found {shown(mechanism)}")
    jaas = _jaas(texts, problems)
    secret = _secret(texts, jaas, base, token=mechanism == "OAUTHBEARER")
    username = texts.get("sasl.username", jaas.get("username", ""))
    if secret is None:
        token = "sasl.oauthbearer.token.file"  # noqa: S105 - a key's name
        missing = token if mechanism == "OAUTHBEARER" else "sasl.password.file"
        problems.add(f"names.{missing}", "missing")
    if not username and mechanism != "OAUTHBEARER":
        problems.add("names.sasl.username", "missing")
    return LoginSettings(mechanism, username, secret or Secret(""), protocol == "SASL_PLAINTEXT")


def _jaas(texts: Mapping[str, str], problems: Problems) -> dict[str, str]:
    if not texts.get("sasl.jaas.config"):
        return {}
    try:
        return read_jaas(texts["sasl.jaas.config"]).options
    except InvalidValueError as error:
        problems.add("names.sasl.jaas.config", str(error))
        return {}


def _secret(texts: Mapping[str, str], jaas: Mapping[str, str], base: Path, *, token: bool) -> Secret | None:
    if token:
        file = texts.get("sasl.oauthbearer.token.file")
        return Secret(file=base / file) if file else None
    if "sasl.password.file" in texts:
        return Secret(file=base / texts["sasl.password.file"])
    value = texts.get("sasl.password", jaas.get("password"))
    return None if value is None else Secret(value)


class Jaas(NamedTuple):
    """An entry of a JAAS configuration."""

    module: str
    options: dict[str, str]


class _Token(NamedTuple):
    """A token of the text. text: of a word or a quoted string; None for a number or a sign. sign: the character, if it
    is one."""

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

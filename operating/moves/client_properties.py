"""The file that Kafka's own tools take as ``--command-config``, translated for kafka-python.

Knows Java's spelling and, where that has none for PEM files, librdkafka's. Reads one file and connects to nobody.
Invariant: a key that is not understood is an error; if it were ignored, a connection could be less secure than the file
says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from proxy.config.jaas import jaas_entries
from proxy.errors import ConfigurationError
from proxy.files.reading import read_text
from proxy.quotas import shown

from .client_security import unusable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_TEXTS = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "sasl.kerberos.service.name": "sasl_kerberos_name",
    "ssl.ca.location": "ssl_cafile",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "client.id": "client_id",
}
_NUMBERS = {"request.timeout.ms": "request_timeout_ms"}
_STORE_TYPES = ("ssl.truststore.type", "ssl.keystore.type")
_LINE = re.compile(r"(?P<key>(?:\\.|[^=:\s\\])+)\s*[=:\s]\s*(?P<value>.*)")
_CONTINUED = re.compile(r"(?:^|[^\\])(?:\\\\)*\\$")
_ESCAPED = re.compile(r"\\(?:u(?P<code>[0-9a-fA-F]{4})|(?P<character>.))")
_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_MOST_DIGITS = 9


def usable_client_properties(path: Path) -> dict[str, Any]:
    """Read the file as `read_client_properties` does, and make sure that a client can begin with it.

    Raises:
        ConfigurationError: as `read_client_properties`; or a file that it names is missing or cannot be used.
    """
    properties = _read(path)
    arguments = _translated(properties, path)
    problems = [f"{path}: {problem}" for problem in unusable(properties, arguments)]
    if problems:
        raise ConfigurationError(problems)
    return arguments


def read_client_properties(path: Path) -> dict[str, Any]:
    """Arguments of kafka-python's clients.

    Raises:
        ConfigurationError: the file cannot be read, or has a key or a store that is not understood.
    """
    return _translated(_read(path), path)


def _read(path: Path) -> dict[str, str]:
    properties: dict[str, str] = {}
    for number, line in _lines(read_text(path)):
        found = _LINE.fullmatch(line.rstrip())
        if found is None:
            # The line itself is not told: it may be the middle of a key or of a password.
            raise ConfigurationError(f"{path}: line {number}: expected key=value, found no value")
        properties[_unescaped(found["key"])] = _unescaped(found["value"])
    return properties


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that say something, each with its number. A backslash at the end of a line joins the next one to
    it; then the number is that of the first."""
    begun, first = "", 0
    for number, indented in enumerate(text.splitlines(), 1):
        line = indented.lstrip()
        if not first and (not line or line[0] in "#!"):
            continue
        begun, first = begun + line, first or number
        if _CONTINUED.search(line):
            begun = begun[:-1]
        else:
            yield first, begun
            begun, first = "", 0
    if begun:
        yield first, begun


def _unescaped(text: str) -> str:
    """Unescape as java.util.Properties does: a backslash before any other character is dropped, and the character
    stays."""

    def one(found: re.Match[str]) -> str:
        if found["code"]:
            return chr(int(found["code"], 16))
        return _CHARACTERS.get(found["character"], found["character"])

    return _ESCAPED.sub(one, text)


def _translated(properties: Mapping[str, str], path: Path) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    problems = []
    for key, value in properties.items():
        if key in _TEXTS:
            # Kafka takes the protocol in small letters too, kafka-python does not.
            arguments[_TEXTS[key]] = value.upper() if key == "security.protocol" else value
        elif key in _NUMBERS:
            if value.isdecimal() and len(value) <= _MOST_DIGITS:
                arguments[_NUMBERS[key]] = int(value)
            else:
                problems.append(f"{path}: {key}: expected milliseconds, found {shown(value)}")
        elif key == "sasl.jaas.config":
            arguments |= {f"sasl_plain_{entry}": text for entry, text in jaas_entries(value).items()}
        elif key == "ssl.endpoint.identification.algorithm":
            arguments["ssl_check_hostname"] = bool(value)
        elif key not in _STORE_TYPES:
            known = ", ".join(sorted([*_TEXTS, *_NUMBERS, "sasl.jaas.config"]))
            problems.append(f"{path}: {key}: not understood here; expected one of {known}")
    problems += [
        f"{path}: ssl.{store}.location: only PEM is understood (ssl.{store}.type=PEM): keytool and openssl convert"
        for store in ("truststore", "keystore")
        if f"ssl.{store}.location" in properties and properties.get(f"ssl.{store}.type", "JKS").upper() != "PEM"
    ]
    if problems:
        raise ConfigurationError(problems)
    return arguments

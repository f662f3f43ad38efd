"""The file that Kafka's own tools take as ``--command-config``, translated for kafka-python.

Reads that file and those that it names, and opens no connection. Invariant: what concerns security is understood or
refused; if it were ignored, a connection could be less secure than the file says. All else that a client's file may
have (bootstrap.servers, acks, retries) is ignored, as Kafka's tools ignore keys they do not use. The file is read as
java.util.Properties reads it, byte by byte: it is ISO-8859-1, a later line goes before an earlier one, and a backslash
at the end of a line continues it. A byte order mark, which Java would take for a part of the first key, is left out.
"""

from __future__ import annotations

import codecs
import difflib
import re
from typing import TYPE_CHECKING, Any

from proxy.errors import ConfigurationError, InvalidValueError
from proxy.files.reading import read_bytes
from proxy.files.toml_reading import did_you_mean
from proxy.quotas import shown

from .login import login_arguments
from .security import KEYS as TLS_KEYS
from .security import tls_context

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_KEYS = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.jaas.config",
    "sasl.username",
    "sasl.password",
    "sasl.kerberos.service.name",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    *TLS_KEYS,
)
_CALLBACKS = {
    "sasl.client.callback.handler.class": ("software.amazon.msk.auth.iam.IAMClientCallbackHandler",),
    "sasl.login.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    ),
}
"""The classes of Java's whose work is done here as well."""
_WITHOUT_MEANING = (
    "ssl.protocol",
    "ssl.provider",
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation",
    "sasl.login.refresh.",
    "sasl.login.retry.",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.kerberos.",
    "sasl.oauthbearer.",
)
"""The keys, and beginnings of keys, that concern how Java does it, or are read where they are needed."""
_OF_SECURITY = ("ssl.", "sasl.", "security.", "config.providers")
_ALIKE = 0.85
_MAX_DIGITS = 9
_BLANK = " \t\f"
_ENTRY = re.compile(r"((?:\\.|[^=:\\ \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)
_ENDS = re.compile(r"\r\n|\r|\n")
_CONTINUED = re.compile(r"(?:^|[^\\])(?:\\\\)*\\$")
_ESCAPED = re.compile(r"\\(?:u(?P<code>.{0,4})|(?P<character>.))", re.DOTALL)
_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_IS_CODE = re.compile(r"[0-9a-fA-F]{4}")


def usable_client_properties(path: Path) -> dict[str, Any]:
    """Return arguments for kafka-python's clients.

    Raises:
        ConfigurationError: the file, or a file that it names, cannot be read or used; with every problem found.
    """
    try:
        # As Kafka trims them (ConfigDef.parseType).
        properties = {key: value.strip() for key, value in read_properties(read_bytes(path, takes_pipes=True)).items()}
    except InvalidValueError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    problems = list(_problems(properties))
    arguments = _plain(properties, problems)
    # Files of a protocol that is not spoken are not read, as with Kafka's own tools.
    protocol = arguments["security_protocol"]
    for spoken, read in (("SSL", lambda found: {"ssl_context": tls_context(found)}), ("SASL", login_arguments)):
        try:
            arguments |= read(properties) if spoken in protocol.split("_") else {}
        except ConfigurationError as error:
            problems += error.problems
    if problems:
        raise ConfigurationError([f"{path}: {problem}" for problem in problems])
    return arguments


def _plain(properties: Mapping[str, str], problems: list[str]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    if properties.get("client.id"):
        arguments["client_id"] = properties["client.id"]
    timeout = properties.get("request.timeout.ms", "0")
    if not timeout.isdecimal() or len(timeout) > _MAX_DIGITS:
        problems.append(f"request.timeout.ms: expected milliseconds, found {shown(timeout)}")
    elif int(timeout):
        arguments["request_timeout_ms"] = int(timeout)
    # Kafka takes the protocol in small letters too, kafka-python does not.
    protocol = properties.get("security.protocol", PROTOCOLS[0])
    arguments["security_protocol"] = protocol.upper()
    if protocol.upper() not in PROTOCOLS:
        problems.append(f"security.protocol: expected one of {', '.join(PROTOCOLS)}, found {shown(protocol)}")
    return arguments


def _problems(properties: Mapping[str, str]) -> Iterator[str]:
    for key, value in properties.items():
        if key in _CALLBACKS:
            if value not in _CALLBACKS[key]:
                yield f"{key}: a class of Java's that is not understood here; expected {' or '.join(_CALLBACKS[key])}"
        elif key in _KEYS or key.startswith(_WITHOUT_MEANING):
            continue
        elif key.startswith(_OF_SECURITY):
            yield f"{key}: not understood here{did_you_mean(key, _KEYS)}"
        elif difflib.get_close_matches(key, _KEYS, n=1, cutoff=_ALIKE):
            yield f"{key}: not a key of Kafka's{did_you_mean(key, _KEYS)}"


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
            # The text found is not shown: it may be the middle of a password.
            raise InvalidValueError(f"line {number}: expected four hexadecimal digits after \\u")
        return chr(int(code, 16))

    return _ESCAPED.sub(one, text)

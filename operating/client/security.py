"""The TLS context of a client, from Kafka's ``ssl.*`` properties: files, or PEM in the properties themselves.

Blocking: reads the files that the properties name, with the relay's own readers. What a store is, its content says:
``ssl.truststore.type`` is JKS by default, and keytool has written PKCS12 into files named .jks since Java 9.
Invariant: a problem names the key, and is found before any broker is dialled; kafka-python would find it in the middle
of each connection, try for 15 seconds more, and say only that it reached no broker. No password and no key is shown.
"""

from __future__ import annotations

import base64
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from proxy.config.tls_settings import LegSettings, Secret, StoreSettings, StoreType, allowed
from proxy.errors import ConfigurationError, InvalidValueError
from proxy.files.reading import read_bytes
from proxy.tls.contexts import context_of
from proxy.tls.identity import MAX_BYTES, parse_authorities, parse_identity

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from proxy.tls.identity import Identity

KEYS = (
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "ssl.ca.location",
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
)
"""The keys of Java, and librdkafka's where Java has none for PEM files."""
_JKS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DER = b"0"
"""The first byte of a PKCS12 store."""
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


class _Content(NamedTuple):
    """The content of a property. key: of the properties; place: of the file, or the key again."""

    key: str
    place: str
    content: bytes
    type: StoreType


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context that these properties ask for. Raises ConfigurationError with every problem, by key."""
    problems: list[str] = []
    trusted = identity = None
    try:
        trusted = _trusted(properties)
    except ConfigurationError as error:
        problems += error.problems
    try:
        identity = _identity(properties)
    except ConfigurationError as error:
        problems += error.problems
    protocols, suites = (
        tuple(each.strip() for each in properties.get(key, "").split(",") if each.strip())
        for key in ("ssl.enabled.protocols", "ssl.cipher.suites")
    )
    try:
        # Versions older than TLS 1.2 are never spoken; some files still name them beside newer ones.
        newer = [each for each in protocols if each not in ("TLSv1", "TLSv1.1", "SSLv3")]
        versions, ciphers = allowed(newer or protocols, suites)
    except InvalidValueError as error:
        problems.append(f"{'ssl.cipher.suites' if 'suite' in str(error) else 'ssl.enabled.protocols'}: {error}")
    if problems:
        raise ConfigurationError(problems)
    verifies = properties.get("ssl.endpoint.identification.algorithm", "https") != ""
    return context_of(LegSettings("client", (), None, verifies_names=verifies, minimum=versions[0], maximum=versions[1],
                                  ciphers=ciphers), identity, trusted)  # fmt: skip


def _trusted(properties: Mapping[str, str]) -> str | None:
    """Return the authorities as PEM; None for the system's. Raises ConfigurationError."""
    found = _content(properties, "ssl.truststore.certificates", "ssl.truststore.location", "ssl.ca.location")
    if found is None:
        return None
    password = _secret(properties, "ssl.truststore.password")
    with_key = StoreSettings(Path(found.place), found.type, password)
    try:
        return parse_authorities(with_key, found.content).pem
    except ConfigurationError as error:
        raise _named(found, error) from error


def _identity(properties: Mapping[str, str]) -> Identity | None:
    """Return the identity that the client presents; None for nothing. Raises ConfigurationError."""
    found = _content(properties, "ssl.keystore.certificate.chain", "ssl.keystore.location", "ssl.certificate.location")
    if found is None:
        return None
    key = _content(properties, "ssl.keystore.key", "ssl.key.location")
    names = ["ssl.key.password", "ssl.keystore.password"]
    if found.type is StoreType.PKCS12:
        names.reverse()
    store = StoreSettings(
        Path(found.place), found.type, _secret(properties, *names), None if key is None else Path(key.place)
    )
    try:
        return parse_identity(store, found.content, None if key is None else key.content)
    except ConfigurationError as error:
        raise _named(found, error) from error


def _content(properties: Mapping[str, str], inline: str, *locations: str) -> _Content | None:
    """Return the value of the first of these keys that is set, `inline` by itself. Raises ConfigurationError."""
    if inline in properties:
        return _Content(inline, inline, _wrapped(inline, properties[inline]), StoreType.PEM)
    key = next((key for key in locations if properties.get(key)), None)
    if key is None:
        return None
    path = properties[key]
    try:
        content = read_bytes(Path(path), most_bytes=MAX_BYTES)
    except ConfigurationError as error:
        raise ConfigurationError(f"{key}: {error}") from error
    if content.startswith(_JKS):
        convert = f"keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"
        raise ConfigurationError(f"{key}: {path}: expected PEM or PKCS12, found JKS, which Java alone reads: {convert}")
    return _Content(key, path, content, StoreType.PKCS12 if content.startswith(_DER) else StoreType.PEM)


def _wrapped(key: str, text: str) -> bytes:
    """Return PEM with its lines, as Java reads it without: lines that a backslash continues are one line."""
    blocks = []
    for found in _BLOCK.finditer(text):
        body = "".join(found[2].split())
        blocks.append(f"-----BEGIN {found[1]}-----\n{textwrap.fill(body, 64)}\n-----END {found[1]}-----\n")
        try:
            base64.b64decode(body, validate=True)
        except ValueError as error:
            raise ConfigurationError(f"{key}: expected PEM, found a {found[1]} that is not base64") from error
    if not blocks:
        raise ConfigurationError(
            f"{key}: expected PEM from BEGIN to END; in a file of properties, each of its lines but the last needs a "
            "backslash at its end"
        )
    return "".join(blocks).encode("ascii")


def _secret(properties: Mapping[str, str], *keys: str) -> Secret | None:
    return next((Secret(properties[key]) for key in keys if properties.get(key)), None)


def _named(found: _Content, error: ConfigurationError) -> ConfigurationError:
    own = (
        problem.replace(" (or ssl.keystore.type, ssl.truststore.type = PKCS12)", " or PKCS12")
        for problem in error.problems
    )
    return ConfigurationError([text if found.place == found.key else f"{found.key}: {text}" for text in own])

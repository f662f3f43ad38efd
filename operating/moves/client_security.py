"""Whether a client can use what client.properties says of TLS and SASL: found out before any broker is dialled.

kafka-python finds out in the middle of each connection that a file is missing, or that it does not know a mechanism. It
then tries for 15 seconds more, and says only that it could not reach anybody. Reads the files that the properties name.
Invariant: a problem is told with the properties' file and the key, and without any password.
"""

from __future__ import annotations

import importlib.util
import ssl
from typing import TYPE_CHECKING

from proxy.quotas import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_AUTHORITIES = ("ssl.ca.location", "ssl.truststore.location")
_CERTIFICATES = ("ssl.certificate.location", "ssl.keystore.location")
_KEY = "ssl.key.location"
_WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_NEEDS = {"GSSAPI": "gssapi", "AWS_MSK_IAM": "botocore"}
"""Mechanisms that need a package which the sidecar does not bring."""


def unusable(properties: Mapping[str, str], arguments: Mapping[str, object]) -> Iterator[str]:
    """Yield what is wrong, each with its key. `properties`: the file's own; `arguments`: what kafka-python gets for
    them."""
    protocol = arguments.get("security_protocol", PROTOCOLS[0])
    if protocol not in PROTOCOLS:
        found = shown(properties["security.protocol"])
        yield f"security.protocol: expected one of {', '.join(PROTOCOLS)}, found {found}"
    if protocol in ("SSL", "SASL_SSL"):
        yield from _files(properties)
    if protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        yield from _login(properties, arguments)


def _files(properties: Mapping[str, str]) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for key in _AUTHORITIES:
        file = properties.get(key)
        try:
            if file:
                context.load_verify_locations(file)
        except OSError as error:
            yield f"{key}: {file}: expected certificates of authorities as PEM: {_why(error)}"
    for key in _CERTIFICATES:
        file, private = properties.get(key), properties.get(_KEY)
        password = properties.get("ssl.key.password", "")
        try:
            if file:
                # Without this argument OpenSSL would ask the terminal for a password, if the key has one.
                context.load_cert_chain(file, private or None, password=password)
        except (OSError, ValueError) as error:
            named = f"{key}: {file}" if not private else f"{key}, {_KEY}: {file}, {private}"
            expected = "expected a certificate and its key as PEM, with ssl.key.password if it has one"
            yield f"{named}: {expected}: {_why(error)}"


def _why(error: Exception) -> str:
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)


def _login(properties: Mapping[str, str], arguments: Mapping[str, object]) -> Iterator[str]:
    mechanism = properties.get("sasl.mechanism")
    known = ", ".join((*_WITH_PASSWORD, *_NEEDS))
    if mechanism is None:
        yield f"sasl.mechanism: missing, and security.protocol asks for SASL; expected one of {known}"
    elif mechanism in _WITH_PASSWORD:
        if not {"sasl_plain_username", "sasl_plain_password"} <= arguments.keys():
            yield f'sasl.jaas.config: expected username="…" and password="…", which {mechanism} needs'
    elif mechanism not in _NEEDS:
        yield f"sasl.mechanism: expected one of {known}, found {shown(mechanism)}"
    elif importlib.util.find_spec(_NEEDS[mechanism]) is None:
        yield f"sasl.mechanism: {mechanism} needs the package {_NEEDS[mechanism]}: pip install {_NEEDS[mechanism]}"

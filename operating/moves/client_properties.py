"""The file that Kafka's own tools take as ``--command-config``, translated for kafka-python.

Knows Java's spelling and, where that has none for PEM files, librdkafka's. Reads one file and connects to nobody.
Invariant: a key that is not understood is an error, or a connection would be less secure than the file says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from proxy.errors import ConfigurationError
from proxy.files.reading import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping
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
_JAAS = re.compile(r'(?P<key>username|password)="(?P<value>(?:[^"\\]|\\.)*)"')
_LINE = re.compile(r"(?P<key>[^=:\s]+)\s*[=:\s]\s*(?P<value>.*)")


def read_client_properties(path: Path) -> dict[str, Any]:
    """Arguments of kafka-python's clients.

    Raises:
        ConfigurationError: the file cannot be read, or has a key or a store that is not understood.
    """
    lines = read_text(path).splitlines()
    properties: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and text[0] not in "#!":
            found = _LINE.fullmatch(text)
            if found is None:
                raise ConfigurationError(f"{path}: line {number}: expected key=value, found {text.split()[0]!r}")
            properties[found["key"]] = found["value"]
    return _translated(properties, path)


def _translated(properties: Mapping[str, str], path: Path) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    problems = []
    for key, value in properties.items():
        if key in _TEXTS:
            arguments[_TEXTS[key]] = value
        elif key in _NUMBERS and value.isdecimal():
            arguments[_NUMBERS[key]] = int(value)
        elif key == "sasl.jaas.config":
            arguments |= {f"sasl_plain_{found['key']}": found["value"] for found in _JAAS.finditer(value)}
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

"""The table [names] of proxy.toml: how the sidecar logs in at a broker when it has a question of its own.

The keys are Kafka's client properties that say who somebody is; the keys and certificates for a broker are those of its
leg. Reads no file. Invariant: no password goes over a leg in plaintext unless that is written down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import InvalidValueError
from ..files.suggestions import did_you_mean
from ..quotas.units import shown
from .jaas import read_jaas
from .tls_settings import Secret

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .settings_problems import Problems

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


@dataclass(frozen=True, slots=True)
class LoginSettings:
    """The login at brokers that the sidecar asks."""

    mechanism: str
    username: str
    secret: Secret
    """The password; for OAUTHBEARER the token."""
    in_plaintext: bool = False
    """security.protocol = SASL_PLAINTEXT: the login may also go over a leg that is not encrypted."""


def read_login(tables: object, *, base: Path, problems: Problems) -> LoginSettings | None:
    """Return the login of `[names]`; None without a mechanism. Problems are added to `problems`, never a password."""
    if not isinstance(tables, dict):
        problems.add("names", f"expected a table, found {shown(tables)}")
        return None
    written = flat(tables)
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
    """Return the options of the login module."""
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


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Put dotted keys together again, which TOML reads as tables in tables."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and value:
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found

"""Converts Kafka's ``sasl.*`` properties to kafka-python's arguments for a login.

Invariant: a problem names the key and is found before any broker is dialled; no password, secret or token is shown.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from proxy.config.jaas import Jaas, read_jaas
from proxy.errors import ConfigurationError, InvalidValueError
from proxy.quotas import shown

from .oauth_tokens import token_source

if TYPE_CHECKING:
    from collections.abc import Mapping

_WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_NEEDS = {"GSSAPI": "gssapi", "AWS_MSK_IAM": "botocore"}
"""Mechanisms that need a package which the sidecar does not bring."""
MECHANISMS = (*_WITH_PASSWORD, "OAUTHBEARER", *_NEEDS)
_OF_AWS = {"awsProfileName": "export AWS_PROFILE", "awsDebugCreds": ""}
"""Options of IAMLoginModule, and what says the same to botocore; empty where nothing has to."""


def login_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return what kafka-python needs to log in; `Tokens` are still to be put into its own class.

    Raises ConfigurationError.
    """
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms")
    known = ", ".join(MECHANISMS)
    if not mechanism:
        raise ConfigurationError(
            f"sasl.mechanism: missing, and security.protocol asks for SASL; expected one of {known}"
        )
    if mechanism not in MECHANISMS:
        raise ConfigurationError(f"sasl.mechanism: expected one of {known}, found {shown(mechanism)}")
    needs = _NEEDS.get(mechanism)
    if needs is not None and importlib.util.find_spec(needs) is None:
        raise ConfigurationError(f"sasl.mechanism: {mechanism} needs the package {needs}: pip install {needs}")
    options = jaas_of(properties).options
    arguments: dict[str, Any] = {"sasl_mechanism": mechanism}
    if mechanism in _WITH_PASSWORD:
        return arguments | _password(properties, options, mechanism)
    if mechanism == "OAUTHBEARER":
        return arguments | {"sasl_oauth_token_provider": token_source(properties, options)}
    if mechanism == "GSSAPI":
        service = properties.get("sasl.kerberos.service.name") or options.get("serviceName", "kafka")
        return arguments | {"sasl_kerberos_service_name": service}
    for option in options.keys() - {"awsDebugCreds"}:
        instead = _OF_AWS.get(option, "give botocore its credentials by its own means")
        raise ConfigurationError(f"sasl.jaas.config: {option}: not understood here: {instead}")
    return arguments


def jaas_of(properties: Mapping[str, str]) -> Jaas:
    """Return the login module and its options; of a file without them, neither. Raises ConfigurationError."""
    if not properties.get("sasl.jaas.config"):
        return Jaas("", {})
    try:
        return read_jaas(properties["sasl.jaas.config"])
    except InvalidValueError as error:
        raise ConfigurationError(f"sasl.jaas.config: {error}") from error


def _password(properties: Mapping[str, str], options: Mapping[str, str], mechanism: str) -> dict[str, str]:
    user = properties.get("sasl.username", options.get("username"))
    password = properties.get("sasl.password", options.get("password"))
    if user is None or password is None:
        raise ConfigurationError(f'sasl.jaas.config: expected username="…" and password="…", which {mechanism} needs')
    return {"sasl_plain_username": user, "sasl_plain_password": password}

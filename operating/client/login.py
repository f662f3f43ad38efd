"""Converts Kafka's ``sasl.*`` properties to kafka-python's arguments for a login, and gets the tokens of OAUTHBEARER:
from a file, from a token endpoint (KIP-768), or as Kafka's unsecured tokens.

Blocking when a token is asked for. Invariants: a problem names the key and is found before any broker is dialled; a
token is fetched anew for each login; no password, secret or token is in any message.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.config.names_settings import Jaas, read_jaas
from proxy.errors import ClusterError, ConfigurationError, InvalidValueError
from proxy.files.reading import read_bytes
from proxy.logs.terminal_text import without_user
from proxy.quotas import shown

from .security import tls_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
FILE = "sasl.oauthbearer.token.file"
"""The sidecar's own key in [names]; Kafka has ``file:`` URLs as endpoints."""
_CREDENTIALS = "sasl.oauthbearer.client.credentials.client."
_EXTENSION = "extension_"
_UNSECURED = "unsecuredLoginStringClaim_"
_TIMEOUT_SECONDS = 15.0
_LIFETIME_SECONDS = 3600
_MAX_BYTES = 2**20
_WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_NEEDS = {"GSSAPI": "gssapi", "AWS_MSK_IAM": "botocore"}
"""The mechanisms that need a package which the sidecar does not bring."""
MECHANISMS = (*_WITH_PASSWORD, "OAUTHBEARER", *_NEEDS)
_OF_AWS = {"awsProfileName": "export AWS_PROFILE", "awsDebugCreds": ""}
"""The options of IAMLoginModule, each with its equivalent in botocore; empty where there is none to pass."""


class Tokens(NamedTuple):
    """A source of tokens.

    fetch: returns a token; raises ConfigurationError if there is none to be had.
    extensions: that go with each login (KIP-342).
    """

    fetch: Callable[[], str]
    extensions: Mapping[str, str]


def token_source(properties: Mapping[str, str], options: Mapping[str, str]) -> Tokens:
    """Return where tokens come from.

    Args:
        properties: of the client.
        options: of its login module.

    Raises:
        ConfigurationError: the properties do not say where tokens come from.
    """
    extensions = {key.removeprefix(_EXTENSION): options[key] for key in options if key.startswith(_EXTENSION)}
    return Tokens(_fetching(properties, options), extensions)


def _fetching(properties: Mapping[str, str], options: Mapping[str, str]) -> Callable[[], str]:
    endpoint = properties.get(ENDPOINT, "")
    url = urllib.parse.urlparse(endpoint)
    if properties.get(FILE):
        return partial(_of_file, Path(properties[FILE]))
    if url.scheme == "file":
        return partial(_of_file, Path(urllib.parse.unquote(url.path)))
    if url.scheme in ("http", "https"):
        return partial(_of_endpoint, endpoint, *_client(properties, options), tls_context(options))
    if any(key.startswith(_UNSECURED) for key in options):
        return partial(_unsecured, options)
    raise ConfigurationError(
        f"{ENDPOINT}: OAUTHBEARER needs the URL of a token endpoint (https:, with clientId and clientSecret in "
        "sasl.jaas.config) or of a file with a token (file:)"
    )


def _client(properties: Mapping[str, str], options: Mapping[str, str]) -> tuple[str, str, str]:
    client = options.get("clientId", properties.get(f"{_CREDENTIALS}id"))
    secret = options.get("clientSecret", properties.get(f"{_CREDENTIALS}secret"))
    if client is None or secret is None:
        raise ConfigurationError('sasl.jaas.config: expected clientId="…" and clientSecret="…" for the token endpoint')
    return client, secret, options.get("scope", properties.get("sasl.oauthbearer.scope", ""))


def _of_file(path: Path) -> str:
    try:
        return read_bytes(path, most_bytes=_MAX_BYTES).decode().strip()
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: cannot be read: expected text") from error


def _of_endpoint(endpoint: str, client: str, secret: str, scope: str, context: Any) -> str:
    """Request a token by client credentials (RFC 6749, 4.4)."""
    login = base64.b64encode(f"{client}:{secret}".encode()).decode("ascii")
    asked = {"grant_type": "client_credentials", **({"scope": scope} if scope else {})}
    request = urllib.request.Request(  # noqa: S310 - the scheme has been looked at
        endpoint, urllib.parse.urlencode(asked).encode("ascii"), {"Authorization": f"Basic {login}"}
    )
    where = without_user(endpoint)
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS, context=context) as answer:  # noqa: S310
            token = json.loads(answer.read(_MAX_BYTES)).get("access_token")
    except urllib.error.HTTPError as error:
        with error:
            raise ClusterError(f"{where}: the token endpoint answers {error.code} {error.reason}") from None
    except (OSError, ValueError, AttributeError) as error:
        raise ClusterError(f"{where}: no token: {getattr(error, 'reason', None) or error}") from error
    if not isinstance(token, str):
        raise ClusterError(f"{where}: the token endpoint's answer has no access_token")
    return token


def _unsecured(options: Mapping[str, str]) -> str:
    """Return a token that is not signed (RFC 7515, alg none), as OAuthBearerUnsecuredLoginCallbackHandler makes it."""
    now = time.time()
    own = {key.removeprefix(_UNSECURED): options[key] for key in options if key.startswith(_UNSECURED)}
    parts = ({"alg": "none"}, {**own, "iat": now, "exp": now + _LIFETIME_SECONDS})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode("ascii") for part in parts)
    return f"{'.'.join(encoded)}."


def login_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments with which kafka-python logs in; `Tokens` are still to be put into its own class.

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

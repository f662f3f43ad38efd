"""Logs in to a broker by SASL, on a connection of the sidecar's own.

kafka-python makes the messages of a mechanism (`operator`, as for `plan`), since a second implementation of SCRAM would
be a risk. It is imported at the first login, and works in a thread, since SCRAM's key takes thousands of hashes. Frames
are exchanged by `ask` alone.

Invariant: a password is read each time it is used, is kept nowhere, and is in no error.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING, Any

import trio

from protocol.errors import ProtocolError
from protocol.own_requests import (
    SaslRefusedError,
    authenticate_request,
    handshake_request,
    read_authenticate,
    read_handshake,
)

from ..errors import ConfigurationError
from ..files.reading import read_bytes, refuse_silent
from ..package import how_to_install
from ..threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ..config.names_settings import LoginSettings

LOGIN_THREADS = trio.CapacityLimiter(1)
MAX_SECRET_BYTES = 2**20
MAX_EXCHANGES = 8
"""The most exchanges of a login. SCRAM has two, the other mechanisms a single one."""
_CLASSES = {
    "PLAIN": ("kafka.net.sasl.plain", "SaslMechanismPlain"),
    "SCRAM-SHA-256": ("kafka.net.sasl.scram", "SaslMechanismScram"),
    "SCRAM-SHA-512": ("kafka.net.sasl.scram", "SaslMechanismScram"),
    "OAUTHBEARER": ("kafka.net.sasl.oauth", "SaslMechanismOAuth"),
}


class Login:
    """A SASL login. `open` it once; `run` it on each connection."""

    def __init__(self, settings: LoginSettings) -> None:
        self._settings = settings

    @classmethod
    def open(cls, settings: LoginSettings) -> Login:
        """Check that the login is possible. Blocking. Raises ConfigurationError if kafka-python or the password's file
        is missing."""
        file = settings.secret.file
        if file is not None:
            refuse_silent(file)
        login = cls(settings)
        login.mechanism()
        return login

    @property
    def in_plaintext(self) -> bool:
        """True if the login may also go over a leg that is not encrypted."""
        return self._settings.in_plaintext

    def mechanism(self) -> Any:
        """Return a new exchange of kafka-python. Blocking. Raises ConfigurationError."""
        settings = self._settings
        module, name = _CLASSES[settings.mechanism]
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", category=DeprecationWarning)
                made = getattr(importlib.import_module(module), name)
        except ImportError as error:
            raise ConfigurationError(
                f"names.sasl.mechanism: {settings.mechanism} needs kafka-python: {how_to_install('operator')} ({error})"
            ) from error
        secret = self._secret()
        return made(
            sasl_mechanism=settings.mechanism,
            sasl_plain_username=settings.username,
            sasl_plain_password=secret,
            **({"sasl_oauth_token_provider": _provider(secret)} if settings.mechanism == "OAUTHBEARER" else {}),
        )

    async def run(self, ask: Callable[[bytes], Awaitable[bytes]], *, client_id: str) -> None:
        """Log in; `ask` sends a frame and returns its answer. Raises SaslRefusedError, and the errors of `ask`."""
        mechanism = await in_thread(self.mechanism, limiter=LOGIN_THREADS)
        name = self._settings.mechanism
        read_handshake(await ask(handshake_request(0, name, client_id=client_id)), name)
        for number in range(1, MAX_EXCHANGES):
            try:
                says = await in_thread(mechanism.auth_bytes, limiter=LOGIN_THREADS)
                answer = read_authenticate(await ask(authenticate_request(number, says, client_id=client_id)))
                await in_thread(mechanism.receive, answer, limiter=LOGIN_THREADS)
            except ProtocolError:
                raise
            except (ValueError, KeyError, OverflowError) as error:  # of kafka-python, about what the broker says
                raise SaslRefusedError(f"{name}: {type(error).__name__}") from error
            if mechanism.is_done():
                break
        if not mechanism.is_authenticated():
            raise SaslRefusedError(f"{name}: the exchange did not end in a login")

    def _secret(self) -> str:
        secret = self._settings.secret
        if secret.file is None:
            return secret.value or ""
        try:
            return read_bytes(secret.file, most_bytes=MAX_SECRET_BYTES).decode().strip()
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"{secret.file}: cannot be read: expected text") from error


def _provider(token: str) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        base = importlib.import_module("kafka.net.sasl.oauth").AbstractTokenProvider
    return type("Given", (base,), {"token": lambda _: token})()

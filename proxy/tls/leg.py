"""Makes TLS connections of plain ones for a leg, with the keys that its files had when they were last good.

Knows no Kafka. Invariants: `accept` and `dial` return a connection whose peer was verified as the settings want it, or
they close the plain connection and raise. Each failure is counted, and logged once per peer and reason.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import trio

from ..config.settings_values import can_be_looked_up
from ..quotas.client_entity import ANONYMOUS
from ..quotas.names import glob_of
from ..quotas.units import shown
from .contexts import AcceptedSocket
from .handshakes import ADVICE, HandshakeError, Reason, reason_of, words_of
from .identity import names_of, subject_of

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Sequence

    from ..config.tls_settings import LegSettings
    from ..logs.log import Log
    from .contexts import Loaded
    from .handshakes import Handshakes

MAX_REMEMBERED = 1000
"""The most pairs of peer and reason that are remembered as logged, and the most peers whose handshakes fail. Beyond
them all are forgotten, so some are logged again."""
FAILS_SECONDS = 20.0
"""How long after a failed handshake those with that peer count as failing. A broker that cannot fetch tries again every
second."""
MAX_WARNED = 5
"""The most of those peers that a leg's warnings name."""
SAYS_NOTHING = frozenset({Reason.CLOSED, Reason.TIMEOUT, Reason.CROWDED_OUT})
"""The reasons of someone who dialled us and failed without a word about keys: a health check that only connects."""


class TlsConnection(NamedTuple):
    """A connection that is encrypted from now on: its handshake is done."""

    sock: ssl.SSLSocket
    """A socket in non-blocking mode."""
    asked: str | None
    """The name by which it was dialled, if the peer sent any."""
    refused: Callable[[ssl.SSLError], None]
    """The callback for a first answer of the peer that is an error: in TLS 1.3 a client's certificate is judged after
    the handshake."""


class Leg:
    """The TLS connections of a leg. `loaded` may be replaced at any time: connections that come later use the new
    keys."""

    def __init__(self, settings: LegSettings, loaded: Loaded, handshakes: Handshakes, log: Log) -> None:
        self.settings = settings
        self.loaded = loaded
        self.failures: Counter[Reason] = Counter()
        self.handshakes_done = 0
        self._handshakes = handshakes
        self._log = log
        self._told: set[tuple[str, Reason]] = set()
        self._failing: dict[str, tuple[Reason, float]] = {}
        """The reason and the time of the last failed handshake, by peer."""

    @property
    def warnings(self) -> list[str]:
        """The warnings about peers whose handshakes fail, ready to print."""
        since = trio.current_time() - FAILS_SECONDS
        failing = {peer: reason for peer, (reason, when) in self._failing.items() if when >= since}
        found = [
            f"{self.name}: TLS handshakes with {shown(peer)} fail ({reason.value}): {ADVICE[reason]}"
            for peer, reason in islice(failing.items(), MAX_WARNED)
        ]
        more = len(failing) - len(found)
        return [*found, f"{self.name}: TLS handshakes with {more} others fail"] if more else found

    @property
    def name(self) -> str:
        return self.settings.name

    async def accept(self, plain: socket.socket, *, peer: str, names: Sequence[str] = ()) -> TlsConnection:
        """Shake hands as the server with a peer that dialled us.

        Args:
            plain: taken over.
            peer: who dialled us, for the log.
            names: the names by which peers dial us, as far as they are known; a name asked for by SNI goes before them.

        Raises:
            HandshakeError: it did not succeed.
        """
        shaken = await self._done(self._wrapped(self.loaded.context_for(names), plain, peer), peer)
        if self.settings.allowed_names:
            self._judge(shaken.sock, peer)
        self._succeeded(peer)
        return shaken

    @staticmethod
    def user_of(sock: ssl.SSLSocket) -> str | None:
        """Return the user that a peer which dialled us is by its certificate, as Kafka names it; None if its subject
        cannot be read."""
        certificate = sock.getpeercert(binary_form=True)
        return ANONYMOUS if certificate is None else subject_of(certificate)

    async def dial(self, plain: socket.socket, name: str) -> TlsConnection:
        """Shake hands as the client with a peer that we dialled.

        Args:
            plain: taken over.
            name: host name or IP address that the certificate must have.

        Raises:
            HandshakeError: it did not succeed, or the certificate is not who we dialled.
        """
        shaken = await self._done(self._wrapped(self.loaded.contexts[0], plain, name, name=name), name)
        self._succeeded(name)
        return shaken

    def _succeeded(self, peer: str) -> None:
        self.handshakes_done += 1
        self._failing.pop(peer, None)

    def _judge(self, sock: ssl.SSLSocket, peer: str) -> None:
        """Check the peer's name. Raises HandshakeError: it has none of the names that are allowed."""
        names = names_of(sock.getpeercert(binary_form=True) or b"")
        if any(glob_of(glob.lower()).matches(name.lower()) for name in names for glob in self.settings.allowed_names):
            return
        sock.close()
        error = HandshakeError(Reason.NOT_ALLOWED, f"its names are {', '.join(map(shown, names)) or 'none'}")
        self._count(error, peer)
        raise error

    def _wrapped(
        self, context: ssl.SSLContext, plain: socket.socket, peer: str, *, name: str | None = None
    ) -> ssl.SSLSocket:
        if name is not None and not can_be_looked_up(name):  # asked for by SNI, by a client that was redirected here
            plain.close()
            unusable = HandshakeError(Reason.OTHER, f"no certificate can have the name {shown(name)}")
            self._count(unusable, peer)
            raise unusable
        try:
            return context.wrap_socket(
                plain, server_side=name is None, server_hostname=name, do_handshake_on_connect=False
            )
        except OSError as error:  # it is gone already
            plain.close()
            raise HandshakeError(self._count(error, peer), words_of(error)) from error

    async def _done(self, sock: ssl.SSLSocket, peer: str) -> TlsConnection:
        try:
            await self._handshakes.run(sock)
        except OSError as error:
            sock.close()
            raise HandshakeError(self._count(error, peer), words_of(error)) from error
        except BaseException:
            sock.close()
            raise
        asked = sock.asked if isinstance(sock, AcceptedSocket) else None
        return TlsConnection(sock, asked, lambda error: self._refused(error, peer))

    def _refused(self, error: ssl.SSLError, peer: str) -> None:
        self._count(error, peer)

    def _count(self, error: OSError, peer: str) -> Reason:
        reason = reason_of(error)
        self.failures[reason] += 1
        if not (self.settings.listens and reason in SAYS_NOTHING):
            if len(self._failing) >= MAX_REMEMBERED:
                self._failing.clear()
            self._failing[peer] = reason, trio.current_time()
        if (peer, reason) not in self._told:
            if len(self._told) >= MAX_REMEMBERED:
                self._told.clear()
            self._told.add((peer, reason))
            self._log.warning(
                "tls_handshake_failed",
                leg=self.name,
                peer=peer,
                reason=reason.value,
                error=words_of(error),
                advice=ADVICE[reason],
            )
        return reason

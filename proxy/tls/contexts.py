"""Makes the OpenSSL context of a leg: authorities, certificate, versions and cipher suites.

Blocking: reads files. Invariant: a context is complete when it is returned, and is never altered afterwards; a renewed
certificate is a new context, and open connections keep their own.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..config.tls_settings import KEY_AGREEMENT, ClientAuth
from ..errors import ConfigurationError
from .handshakes import MAX_SMALL_RECORDS, HandshakeError, Reason, comes_in_crumbs
from .identity import read_authorities, read_identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..config.tls_settings import LegSettings
    from .identity import Authorities, Identity

_AUTH = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A leg's files, as they were at one moment.

    identities and contexts: the context at an index presents the identity at that index. There is at least one context;
    a leg that dials may have no identity, and then presents nothing.
    expires: for the leg's own certificates and for its authorities', the POSIX time at which the first of them ends.
    """

    identities: tuple[Identity, ...]
    contexts: tuple[ssl.SSLContext, ...]
    expires: dict[str, float]
    authorities: Authorities | None = None

    def context_for(self, names: Sequence[str]) -> ssl.SSLContext:
        """Return the context for the first of these names that some certificate has; if none has one, the first
        context."""
        for name in names:
            for identity, context in zip(self.identities, self.contexts, strict=False):
                if identity.suits(name):
                    return context
        return self.contexts[0]


def load(settings: LegSettings) -> Loaded:
    """Read all of a leg's files. Raises ConfigurationError."""
    identities = tuple(read_identity(store) for store in settings.keystores)
    authorities = None if settings.truststore is None else read_authorities(settings.truststore)
    trusted = None if authorities is None else authorities.pem
    own: tuple[Identity | None, ...] = identities or (None,)
    expires = {}
    if identities:
        expires["keystore"] = min(identity.expires for identity in identities)
    if authorities is not None:
        expires["truststore"] = authorities.expires
    contexts = tuple(context_of(settings, identity, trusted) for identity in own)
    loaded = Loaded(identities, contexts, expires, authorities)
    if settings.listens:
        for context in contexts:
            context.sslsocket_class = AcceptedSocket
            context.sni_callback = _Choosing(loaded)  # type: ignore[assignment]  # typeshed wants a function
    return loaded


class AcceptedSocket(ssl.SSLSocket):
    """A socket that a listening leg has accepted. `asked` is the name by which the peer dialled, if it said so by
    SNI."""

    asked: str | None = None

    def do_handshake(self, block: bool = False) -> None:
        """Take one step. Raises HandshakeError if the peer's bytes are made to cost OpenSSL much time."""
        if comes_in_crumbs(self):
            raise HandshakeError(
                Reason.OTHER, f"it comes in crumbs: expected at most {MAX_SMALL_RECORDS} small records"
            )
        super().do_handshake(block)


class _Choosing:
    """OpenSSL calls it with the name that a peer asks for by SNI (RFC 6066). If a certificate has that name, it is
    presented."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded

    def __call__(self, sock: AcceptedSocket, name: str | None, _: ssl.SSLContext) -> None:
        sock.asked = name
        if name is not None and any(identity.suits(name) for identity in self._loaded.identities):
            sock.context = self._loaded.context_for([name])


def context_of(settings: LegSettings, identity: Identity | None, trusted: str | None) -> ssl.SSLContext:
    """Make a context that believes the authorities in `trusted` (PEM; None: the system's) and presents `identity`.

    Raises ConfigurationError.
    """
    try:
        return _context(settings, identity, trusted)
    except (ssl.SSLError, OSError, ValueError) as error:
        place = settings.name if identity is None else identity.place
        raise ConfigurationError(f"{place}: OpenSSL refuses it: {getattr(error, 'reason', None) or error}") from error


def _context(settings: LegSettings, identity: Identity | None, trusted: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if settings.listens else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version, context.maximum_version = settings.minimum, settings.maximum
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # Whatever Kafka's truststore holds is trusted, even if it is no root: an authority between, or a broker's
    # certificate.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.listens:
        context.set_ecdh_curve(KEY_AGREEMENT)
        context.verify_mode = _AUTH[settings.client_auth]
    else:
        context.check_hostname = settings.verifies_names
        context.verify_mode = ssl.CERT_REQUIRED
    if settings.ciphers is not None:
        context.set_ciphers(settings.ciphers)
    if trusted is not None:
        context.load_verify_locations(cadata=trusted)
    elif not settings.listens:
        context.load_default_certs()
    if identity is not None:
        with _as_file(identity.pem) as path:
            context.load_cert_chain(path)
    return context


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Return a path to the key, since OpenSSL reads keys from files alone. Where the system has files in memory, the
    key is put into one of those, which no other process can open."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name

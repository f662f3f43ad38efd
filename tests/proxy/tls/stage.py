"""Both ends of a TLS connection in one process: a leg of the sidecar, and who meets it, with keys of an authority."""

from __future__ import annotations

import socket
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from lab.brokers.authority import Authority
from proxy.config.tls_settings import ClientAuth, LegSettings, StoreSettings
from proxy.relay.tls_socket import TlsSocket
from proxy.relay.transport import PlainSocket
from proxy.tls.contexts import load
from proxy.tls.handshakes import Handshakes
from proxy.tls.leg import Leg

from ..recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path


NAME = "kafka-101"
LIMIT_SECONDS = 30.0
"""Of what is to succeed or to fail at once: only a test that hangs takes as long."""
MUTUAL_TLS = """
[ingress.tls.listen]
ssl.keystore.location = "own.pem"
ssl.truststore.location = "ca.pem"
ssl.client.auth = "required"
[ingress.tls.upstream]
ssl.keystore.location = "own.pem"
ssl.truststore.location = "ca.pem"
server_name = "kafka-101"
"""
"""Of proxy.toml in the folder of `Keys`."""
X400_NAME = x509.UnrecognizedExtension(x509.ExtensionOID.SUBJECT_ALTERNATIVE_NAME, bytes.fromhex("3004a3023000"))
"""An alternative name of a kind that OpenSSL takes and cryptography does not read."""


class Keys:
    """An authority with a certificate for `NAME`."""

    def __init__(self, home: Path, *, name: str = "lab") -> None:
        self.home = home
        self.authority = Authority(home, name=name)
        self.own = self.authority.issue("own.pem", [NAME])

    def issue_with(self, file: str, extensions: Iterable[x509.ExtensionType]) -> Path:
        """Write (again) a certificate of this authority that has these extensions alone."""
        path = self.authority.issue(file, [NAME])
        content = path.read_bytes()
        usual, key = x509.load_pem_x509_certificate(content), load_pem_private_key(content, None)
        builder = x509.CertificateBuilder(
            usual.issuer, usual.subject, usual.public_key(), usual.serial_number,
            usual.not_valid_before_utc, usual.not_valid_after_utc,
        )  # fmt: skip
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        signed = builder.sign(self.authority._key, hashes.SHA256())
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.write_bytes(secret + signed.public_bytes(Encoding.PEM))
        return path

    def listen(self, auth: ClientAuth = ClientAuth.NONE, **changed: object) -> LegSettings:
        return self._settings("ingress.listen", client_auth=auth, **changed)

    def upstream(self, **changed: object) -> LegSettings:
        return self._settings("ingress.upstream", **changed)

    def client(self, *, presents: Path | None = None) -> ssl.SSLContext:
        """Of a peer that believes this authority."""
        context = ssl.create_default_context(cafile=self.authority.certificate)
        if presents is not None:
            context.load_cert_chain(presents)
        return context

    def server(self, *, presents: Path | None = None, asks: bool = False) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(presents or self.own)
        if asks:
            context.load_verify_locations(self.authority.certificate)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _settings(self, name: str, **changed: object) -> LegSettings:
        values = {
            "keystores": (StoreSettings(self.own),),
            "truststore": StoreSettings(self.authority.certificate),
        }
        return LegSettings(name, **(values | changed))


def made(settings: LegSettings, *, most: int = 8, seconds: float = LIMIT_SECONDS) -> tuple[Leg, RecordedLog]:
    log = RecordedLog()
    return Leg(settings, load(settings), Handshakes(most, seconds), log), log


def pair() -> tuple[PlainSocket, socket.socket]:
    """(the sidecar's end, the peer's), over TCP as it is."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
    peer.settimeout(LIMIT_SECONDS)
    return PlainSocket(accepted), peer


@asynccontextmanager
async def connected(
    leg: Leg, context: ssl.SSLContext, *, name: str = NAME, session: ssl.SSLSession | None = None
) -> AsyncIterator[tuple[TlsSocket, ssl.SSLSocket]]:
    """The leg accepts, a peer with this context dials; both ends, their handshakes done."""
    plain, peer = pair()
    ends: list[ssl.SSLSocket] = []

    def shake_hands() -> None:
        ends.append(context.wrap_socket(peer, server_hostname=name, session=session))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, shake_hands)
        secured = TlsSocket((await leg.accept(plain.sock, peer="10.0.0.2")).sock)
    try:
        yield secured, ends[0]
    finally:
        secured.close()
        ends[0].close()

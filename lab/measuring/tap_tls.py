"""The ends of a tapped connection that is encrypted: a follower dials the tap as its leader, and the tap dials the
leader.

Knows no Kafka. Invariant: neither end is ever used before the other one's certificate was verified.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_HANDSHAKE_SECONDS = 10.0


class TlsEnd:
    """A connection whose handshake is done, of which one thread reads while another one writes.

    OpenSSL allows only one call at a time for a connection. So no call waits for the peer here: a thread that has to
    wait waits for the socket, without the lock.
    """

    def __init__(self, sock: ssl.SSLSocket) -> None:
        sock.settimeout(0)
        self._sock = sock
        self._lock = threading.Lock()

    def recv_into(self, view: memoryview) -> int:
        while True:
            with self._lock:
                try:
                    return self._sock.recv_into(view)
                except ssl.SSLWantReadError:
                    pass
            select.select([self._sock], [], [])

    def sendall(self, data: memoryview) -> None:
        while data:
            with self._lock:
                try:
                    data = data[self._sock.send(data) :]
                    continue
                except ssl.SSLWantWriteError:
                    pass
            select.select([], [self._sock], [])

    def shutdown(self, how: int) -> None:
        """End the TCP connection's direction. After `SSLSocket.shutdown`, what follows would be read as if it were
        plaintext."""
        socket.socket.shutdown(self._sock, how)

    def close(self) -> None:
        self._sock.close()


@dataclass(frozen=True, slots=True)
class TapKeys:
    """PEM files: what the tap presents to both ends (certificate and key), and the authority that both must be of."""

    certificate: Path
    authority: Path

    def accept(self, sock: socket.socket) -> TlsEnd:
        """Accept a connection by TLS. Raises OSError.

        A follower without a certificate is welcome: it may authenticate by SASL.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        context.load_verify_locations(self.authority)
        context.verify_mode = ssl.CERT_OPTIONAL
        return self._end(context, sock, server_side=True)

    def dial(self, sock: socket.socket, name: str) -> TlsEnd:
        """Dial by TLS. Raises OSError."""
        context = ssl.create_default_context(cafile=self.authority)
        context.load_cert_chain(self.certificate)
        return self._end(context, sock, name=name)

    @staticmethod
    def _end(context: ssl.SSLContext, sock: socket.socket, *, server_side: bool = False, name: str = "") -> TlsEnd:
        sock.settimeout(_HANDSHAKE_SECONDS)
        return TlsEnd(context.wrap_socket(sock, server_side=server_side, server_hostname=name or None))

"""A server of the standard library, in a thread for as long as a test needs it."""

from __future__ import annotations

import ssl
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socketserver
    from collections.abc import Iterator

    from lab.brokers.authority import Authority


@contextmanager
def serving(server: socketserver.TCPServer) -> Iterator[str]:
    """Its URL, while it serves; it is closed then."""
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def encrypt(server: socketserver.TCPServer, authority: Authority, *, wants_certificate: bool = False) -> None:
    """Have it speak TLS, as 127.0.0.1. A handshake is made where a request is handled, not where it is accepted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("server.pem", ["127.0.0.1"]))
    if wants_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority.certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)

"""A server of the standard library, in a thread for as long as a test needs it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socketserver
    from collections.abc import Iterator


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

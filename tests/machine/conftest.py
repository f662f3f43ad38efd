"""What more than one test of a machine asks."""

from __future__ import annotations

import threading
from http.server import HTTPServer
from typing import TYPE_CHECKING

import pytest

from .osv import Osv

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def osv() -> Iterator[str]:
    Osv.asked = []
    with HTTPServer(("127.0.0.1", 0), Osv) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()

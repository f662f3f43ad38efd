from __future__ import annotations

import contextlib
import io
import json
import socket
import ssl
import threading
import time
from typing import TYPE_CHECKING

import pytest

from lab.brokers.authority import Authority
from lab.measuring.tap import Doing, Link, Recorder, serve
from lab.measuring.tap_tls import TapKeys

from ..fetch_bytes import request, response

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Stage:
    """A tap between a leader with a certificate and whoever dials it."""

    def __init__(self, home: Path) -> None:
        self.authority = Authority(home)
        self.sink = io.StringIO()
        own = self.authority.issue("kafka-101.pem", ["kafka-101"])
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(own)
        self._leader = socket.create_server(("127.0.0.1", 0))
        probe = socket.create_server(("127.0.0.1", 0))
        self.place = probe.getsockname()
        probe.close()
        keys = TapKeys(own, self.authority.certificate)
        link = Link(101, self.place, self._leader.getsockname())
        self._listener = serve(link, Recorder(self.sink), Doing(keys=keys))
        self.accepted: ssl.SSLSocket | None = None

    def follow(self) -> ssl.SSLSocket:
        """Dial the tap and accept it as the leader."""
        accepting = threading.Thread(target=self._accept)
        accepting.start()
        context = ssl.create_default_context(cafile=self.authority.certificate)
        follower = context.wrap_socket(socket.create_connection(self.place), server_hostname="kafka-101")
        accepting.join()
        return follower

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for end in (self._listener, self._leader, self.accepted):
            if end is not None:
                end.close()

    def lines(self, count: int) -> list[dict[str, object]]:
        deadline = time.monotonic() + 5
        while len(self.sink.getvalue().splitlines()) < count and time.monotonic() < deadline:
            time.sleep(0.001)
        return [json.loads(line) for line in self.sink.getvalue().splitlines()]

    def _accept(self) -> None:
        plain, _ = self._leader.accept()
        self.accepted = self._context.wrap_socket(plain, server_side=True)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path / "tls")
    yield made
    made.close()


def received(end: ssl.SSLSocket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size and (chunk := end.recv(65536)):
        found += chunk
    return bytes(found)


def test_every_byte_passes_and_is_understood(stage: Stage) -> None:
    asked, answered = request(3, 1), response(3, 1, {"orders": [(0, b"r" * 3_000_000)]})
    with stage.follow() as follower:
        leader = stage.accepted
        assert leader is not None
        follower.sendall(asked)
        assert received(leader, len(asked)) == asked
        sending = threading.Thread(target=leader.sendall, args=(answered,))
        sending.start()
        assert received(follower, len(answered)) == answered
        sending.join()
        assert [line["kind"] for line in stage.lines(2)] == ["request", "response"]


def test_who_speaks_plaintext_is_refused_and_that_is_written_down(stage: Stage) -> None:
    with socket.create_connection(stage.place) as follower:
        follower.settimeout(5)
        follower.sendall(request(3, 1))
        with contextlib.suppress(ConnectionResetError):
            # OpenSSL says why by an alert in plaintext: nothing of a leader's.
            assert len(follower.recv(100)) < 20
        assert [line["kind"] for line in stage.lines(1)] == ["refused"]

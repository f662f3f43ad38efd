"""The leader and the follower, both in Python's own TLS: what they cost is the same for every way.

Invariant: a connection of theirs is TLS 1.3 with AES-256-GCM, by an OpenSSL configuration of their own, since Python
has no call that chooses among the suites of TLS 1.3.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import sys
import threading
from typing import TYPE_CHECKING, NoReturn

from ..byte_path.answers import response
from ..byte_path.loads import CORRELATION_ID_AT, PREFIX_BYTES, SMALL, TOPIC, Load
from .ways import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BULK = Load("10 x 1 MB", 10, 1_000_000)
CIPHER = "TLS_AES_256_GCM_SHA384"
READ_BYTES = 256 * 1024
_INT32 = struct.Struct(">i")
_OPENSSL = f"""
openssl_conf = conf
[conf]
ssl_conf = ssl
[ssl]
system_default = default
[default]
Ciphersuites = {CIPHER}
"""


def openssl_environment(home: Path) -> dict[str, str]:
    """Return the environment of a process whose connections are to have `CIPHER` and no other."""
    config = home / "openssl.cnf"
    config.write_text(_OPENSSL)
    return os.environ | {"OPENSSL_CONF": str(config)}


def serve(home: Path) -> NoReturn:
    """Run the leader in a process of its own: prints its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(home / "own.pem")
    answers = {load.partitions: b"".join(response(3, list(_wanted(load)))) for load in (BULK, SMALL)}
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=_serve, args=(context, sock, answers), daemon=True).start()


def _wanted(load: Load) -> Iterator[tuple[str, int, int]]:
    return ((f"{TOPIC}{load.record_bytes}", number, load.record_bytes) for number in range(load.partitions))


def _serve(context: ssl.SSLContext, plain: socket.socket, answers: dict[int, bytes]) -> None:
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sizes = {len(load.request()): load.partitions for load in (BULK, SMALL)}
    own: dict[int, bytearray] = {}
    try:
        with context.wrap_socket(plain, server_side=True) as sock:
            while request := sock.recv(READ_BYTES):
                partitions = sizes[len(request)]
                answer = own.setdefault(partitions, bytearray(answers[partitions]))
                answer[PREFIX_BYTES : PREFIX_BYTES + 4] = request[CORRELATION_ID_AT : CORRELATION_ID_AT + 4]
                sock.sendall(answer)
    except (OSError, KeyError):
        return


class Follower:
    """Fetches again and again. Raises OSError (ssl.SSLError is one) where it cannot connect or is cut off."""

    def __init__(self, context: ssl.SSLContext, port: int) -> None:
        plain = socket.create_connection(("127.0.0.1", port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = context.wrap_socket(plain, server_hostname=NAME)
        self.cipher = str((self._sock.cipher() or ("none",))[0])
        self._space: memoryview | None = None
        self._number = 0

    def fetch(self, load: Load) -> int:
        """Return the bytes of its answer."""
        space = self._space = self._space or memoryview(bytearray(READ_BYTES))
        self._number += 1
        request = bytearray(load.request())
        _INT32.pack_into(request, CORRELATION_ID_AT, self._number)
        self._sock.sendall(request)
        came = self._received(space)
        size: int = PREFIX_BYTES + _INT32.unpack_from(space)[0]
        while came < size:
            came += self._received(space)
        return size

    def close(self) -> None:
        self._sock.close()

    def _received(self, space: memoryview) -> int:
        came = self._sock.recv_into(space)
        if not came:
            raise ConnectionError("the relay closed the connection")
        return came


def follower_context(home: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=home / "ca.pem")
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context

"""A well-behaved follower and its leader, relayed by the sidecar that is attacked: whoever else notices, they must not.

    python -m fuzz.stage.victim '{"versions": {"ingress": 3, "egress": 12}}'

A process of its own, so that nothing but the sidecar can make it wait. Its first line of output says where its leaders
listen; a line of input says where the sidecar is; from then on it prints, four times a second, what every pair met.
Each pair fetches every few milliseconds, checks each byte of each answer and times it; /healthz is asked for beside.

The leader behind an ingress is everybody's: a connection there that does not begin as the victim's is handed over, as
a file descriptor, to whoever plays the leader of the attackers.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import struct
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from protocol.errors import ProtocolError
from protocol.fetch.request import parse_fetch_request

from ..cases import known_frames

PAUSE_SECONDS = 0.005
HEALTH_PAUSE_SECONDS = 0.25
REPORT_SECONDS = 0.25
CONNECT_SECONDS = 5.0
GIVE_UP_SECONDS = 30.0
HEALTH_SECONDS = 5.0
PREFIX_BYTES = 4
MAX_BYTES = 64 * 1024
_INT32 = struct.Struct(">i")
_HEALTHZ = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
BEGINS_AS = known_frames.CLIENT_ID.encode()
PEEKED_BYTES = 64


@dataclass(slots=True)
class Met:
    """The counts of one pair (or of the requests for /healthz) since the last line of output. Times in microseconds."""

    took_us: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    asked_at: float | None = None
    """The time (time.monotonic) at which what is unanswered now was asked."""

    def told(self, now: float) -> dict[str, Any]:
        """Return its counts, and reset them."""
        took, self.took_us = self.took_us, []
        wrong, self.wrong = self.wrong, []
        lost, self.lost = self.lost, []
        pending = self.asked_at
        return {
            "took_us": took, "wrong": wrong, "lost": lost,
            "pending_us": 0 if pending is None else int((now - pending) * 1e6),
        }  # fmt: skip


class Follower(threading.Thread):
    """Fetches for ever, over one connection as long as that lasts."""

    def __init__(self, name: str, version: int, port: int) -> None:
        super().__init__(name=name, daemon=True)
        self.met = Met()
        self._version, self._port = version, port

    def run(self) -> None:
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self._port), CONNECT_SECONDS) as sock:
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    sock.settimeout(GIVE_UP_SECONDS)
                    self._fetch_on(sock)
            except OSError as error:
                self.met.lost.append(f"{type(error).__name__}: {error}")
            finally:
                self.met.asked_at = None
            time.sleep(20 * PAUSE_SECONDS)

    def _fetch_on(self, sock: socket.socket) -> None:
        correlation_id = 0
        while True:
            correlation_id += 1
            expected = known_frames.answer(self._version, correlation_id)
            began = self.met.asked_at = time.monotonic()
            sock.sendall(known_frames.request(self._version, correlation_id))
            found = _exactly(sock, len(expected))
            took = time.monotonic() - began
            self.met.asked_at = None
            self.met.took_us.append(int(took * 1e6))
            if found != expected:
                self.met.wrong.append(f"fetch {correlation_id}: {_difference(expected, found)}")
                raise ConnectionError("an answer is wrong")
            time.sleep(PAUSE_SECONDS)


class Leader(threading.Thread):
    """Answers one connection, and checks what is asked there."""

    def __init__(self, sock: socket.socket, version: int, met: Met) -> None:
        super().__init__(daemon=True)
        self._sock, self._version, self._met = sock, version, met

    def run(self) -> None:
        with self._sock as sock, contextlib.suppress(OSError):
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                size = _INT32.unpack(_exactly(sock, PREFIX_BYTES))[0]
                if not 0 < size <= MAX_BYTES:
                    self._met.wrong.append(f"the leader was sent a length prefix of {size}")
                    return
                problem, correlation_id = asked_wrongly(_exactly(sock, size), self._version)
                if problem:
                    self._met.wrong.append(problem)
                    return
                sock.sendall(known_frames.answer(self._version, correlation_id))


def asked_wrongly(frame: bytes, version: int) -> tuple[str, int]:
    """Return the fault of a request that the sidecar sent on ("" if it has none), and its correlation id."""
    try:
        request = parse_fetch_request(frame)
    except ProtocolError as error:
        return f"the leader was sent what is no Fetch: {error}", 0
    head = request.head
    wanted = {
        partition: known_frames.fetch_offset(partition, head.correlation_id)
        for partition in range(known_frames.PARTITIONS)
    }
    found = {entry.partition: entry.fetch_offset for entry in request.entries}
    if (head.api_version, head.client_id, request.replica_id) != (
        version,
        known_frames.CLIENT_ID,
        known_frames.REPLICA_ID,
    ):
        return f"the leader was sent another's head: {head}, replica {request.replica_id}", 0
    if found != wanted:
        return f"fetch {head.correlation_id}: the leader was asked for {found} instead of {wanted}", 0
    return "", head.correlation_id


class Door(threading.Thread):
    """A thread that listens where the leaders do.

    What is not the victim's is handed over through `strangers`, if anybody takes it.
    """

    def __init__(self, version: int, met: Met, strangers: socket.socket | None) -> None:
        super().__init__(daemon=True)
        self._version, self._met, self._strangers = version, met, strangers
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._listener.settimeout(0)
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)

    def run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                sock = key.fileobj
                if sock is self._listener:
                    self._accept()
                elif isinstance(sock, socket.socket):
                    self._selector.unregister(sock)
                    self._lead(sock)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._listener.accept()
            sock.settimeout(0)
            self._selector.register(sock, selectors.EVENT_READ)

    def _lead(self, sock: socket.socket) -> None:
        """Pass a connection to its leader, chosen by the client id in its first bytes."""
        try:
            begins = sock.recv(PEEKED_BYTES, socket.MSG_PEEK)
        except OSError:
            begins = b""
        if BEGINS_AS in begins:
            Leader(sock, self._version, self._met).start()
            return
        with sock:
            if begins and self._strangers is not None:
                with contextlib.suppress(OSError):
                    socket.send_fds(self._strangers, [b"s"], [sock.fileno()])


class Health(threading.Thread):
    """Asks for /healthz again and again, on a new connection each time."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.met = Met()
        self._port = port

    def run(self) -> None:
        while True:
            began = self.met.asked_at = time.monotonic()
            try:
                with socket.create_connection(("127.0.0.1", self._port), HEALTH_SECONDS) as sock:
                    sock.settimeout(HEALTH_SECONDS)
                    sock.sendall(_HEALTHZ)
                    said = sock.recv(MAX_BYTES)
                if b" 200 " not in said[:16]:
                    self.met.wrong.append(f"/healthz said {said[:40]!r}")
            except OSError as error:
                self.met.lost.append(f"/healthz: {type(error).__name__}: {error}")
            else:
                self.met.took_us.append(int((time.monotonic() - began) * 1e6))
            self.met.asked_at = None
            time.sleep(HEALTH_PAUSE_SECONDS)


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        received = sock.recv(size - len(data))
        if not received:
            raise ConnectionError(f"closed after {len(data)} of {size} bytes")
        data += received
    return bytes(data)


def _difference(expected: bytes, found: bytes) -> str:
    at = next(n for n, (one, other) in enumerate(zip(expected, found, strict=True)) if one != other)
    return f"from byte {at} on {found[at : at + 16].hex()} instead of {expected[at : at + 16].hex()}"


def main(order: dict[str, Any], strangers: socket.socket | None) -> None:
    """Listen, be told where the sidecar is, fetch and report until standard input ends."""
    versions: dict[str, int] = order["versions"]
    leading = {name: Met() for name in versions}
    doors = {name: Door(versions[name], leading[name], strangers if name == "ingress" else None) for name in versions}
    for door in doors.values():
        door.start()
    _say({name: door.port for name, door in doors.items()})
    ports = json.loads(sys.stdin.readline())
    followers = {name: Follower(name, versions[name], ports[name]) for name in versions}
    health = Health(ports["http"])
    for thread in (*followers.values(), health):
        thread.start()
    ending = threading.Event()

    def wait_end() -> None:
        sys.stdin.read()
        ending.set()

    threading.Thread(target=wait_end, daemon=True).start()
    while not ending.wait(REPORT_SECONDS):
        now = time.monotonic()
        told: dict[str, Any] = {name: follower.met.told(now) for name, follower in followers.items()}
        for name, met in leading.items():
            told[name]["wrong"] += met.told(now)["wrong"]
        _say({"now": now, "healthz": health.met.told(now), **told})


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def given_strangers(argument: str | None) -> socket.socket | None:
    """Return the socket that was inherited under this descriptor."""
    return None if argument is None else socket.socket(fileno=int(argument))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), given_strangers(sys.argv[2] if len(sys.argv) > 2 else None))

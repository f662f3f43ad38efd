"""The measuring relay between brokers: passes every byte at once and writes down what each Fetch carried.

A process of its own (`python -m lab.measuring.tap --output FILE --link 101=127.0.0.1:9092@127.0.0.2:9092 ...`): it
neither slows down what it measures nor is slowed down by it. One thread per direction; big chunks, no copies. Knows
nothing of quotas. Invariant: every byte goes on, even if it cannot be understood (then one `undecoded` line says so),
and answers go on before they are looked at.

Lines written, times on CLOCK_MONOTONIC in seconds:
`{"t":1.2,"kind":"request","leader":101,"follower":102,"version":3,"bytes":90}` as a replica's Fetch request arrives,
`{"t":1.3,"kind":"response",...,"bytes":8388650,"partitions":[["orders",0,1048576]],"error":0,"session":0}` as its
answer ends; the last two are the fetch session's (v7+), and from v13 on a topic is its id.

With `--certificate FILE --authority FILE` both ends of every connection are TLS.
With `--garble FILE` it can do harm, once each time that FILE is made: the next replica's Fetch request goes on in a
unknown version, `{"t":1.4,"kind":"garbled","leader":101}` is written, and FILE is gone.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import socket
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from ..wire.fetch_stream import API_FETCH, FetchLink
from .tap_tls import TapKeys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CHUNK_BYTES = 1 << 20
_CONNECT_SECONDS = 5.0
_SIZE_AND_KEY = struct.Struct(">ih")
_VERSION_AT = _SIZE_AND_KEY.size
_UNKNOWN_VERSION = (99).to_bytes(2)
_INT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Link:
    """The addresses of one leader's tap: where it listens and where it goes on to."""

    leader: int
    listen: tuple[str, int]
    upstream: tuple[str, int]

    @classmethod
    def parse(cls, text: str) -> Link:
        """Parse a link such as `101=127.0.0.1:9092@127.0.0.2:9092`. Raises ValueError."""
        leader, _, addresses = text.partition("=")
        listen, _, upstream = addresses.partition("@")
        return cls(int(leader), _address(listen), _address(upstream))

    def __str__(self) -> str:
        (host, port), (upstream, upstream_port) = self.listen, self.upstream
        return f"{self.leader}={host}:{port}@{upstream}:{upstream_port}"


class Recorder:
    """Writes one line per event; shared by all threads."""

    def __init__(self, sink: TextIO) -> None:
        self._sink = sink
        self._lock = threading.Lock()

    def write(self, **fields: object) -> None:
        line = json.dumps({"t": round(time.monotonic(), 6), **fields}, separators=(",", ":"))
        with self._lock:
            self._sink.write(line + "\n")
            self._sink.flush()


class End(Protocol):
    """A connection to one side, encrypted or not."""

    def recv_into(self, view: memoryview, /) -> int: ...
    def sendall(self, data: memoryview, /) -> None: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Doing:
    """The interference that a tap is told to cause, besides passing bytes on.

    garble: while there is such a file, the next replica's Fetch request is garbled.
    keys: what passes is encrypted, and this opens it; None: it is not.
    """

    garble: Path | None = None
    keys: TapKeys | None = None


class TappedConnection:
    """One accepted connection and its own connection to the leader."""

    def __init__(self, link: Link, accepted: socket.socket, recorder: Recorder, doing: Doing) -> None:
        self._leader = link.leader
        self._garble = doing.garble
        self._keys = doing.keys
        self._recorder = recorder
        upstream = socket.create_connection(link.upstream, timeout=_CONNECT_SECONDS)
        upstream.settimeout(None)
        for end in (accepted, upstream):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._accepted: End = accepted
        self._upstream: End = upstream
        self._frames = FetchLink()

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._encrypt()
        except OSError as error:
            self._recorder.write(kind="refused", leader=self._leader, reason=str(error))
            self._accepted.close()
            self._upstream.close()
            return
        responses = threading.Thread(
            target=self._pump, args=(self._upstream, self._accepted, self._responses), daemon=True
        )
        responses.start()
        self._pump(self._accepted, self._upstream, self._requests)
        responses.join()
        self._accepted.close()
        self._upstream.close()

    def _encrypt(self) -> None:
        keys, accepted, upstream = self._keys, self._accepted, self._upstream
        if keys is not None and isinstance(accepted, socket.socket) and isinstance(upstream, socket.socket):
            self._accepted = keys.accept(accepted)
            self._upstream = keys.dial(upstream, f"kafka-{self._leader}")

    def _pump(self, source: End, target: End, look: Callable[[memoryview], None]) -> None:
        chunk = memoryview(bytearray(_CHUNK_BYTES))
        # A request is looked at before it goes on, or its answer could come first. An answer goes on before it is
        # looked at.
        look_first, watching = source is self._accepted, True
        with contextlib.suppress(OSError):
            while size := source.recv_into(chunk):
                if look_first:
                    watching = watching and self._look(look, chunk[:size])
                target.sendall(chunk[:size])
                if not look_first:
                    watching = watching and self._look(look, chunk[:size])
        for end in (source, target):
            # Both directions are closed at once: a broker never half-closes, and a fetcher has to notice the loss.
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _look(self, look: Callable[[memoryview], None], chunk: memoryview) -> bool:
        try:
            look(chunk)
        except (ValueError, UnicodeDecodeError) as error:
            self._recorder.write(kind="undecoded", leader=self._leader, reason=str(error))
            return False
        return True

    def _requests(self, chunk: memoryview) -> None:
        for asked in self._frames.request_bytes(chunk):
            if asked.replica_id != -1:
                self._recorder.write(
                    kind="request", leader=self._leader, follower=asked.replica_id, version=asked.api_version,
                    bytes=asked.request_bytes,
                )  # fmt: skip
                if self._garble is not None and self._garble.exists():
                    self._garble_request(self._garble, chunk)

    def _garble_request(self, wanted: Path, chunk: memoryview) -> None:
        """Damage the request, if the chunk is one Fetch request and nothing else, which is how followers send them."""
        if len(chunk) > _SIZE_AND_KEY.size:
            size, api_key = _SIZE_AND_KEY.unpack_from(chunk)
            if api_key == API_FETCH and size + _INT_BYTES == len(chunk):
                chunk[_VERSION_AT : _VERSION_AT + 2] = _UNKNOWN_VERSION
                wanted.unlink(missing_ok=True)
                self._recorder.write(kind="garbled", leader=self._leader)

    def _responses(self, chunk: memoryview) -> None:
        for answer in self._frames.response_bytes(chunk):
            if answer.replica_id != -1:
                self._recorder.write(
                    kind="response", leader=self._leader, follower=answer.replica_id,
                    version=answer.api_version, bytes=answer.response_bytes, partitions=answer.partitions,
                    error=answer.session.error_code, session=answer.session.id,
                )  # fmt: skip


def serve(link: Link, recorder: Recorder, doing: Doing | None = None) -> socket.socket:
    """Listen for one leader, in threads, until the returned listener is shut down.

    Args:
        link: of whom, and where.
        recorder: of what passes.
        doing: what is done besides passing it on.

    Raises:
        OSError: the address is taken.
    """
    listener = socket.create_server(link.listen, backlog=64)
    threading.Thread(target=_accept, args=(listener, link, recorder, doing or Doing()), daemon=True).start()
    return listener


def _accept(listener: socket.socket, link: Link, recorder: Recorder, doing: Doing) -> None:
    while True:
        try:
            accepted, _ = listener.accept()
        except OSError:
            return
        try:
            TappedConnection(link, accepted, recorder, doing).start()
        except OSError as error:
            recorder.write(kind="refused", leader=link.leader, reason=str(error))
            accepted.close()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the tap: the entry point of `python -m lab.measuring.tap`."""
    parser = argparse.ArgumentParser(prog="python -m lab.measuring.tap", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="JSON lines are appended here")
    parser.add_argument("--link", type=Link.parse, action="append", required=True, metavar="ID=LISTEN@UPSTREAM")
    parser.add_argument("--garble", type=Path, help="while FILE exists, the next request is garbled", metavar="FILE")
    parser.add_argument("--certificate", type=Path, help="PEM: key and certificate that both ends are shown")
    parser.add_argument("--authority", type=Path, help="PEM: whose certificates both ends have")
    options = parser.parse_args(arguments)
    keys = TapKeys(options.certificate, options.authority) if options.certificate else None
    with options.output.open("a", encoding="utf-8") as sink:
        recorder = Recorder(sink)
        for link in options.link:
            serve(link, recorder, Doing(options.garble, keys))
        recorder.write(kind="listening")
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main()

"""A leader that costs next to nothing: an answer that it has given before is sent from a file in memory.

    python -m benchmarks.byte_path.leader

A process of its own; its port is the one line it prints. It answers what it is asked, as a broker does: what a proxy
leaves out of a request, or asks for with a lower limit, is left out of the answer, too. One blocking thread per
connection: a thread that waits in the kernel until a whole frame is sent costs less than any event loop.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from protocol.errors import ProtocolError
from protocol.fetch.request import FetchRequest, parse_fetch_request

from .answers import MIN_BATCH_BYTES, response
from .loads import CORRELATION_ID_AT, KAFKA_BUFFERS, PREFIX_BYTES, records_of

if TYPE_CHECKING:
    import io

SOCKET_BUFFER_BYTES = 100 * 1024
"""A broker's socket.send.buffer.bytes and socket.receive.buffer.bytes."""
COPIED_BYTES = 16 * 1024
"""The bytes of an answer that are sent from memory, because the correlation id is in them. The rest goes by
sendfile."""
KEPT_ANSWERS = 64
SMALL_BYTES = 1024
MAX_PARTS = 1000
"""IOV_MAX is 1024."""
AFTER_ID = CORRELATION_ID_AT - PREFIX_BYTES + 4
RECEIVE_BYTES = 256 * 1024
_INT32 = struct.Struct(">i")


class Answer(NamedTuple):
    """One response of a leader. It is in parts, of which the first has the correlation id; or its beginning is here and
    the rest in a file.

    The file is closed when nobody sends it any more.
    """

    start: bytes
    parts: list[bytes]
    file: io.FileIO | None
    rest: int
    wait_seconds: float

    def sealed(self) -> Answer:
        """Return the same, in a file but for its beginning."""
        if self.file is not None or not self.parts:
            return self
        frame = self.start + b"".join(self.parts)
        file = os.fdopen(os.memfd_create("answer", os.MFD_CLOEXEC), "w+b", buffering=0)
        left = memoryview(frame)[COPIED_BYTES:]
        while left:
            left = left[file.write(left) :]
        return self._replace(start=frame[:COPIED_BYTES], parts=[], file=file, rest=file.tell())


class Answers:
    """The last answers, by the request that they were for; shared by all connections."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, Answer] = OrderedDict()
        self._lock = threading.Lock()

    def to(self, frame: bytes) -> Answer:
        """Return the answer to `frame`, a request without its length prefix. A request that comes again gets a sealed
        answer."""
        asked = frame[AFTER_ID:]
        with self._lock:
            found = self._kept.pop(asked, None)
            answer = self._kept[asked] = answer_to(parse_fetch_request(frame)) if found is None else found.sealed()
            if len(self._kept) > KEPT_ANSWERS:
                self._kept.popitem(last=False)
            return answer


def answer_to(request: FetchRequest) -> Answer:
    """Answer a request as a broker does: where no batch fits into a limit, the first partition that has one brings all
    of it and the others nothing (KIP-74). So a replica that is asked for one byte rarely brings records."""
    left, entries, empty = request.max_bytes, [], True
    for entry in request.entries:
        there = records_of(entry.topic)
        size = min(there, entry.partition_max_bytes, left)
        if size < MIN_BATCH_BYTES:
            size = there if empty else 0
        left = max(left - size, 0)
        empty = empty and not size
        entries.append((entry.topic, entry.partition, size))
    start, parts = _begin(response(request.head.api_version, entries))
    return Answer(start, parts, None, 0, request.max_wait_ms / 1000 if empty else 0.0)


def _begin(parts: list[bytes]) -> tuple[bytes, list[bytes]]:
    """Gather small parts: a part of some bytes costs as much to send as one of some thousand."""
    gathered: list[bytearray | bytes] = [bytearray()]
    for part in parts:
        last = gathered[-1]
        if len(part) > SMALL_BYTES:
            gathered.append(part)
        elif isinstance(last, bytearray):
            last += part
        else:
            gathered.append(bytearray(part))
    first, *rest = (bytes(part) for part in gathered)
    return first, rest


def serve(sock: socket.socket, answers: Answers) -> None:
    """Answer one connection until it ends."""
    with sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        first = True
        try:
            while (frame := _receive(sock)) is not None:
                if first and KAFKA_BUFFERS.encode() in frame[:64]:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BUFFER_BYTES)
                first = False
                _send(sock, answers.to(frame), frame[AFTER_ID - 4 : AFTER_ID])
        except (ConnectionError, ProtocolError):
            return  # a sidecar that asks for Metadata, once a minute, gets none


def _receive(sock: socket.socket) -> bytes | None:
    """Receive the next frame without its length prefix: a follower has one request in flight, so nothing comes after
    it."""
    data = sock.recv(RECEIVE_BYTES)
    while data:
        if len(data) >= PREFIX_BYTES and len(data) == PREFIX_BYTES + _INT32.unpack_from(data)[0]:
            return data[PREFIX_BYTES:]
        more = sock.recv(RECEIVE_BYTES)
        if not more:
            break
        data += more
    return None


def _send(sock: socket.socket, answer: Answer, correlation_id: bytes) -> None:
    if answer.wait_seconds:
        time.sleep(answer.wait_seconds)
    start = bytearray(answer.start)
    start[PREFIX_BYTES : PREFIX_BYTES + 4] = correlation_id
    parts: list[bytes | bytearray] = [start, *answer.parts]
    for begin in range(0, len(parts), MAX_PARTS):
        some = parts[begin : begin + MAX_PARTS]
        sent = sock.sendmsg(some)
        if sent < sum(map(len, some)):
            sock.sendall(b"".join(some)[sent:])
    at = 0
    while answer.file is not None and at < answer.rest:
        at += os.sendfile(sock.fileno(), answer.file.fileno(), at, answer.rest - at)


def main() -> None:
    """Listen on a free port of loopback, print it, serve until killed."""
    answers = Answers()
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=serve, args=(sock, answers), daemon=True).start()


if __name__ == "__main__":
    main()

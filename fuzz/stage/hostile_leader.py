"""The leader of the attackers: it answers as the case says, or else as a leader would.

It stands behind the egress of its own, and behind the ingress for whoever is not the victim: those connections come as
file descriptors (SCM_RIGHTS). Whose connection it is says the client id of the first request that it can read.
Invariant: a connection lasts a bounded time, and what a sidecar sends here is read, so that none waits for us.
"""

from __future__ import annotations

import functools
import socket
import struct
from typing import TYPE_CHECKING

import trio

from protocol.errors import ProtocolError
from protocol.fetch.request import parse_fetch_request
from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS, response_layout
from protocol.metadata import METADATA_VERSION
from protocol.wire.apis import API_FETCH, API_METADATA, API_VERSIONS, is_flexible
from protocol.wire.headers import peek_request
from protocol.wire.layout import TAGS

from ..cases.delivery import send_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..cases.case import Case

CONNECTION_SECONDS = 10.0
MAX_BYTES = 4 * 1024 * 1024
MAX_DESCRIPTORS = 16
READ_BYTES = 64 * 1024
KNOWN_CASES = 2000
KNOWN_ANSWERS = 64
_INT32 = struct.Struct(">i")
_KNOWN = struct.pack(">hihhh", 0, 1, API_METADATA, 0, METADATA_VERSION)
"""The body of an answer to ApiVersions: it may be asked for Metadata, in versions as far as `metadata_answers` are."""


class StrangeLeader:
    """`cases`: those that may come, by their names; the oldest are forgotten."""

    def __init__(self) -> None:
        self._cases: dict[str, Case] = {}
        self.metadata_answers: Iterator[bytes] | None = None
        """The answers to Metadata requests, without the length prefix; None: it closes the connection."""
        self.answered = 0

    def expect(self, case: Case) -> None:
        """Expect a connection with this case's name."""
        if case.answers:
            self._cases[case.name] = case
            if len(self._cases) > KNOWN_CASES:
                del self._cases[next(iter(self._cases))]

    async def run(self, listener: trio.SocketListener) -> None:
        """Serve until cancelled."""
        await trio.serve_listeners(self._serve, [listener])

    async def take_in(self, handed_over: socket.socket) -> None:
        """Serve the connections that the victim's leader is not meant by, until cancelled."""
        handed_over.settimeout(0)
        async with trio.open_nursery() as nursery:
            while True:
                await trio.lowlevel.wait_readable(handed_over)
                _, descriptors, _, _ = socket.recv_fds(handed_over, MAX_DESCRIPTORS, MAX_DESCRIPTORS)
                for descriptor in descriptors:
                    sock = trio.socket.from_stdlib_socket(socket.socket(fileno=descriptor))
                    nursery.start_soon(self._serve, trio.SocketStream(sock))

    async def _serve(self, stream: trio.SocketStream) -> None:
        with trio.move_on_after(CONNECTION_SECONDS), stream.socket:
            try:
                await self._lead(stream)
            except (OSError, ProtocolError, trio.BrokenResourceError, trio.ClosedResourceError):
                return

    async def _lead(self, stream: trio.SocketStream) -> None:
        answers: Iterator[tuple[bytes, ...]] | None = None
        data = bytearray()
        while chunk := await stream.receive_some(READ_BYTES):
            data += chunk
            while (frame := _taken(data)) is not None:
                if answers is None:
                    case = self._case_of(frame)
                    answers = iter(case.answers if case is not None else ())
                answer = next(answers, None)
                for part in self._sensible(frame) if answer is None else answer:
                    await send_all(stream.socket, part)
                    await trio.lowlevel.checkpoint()
                self.answered += answer is not None

    def _case_of(self, frame: bytes) -> Case | None:
        head = peek_request(frame, 0, len(frame))
        return None if head is None or head.client_id is None else self._cases.get(head.client_id)

    def _sensible(self, frame: bytes) -> tuple[bytes, ...]:
        """Return the answer of a leader that has nothing new; nothing at all to a request that it does not know.

        Raises ProtocolError.
        """
        head = peek_request(frame, 0, len(frame))
        if head is None:
            raise ProtocolError("no header")
        body = b""
        if head.api_key == API_VERSIONS:
            body = _KNOWN
        elif head.api_key == API_METADATA and self.metadata_answers is not None:
            body = next(self.metadata_answers, b"")
        elif head.api_key == API_FETCH and head.api_version in SUPPORTED_FETCH_VERSIONS:
            body = empty_answer(frame)
        flexible = is_flexible(head.api_key, head.api_version) and head.api_key != 18
        answer = _INT32.pack(head.correlation_id) + (b"\0" if flexible else b"") + body
        return (_INT32.pack(len(answer)) + answer,)


@functools.lru_cache(maxsize=KNOWN_ANSWERS)
def empty_answer(frame: bytes) -> bytes:
    """Return the body of an answer without records to the Fetch that is in `frame`. Raises ProtocolError.

    Those who are greedy ask for the same again and again, and a quarter of a second for 25 000 partitions would spare
    the sidecar most of what they send.
    """
    request = parse_fetch_request(frame)
    version = request.head.api_version
    blocks: list[dict[str, object]] = []
    entries: list[dict[str, object]] = []
    last = None
    for entry in request.entries:
        if entry.topic != last:
            last, entries = entry.topic, []
            blocks.append({"topic": last, "topic_id": last, "partitions": entries, TAGS: []})
        entries.append({
            "partition_index": entry.partition, "error_code": 0, "high_watermark": 10**9, "last_stable_offset": -1,
            "log_start_offset": 0, "aborted_transactions": None, "preferred_read_replica": -1, "records": b"",
            TAGS: [],
        })  # fmt: skip
    body = {"throttle_time_ms": 0, "error_code": 0, "session_id": 0, "responses": blocks, TAGS: []}
    return bytes(response_layout(version).build(body))


def _taken(data: bytearray) -> bytes | None:
    """Return the next whole frame, having taken it out of `data`. Raises ProtocolError for a length that is none."""
    if len(data) < _INT32.size:
        return None
    (size,) = _INT32.unpack_from(data)
    if not 0 <= size <= MAX_BYTES:
        raise ProtocolError(f"a frame of {size} bytes")
    if len(data) < _INT32.size + size:
        return None
    frame = bytes(data[_INT32.size : _INT32.size + size])
    del data[: _INT32.size + size]
    return frame

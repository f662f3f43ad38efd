"""Reads Kafka frames as they stream by and says what each Fetch was about, never keeping the bytes.

Sans-I/O and without a clock. Understands Fetch v0-v18 entry by entry (`lab.wire.fetch_frames`); of later versions it
reports the size of the whole response only.
Invariant: whatever is fed, the reader stays on frame boundaries; it raises ValueError on a frame that lies.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from .fetch_frames import (
    FIRST_FLEXIBLE,
    HIDDEN_REPLICA,
    LAST_VERSION,
    Session,
    answer_head,
    answered_partitions,
    replica_of,
)

if TYPE_CHECKING:
    from collections.abc import Generator

    from .fetch_frames import Read

API_FETCH = 1
NO_SESSION = Session(0, 0)
MAX_REQUEST_BYTES = 16 << 20

_REQUEST = struct.Struct(">ihhih")  # size, api key, api version, correlation id, client id length
_RESPONSE = struct.Struct(">ii")  # size, correlation id
_INT = struct.Struct(">i")


class FetchRequested(NamedTuple):
    api_version: int
    correlation_id: int
    replica_id: int
    """The broker id of the follower; -1 for a consumer, -2 for a version that is not understood."""
    request_bytes: int = 0
    """The size on the wire, length prefix included."""


class FetchAnswered(NamedTuple):
    api_version: int
    replica_id: int
    partitions: list[tuple[str, int, int]]
    """The triples (topic, partition, record bytes) of every entry that carries records; from v13 on the topic is its
    id."""
    response_bytes: int
    session: Session = NO_SESSION


class StreamReader:
    """Drives a generator that asks for its next bytes; `feed` serves it from whatever chunks arrive."""

    def __init__(self, frames: Generator[Read, bytes, None]) -> None:
        self._frames = frames
        self._need, self._wanted = next(frames)
        self._held = bytearray()

    def feed(self, chunk: memoryview) -> None:
        at, end = 0, len(chunk)
        while at < end:
            missing = self._need - len(self._held) if self._wanted else self._need
            if end - at < missing:
                if self._wanted:
                    self._held += chunk[at:]
                else:
                    self._need -= end - at
                return
            at += self._serve(chunk, at, missing)

    def _serve(self, chunk: memoryview, at: int, missing: int) -> int:
        content = b""
        if self._wanted:
            content = bytes(self._held) + bytes(chunk[at : at + missing])
            self._held.clear()
        self._need, self._wanted = self._frames.send(content)
        while self._need == 0:
            self._need, self._wanted = self._frames.send(b"")
        return missing


class FetchLink:
    """Both directions of one connection: requests name what responses of the same correlation id are."""

    def __init__(self) -> None:
        self._asked: dict[int, FetchRequested] = {}
        self._requests: list[FetchRequested] = []
        self._answers: list[FetchAnswered] = []
        self._request_reader = StreamReader(self._request_frames())
        self._response_reader = StreamReader(self._response_frames())

    def request_bytes(self, chunk: memoryview) -> list[FetchRequested]:
        """Return the Fetch requests whose sender is known now that this chunk has come. Raises ValueError."""
        self._request_reader.feed(chunk)
        done, self._requests = self._requests, []
        return done

    def response_bytes(self, chunk: memoryview) -> list[FetchAnswered]:
        """Return the Fetch responses that this chunk completed. Raises ValueError."""
        self._response_reader.feed(chunk)
        done, self._answers = self._answers, []
        return done

    def _request_frames(self) -> Generator[Read, bytes, None]:
        while True:
            size, api_key, version, correlation, client_id = _REQUEST.unpack((yield _REQUEST.size, True))
            rest = size - (_REQUEST.size - 4) - max(client_id, 0)
            yield max(client_id, 0), False
            if api_key == API_FETCH:
                replica_id = HIDDEN_REPLICA
                if FIRST_FLEXIBLE <= version <= LAST_VERSION and 0 < rest <= MAX_REQUEST_BYTES:
                    replica_id = replica_of(version, (yield rest, True))
                    rest = 0
                elif rest >= 4 and version < FIRST_FLEXIBLE:
                    replica_id = _INT.unpack((yield 4, True))[0]
                    rest -= 4
                asked = FetchRequested(version, correlation, replica_id, size + 4)
                self._asked[correlation] = asked
                self._requests.append(asked)
            yield _not_negative(rest), False

    def _response_frames(self) -> Generator[Read, bytes, None]:
        while True:
            size, correlation = _RESPONSE.unpack((yield _RESPONSE.size, True))
            asked = self._asked.pop(correlation, None)
            partitions: list[tuple[str, int, int]] = []
            session = NO_SESSION
            if asked is not None and asked.api_version <= LAST_VERSION:
                session = yield from answer_head(asked.api_version)
                yield from answered_partitions(asked.api_version, partitions)
            else:
                yield _not_negative(size - 4), False
            if asked is not None:
                version, replica_id = asked.api_version, asked.replica_id
                self._answers.append(FetchAnswered(version, replica_id, partitions, size + 4, session))


def _not_negative(count: int) -> int:
    if count < 0:
        raise ValueError(f"a frame with {count} bytes left")
    return count

"""Frames to test with: the golden ones, and made-up ones; and one caller that feeds a walker as a stream."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st

from protocol.apis import API_FETCH
from protocol.fetch import SUPPORTED_FETCH_VERSIONS, request_layout, response_layout
from protocol.headers import request_header
from protocol.walker import request_walker, response_walker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

    from protocol.walker import Walk

GOLDEN = Path(__file__).parent / "golden"
RESPONSE_HEADER_BYTES = 4
POISON = 0xAA  # as a length or count it is hugely negative, as text it is not UTF-8


class Golden(NamedTuple):
    """One frame that Kafka wrote, and what Kafka says it is."""

    name: str
    kind: str
    version: int
    frame: bytes
    said: dict[str, Any]

    @property
    def body_at(self) -> int:
        return len(self.frame) - len(self.body)

    @property
    def body(self) -> bytes:
        if self.kind == "response":
            return self.frame[RESPONSE_HEADER_BYTES:]
        client_id = (self.said["clientId"] or "").encode()
        return self.frame[10 + len(client_id) :]

    @property
    def walk(self) -> Walk:
        return request_walker(self.version) if self.kind == "request" else response_walker(self.version)


def golden_lines(file: str) -> Iterator[Any]:
    with (GOLDEN / file).open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def golden(file: str) -> list[Golden]:
    found = []
    for said in golden_lines(file):
        name, kind = said.pop("file"), said.pop("kind")
        frame = (GOLDEN / "frames" / name).read_bytes()
        found.append(Golden(name.removesuffix(".bin"), kind, said["apiVersion"], frame, said))
    return found


FETCHES = golden("fetch.jsonl")
REQUESTS = [each for each in FETCHES if each.kind == "request"]
RESPONSES = [each for each in FETCHES if each.kind == "response"]
HEADS = golden("heads.jsonl")


def named(name: str) -> Golden:
    return next(each for each in FETCHES if each.name == name)


int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
topics = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
versions = st.sampled_from(SUPPORTED_FETCH_VERSIONS)


def _topics(partition: SearchStrategy[dict[str, Any]]) -> SearchStrategy[list[dict[str, Any]]]:
    topic = st.fixed_dictionaries({"topic": topics, "partitions": st.lists(partition, max_size=4)})
    return st.lists(topic, max_size=4)


request_values = st.fixed_dictionaries(
    {
        "replica_id": int32,
        "max_wait_ms": int32,
        "min_bytes": int32,
        "max_bytes": int32,
        "isolation_level": st.integers(-128, 127),
        "topics": _topics(
            st.fixed_dictionaries(
                {
                    "partition": int32,
                    "fetch_offset": int64,
                    "log_start_offset": int64,
                    "partition_max_bytes": int32,
                }
            )
        ),
    }
)
response_values = st.fixed_dictionaries(
    {
        "throttle_time_ms": int32,
        "responses": _topics(
            st.fixed_dictionaries(
                {
                    "partition_index": int32,
                    "error_code": st.integers(-(2**15), 2**15 - 1),
                    "high_watermark": int64,
                    "last_stable_offset": int64,
                    "log_start_offset": int64,
                    "aborted_transactions": st.none()
                    | st.lists(st.fixed_dictionaries({"producer_id": int64, "first_offset": int64}), max_size=3),
                    "records": st.none() | st.binary(max_size=40),
                }
            )
        ),
    }
)


def request_frame(version: int, values: dict[str, Any], *, client_id: str | None = "client") -> bytes:
    head = {
        "api_key": API_FETCH,
        "api_version": version,
        "correlation_id": 7,
        "client_id": client_id,
    }
    return bytes(request_header(1).build(head) + request_layout(version).build(values))


def response_frame(version: int, values: dict[str, Any]) -> bytes:
    return (7).to_bytes(RESPONSE_HEADER_BYTES, "big") + bytes(response_layout(version).build(values))


def sent_in(chunks: Iterator[int], walk: Walk, body: bytes, *, places: Iterator[int]) -> list[tuple[Any, ...]]:
    """Feeds ``body`` to ``walk`` in chunks; the buffer holds poison wherever the walker must not look.

    Before each step the bytes still needed move to the next of ``places``. Returns the rows, their positions
    counted from the body's start, and as the last row the position the walk ended at.
    """
    buffer = bytearray()
    rows: list[tuple[Any, ...]] = []
    emitted: list[Any] = []
    steps = walk(buffer, len(body), emitted.append, {})
    next(steps)
    done, received = 0, 0
    while True:
        received += next(chunks)
        place = next(places)
        held = body[done : min(received, len(body))]
        buffer[:] = bytes([POISON]) * place + held + bytes([POISON]) * 64
        # Whatever follows the body in the buffer belongs to the next frame.
        end = place + len(held) + (64 if received > len(body) else 0) if received >= done else place
        try:
            at = steps.send((place, end))
        except StopIteration as stop:
            at = stop.value
            rows += [from_start(row, done - place) for row in emitted]
            return [*rows, (done + at - place,)]
        rows += [from_start(row, done - place) for row in emitted]
        emitted.clear()
        assert at >= place
        assert received <= len(body), "the walker waits for bytes the body does not have"
        done += at - place


def from_start(row: Any, origin: int) -> tuple[Any, ...]:
    places = {"entry_at", "entry_end", "records_at"}
    return tuple(value + origin if name in places else value for name, value in zip(row._fields, row, strict=True))

"""Frames to test with: the golden ones, and made-up ones; and one caller that feeds a walker as a stream."""

from __future__ import annotations

import functools
import json
import operator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st

from protocol.fetch.tables import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    REQUEST,
    RESPONSE,
    SUPPORTED_FETCH_VERSIONS,
    request_layout,
    response_layout,
)
from protocol.fetch.walker import request_walker, response_walker
from protocol.kafka_json import is_default
from protocol.wire.apis import API_FETCH, is_flexible
from protocol.wire.headers import request_header, request_header_version, response_header, response_header_version
from protocol.wire.layout import TAGS, StructOf, bare, item_struct, member
from protocol.wire.primitives import UUID, KArray, KRecords, KString, TaggedFields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from construct import Construct, Struct
    from hypothesis.strategies import SearchStrategy

    from protocol.fetch.walker import Walk
    from protocol.wire.layout import Field

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
        tags = is_flexible(API_FETCH, self.version)
        if self.kind == "response":
            return self.frame[RESPONSE_HEADER_BYTES + tags :]
        client_id = (self.said["clientId"] or "").encode()
        return self.frame[10 + len(client_id) + tags :]

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
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
# Lengths of one byte and of two, and more than any topic's.
long_names = names | st.sampled_from(["t" * 126, "t" * 127, "t" * 249, "ü" * 200])
ids = st.binary(min_size=16, max_size=16)
versions = st.sampled_from(SUPPORTED_FETCH_VERSIONS)
request_frames = versions.flatmap(lambda version: st.tuples(st.just(version), request_values(version)))
response_frames = versions.flatmap(lambda version: st.tuples(st.just(version), response_values(version)))
unknown_tags = st.lists(st.tuples(st.integers(100, 2**32 - 1), st.binary(max_size=140)), max_size=2)


def topics_of(version: int) -> SearchStrategy[Any]:
    return ids if version >= FIRST_VERSION_WITH_TOPIC_IDS else long_names


@functools.cache
def request_values(version: int) -> SearchStrategy[dict[str, Any]]:
    return _values(REQUEST, request_layout(version), version)


@functools.cache
def response_values(version: int) -> SearchStrategy[dict[str, Any]]:
    return _values(RESPONSE, response_layout(version), version)


def _values(table: Sequence[Field], struct: Struct, version: int) -> SearchStrategy[dict[str, Any]]:
    """Whatever a struct of this table may hold, tagged fields known and unknown among it."""
    present = [field for field in table if field.is_in(version)]
    members = {
        field.name: _of(field, bare(member(struct, field.name)), version) for field in present if field.tag is None
    }
    tags = bare(struct.subcons[-1])
    if isinstance(tags, TaggedFields):
        known = {field.name: _tagged(field, tags, version) for field in present if field.tag is not None}
        some = st.fixed_dictionaries({}, optional=known).map(tags.encoded)
        members[TAGS] = st.just([]) | st.builds(operator.add, some, unknown_tags)
    return st.fixed_dictionaries(members)


def _tagged(field: Field, tags: TaggedFields, version: int) -> SearchStrategy[Any]:
    return _of(field, bare(tags.known[field.tag]), version).filter(lambda value: not is_default(field, value))


def _of(field: Field, codec: Construct, version: int) -> SearchStrategy[Any]:
    if isinstance(field.codec, StructOf):
        return _values(field.codec.fields, codec, version)
    if isinstance(codec, KArray):
        item = field.codec.item
        found = st.lists(_values(item, codec.subcon, version) if isinstance(item, tuple) else int32, max_size=4)
    elif isinstance(codec, KRecords):
        found = st.binary(max_size=40) | st.binary(min_size=120, max_size=140)
    elif isinstance(codec, KString):
        found = long_names if field.name == "topic" else names
    else:
        bits = 8 * codec.length - 1
        return ids if codec is UUID else st.integers(-(2**bits), 2**bits - 1)
    return st.none() | found if codec.nullable else found


@st.composite
def long_blocks(draw: st.DrawFn, kind: str) -> tuple[int, dict[str, Any]]:
    """A message with a block of many partitions, most of them in the usual shape: without records, arrays and tags."""
    version = draw(versions)
    values = draw(request_values(version) if kind == "request" else response_values(version))
    table, array, number = (
        (REQUEST, "topics", "partition") if kind == "request" else (RESPONSE, "responses", "partition_index")
    )
    fields = next(field for field in table if field.name == array).codec.item
    fields = next(field for field in fields if field.name == "partitions").codec.item
    layout = request_layout(version) if kind == "request" else response_layout(version)
    entry = item_struct(item_struct(layout, array), "partitions")
    usual: dict[str, Any] = {"aborted_transactions": None, "records": b"", TAGS: []}
    others = draw(st.lists(_values(fields, entry, version), min_size=1, max_size=4))
    runs = draw(st.lists(st.integers(0, 3) | st.integers(7, 40), min_size=1, max_size=4))
    partitions: list[dict[str, Any]] = []
    for at, length in enumerate(runs):
        other = others[at % len(others)]
        plain = other | {name: value for name, value in usual.items() if name in other}
        partitions += [plain | {number: len(partitions) + each} for each in range(length)] + [other]
    topic = draw(topics_of(version))
    block = {
        "topic_id" if version >= FIRST_VERSION_WITH_TOPIC_IDS else "topic": topic,
        "partitions": partitions,
        TAGS: [],
    }
    at = draw(st.integers(0, len(values[array])))
    return version, values | {array: [*values[array][:at], block, *values[array][at:]]}


def header_bytes(version: int, client_id: str | None = "client", tags: Any = ()) -> bytes:
    head = {"api_key": API_FETCH, "api_version": version, "correlation_id": 7, "client_id": client_id}
    header = request_header(request_header_version(API_FETCH, version))
    return bytes(header.build({**head, TAGS: list(tags)}))


def request_frame(version: int, values: dict[str, Any], *, client_id: str | None = "client") -> bytes:
    return header_bytes(version, client_id) + bytes(request_layout(version).build(values))


def response_frame(version: int, values: dict[str, Any]) -> bytes:
    header = response_header(response_header_version(API_FETCH, version))
    return bytes(header.build({"correlation_id": 7, TAGS: []}) + response_layout(version).build(values))


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

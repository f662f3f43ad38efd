"""Kafka's own codec in one JVM at the other end of a pipe, and messages to ask it about."""

from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self, get_args

from lab.brokers.jars import java_command, kafka_jars
from protocol.fetch.tables import REQUEST, RESPONSE, request_layout, response_layout
from protocol.kafka_json import is_default
from protocol.wire.apis import API_FETCH
from protocol.wire.headers import (
    peek_request,
    peek_response,
    request_header,
    request_header_version,
    response_header,
    response_header_version,
)
from protocol.wire.layout import TAGS, Field, StructOf, bare, member, parse_whole
from protocol.wire.primitives import UUID, KArray, KRecords, KString, TaggedFields

from .walked_json import Engine, request_by, response_by

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from construct import Construct, Struct

SOURCE = Path(__file__).parent / "kafka" / "Codec.java"
QUESTION = struct.Struct(">ichbh")
INT32 = struct.Struct(">i")
LETTERS = "abcXYZ-._09äκ😀"
FIRST_UNKNOWN_TAG = 100


class Said(NamedTuple):
    """A frame as Kafka writes it (None: it refuses what it was given) and its body in Kafka's JSON, or the reason."""

    frame: bytes | None
    text: str


class KafkaCodec:
    """One JVM with the classes of one Kafka version; a context manager."""

    def __init__(self, kafka: str) -> None:
        command = [java_command(), "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        self._jvm = subprocess.Popen(
            [*command, "-cp", f"{kafka_jars(kafka)}/*", str(SOURCE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._in: IO[bytes] = self._jvm.stdin
        self._out: IO[bytes] = self._jvm.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._in.close()
        self._out.close()
        self._jvm.wait(10)

    def check(self, api_key: int, kind: str, version: int, frame: bytes) -> Said:
        return self._ask(b"c", api_key, kind, version, frame)

    def make(self, api_key: int, kind: str, version: int, seed: int) -> Said:
        return self._ask(b"m", api_key, kind, version, seed.to_bytes(8))

    def _ask(self, what: bytes, api_key: int, kind: str, version: int, rest: bytes) -> Said:
        size = QUESTION.size - INT32.size + len(rest)
        self._in.write(QUESTION.pack(size, what, api_key, kind == "request", version) + rest)
        self._in.flush()
        frame, text = self._read(), self._read()
        return Said(frame, (text or b"").decode())

    def _read(self) -> bytes | None:
        (size,) = INT32.unpack(self._out.read(INT32.size))
        return None if size < 0 else self._out.read(size)


def made_up(kind: str, version: int, random: Random) -> bytes:
    """A Fetch frame of this version with whatever our tables allow."""
    if kind == "request":
        head = {
            "api_key": API_FETCH,
            "api_version": version,
            "correlation_id": random.randrange(2**31),
            "client_id": random.choice([None, _text(random)]),
            TAGS: [],
        }
        header = request_header(request_header_version(API_FETCH, version))
        body = request_layout(version)
        return bytes(header.build(head) + body.build(_drawn(REQUEST, body, version, random)))
    header = response_header(response_header_version(API_FETCH, version))
    body = response_layout(version)
    head = {"correlation_id": random.randrange(2**31), TAGS: []}
    return bytes(header.build(head) + body.build(_drawn(RESPONSE, body, version, random)))


def _drawn(table: Sequence[Field], codec: Struct, version: int, random: Random) -> dict[str, Any]:
    present = [field for field in table if field.is_in(version)]
    values = {
        field.name: _value(field, bare(member(codec, field.name)), version, random)
        for field in present
        if field.tag is None
    }
    tags = bare(codec.subcons[-1])
    if isinstance(tags, TaggedFields):
        known = [field for field in present if field.tag is not None and random.randrange(3) == 0]
        found = {field.name: _value(field, bare(tags.known[field.tag]), version, random) for field in known}
        kept = {field.name: found[field.name] for field in known if not is_default(field, found[field.name])}
        count = 0 if random.randrange(6) else random.randrange(1, 4)
        unknown = {FIRST_UNKNOWN_TAG + random.randrange(2 ** random.randrange(5, 30)) for _ in range(count)}
        values[TAGS] = tags.encoded(kept) + [(tag, _bytes(random)) for tag in sorted(unknown)]
    return values


def _value(field: Field, codec: Construct, version: int, random: Random) -> Any:
    if isinstance(field.codec, StructOf):
        return _drawn(field.codec.fields, codec, version, random)
    if getattr(codec, "nullable", False) and random.randrange(4) == 0:
        return None
    if isinstance(codec, KArray):
        many = range(150 if random.randrange(200) == 0 else random.randrange(4))
        if isinstance(field.codec.item, tuple):
            return [_drawn(field.codec.item, codec.subcon, version, random) for _ in many]
        return [random.randrange(-(2**31), 2**31) for _ in many]
    if isinstance(codec, KString):
        return _text(random)
    if isinstance(codec, KRecords):
        return _bytes(random)
    if codec is UUID:
        return random.randbytes(16)
    bits = 8 * codec.length
    return random.randrange(2**bits) - 2 ** (bits - 1)


def _bytes(random: Random) -> bytes:
    return random.randbytes(random.randrange(100, 300) if random.randrange(5) == 0 else random.randrange(20))


def _text(random: Random) -> str:
    return "".join(
        random.choices(LETTERS, k=random.randrange(110, 250) if random.randrange(30) == 0 else random.randrange(8))
    )


def our_json(kind: str, version: int, frame: bytes) -> str:
    """The body as we print it, by both engines."""
    said = [
        json.dumps(
            request_by(engine, frame)["body"] if kind == "request" else response_by(engine, frame, version)["body"]
        )
        for engine in get_args(Engine)
    ]
    assert said[0] == said[1]
    return said[0]


def rebuilt(kind: str, version: int, frame: bytes) -> bytes:
    """The frame parsed by plain Construct and built again."""
    head = (
        peek_request(frame, 0, len(frame))
        if kind == "request"
        else peek_response(frame, 0, len(frame), int(version >= 12))
    )
    assert head is not None
    body = frame[head.body_at :]
    codec = request_layout(version) if kind == "request" else response_layout(version)
    values = parse_whole(codec, body)
    for topic in values.get("responses", ()):
        for partition in topic.partitions:
            at, size = partition.records
            partition.records = None if size < 0 else body[at : at + size]
    return frame[: head.body_at] + bytes(codec.build(values))


def round_trips(codec: KafkaCodec, versions: Sequence[int], frames: int, random: Random) -> int:
    """Ours to Kafka and Kafka's to us, in turns, as many; returns how many were compared."""
    for number in range(frames):
        kind, version = ("request", "response")[number // 2 % 2], versions[number // 4 % len(versions)]
        if number % 2:
            said = codec.make(API_FETCH, kind, version, random.getrandbits(63))
            assert said.frame is not None, said.text
            assert rebuilt(kind, version, said.frame) == said.frame
        else:
            frame = made_up(kind, version, random)
            said = codec.check(API_FETCH, kind, version, frame)
            assert said.frame == frame, (kind, version, frame.hex(), said.text)
        assert our_json(kind, version, said.frame) == json.dumps(json.loads(said.text)), (
            kind,
            version,
            said.frame.hex(),
        )
    return frames

"""Fetch frames as JSON by either parser: what plain Construct finds, and what a walker does."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal

from construct import Struct

from protocol.errors import ProtocolError
from protocol.fetch.walker import Walk, walk_whole
from protocol.kafka_json import (
    REQUEST_MESSAGE,
    RESPONSE_MESSAGE,
    Json,
    Message,
    frame_json,
    request_json,
    response_json,
)
from protocol.walkers.compiler import compile_walker
from protocol.walkers.entry import RECORDS_SIZE
from protocol.walkers.rows import Rows
from protocol.wire.apis import API_FETCH
from protocol.wire.headers import peek_request, peek_response, response_header_version
from protocol.wire.layout import bare, item_struct, member, parse_whole
from protocol.wire.primitives import KArray, KRecords, Skipped, TaggedFields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from construct import Construct

Engine = Literal["construct", "walker"]
_PATHS = {REQUEST_MESSAGE: ("topics", "partitions"), RESPONSE_MESSAGE: ("responses", "partitions")}


def request_by(engine: Engine, frame: bytes) -> Json:
    if engine == "construct":
        return request_json(frame)
    head = peek_request(frame, 0, len(frame))
    if head is None or head.api_key != API_FETCH:
        raise ProtocolError("not a Fetch request")
    values = _walked(REQUEST_MESSAGE, head.api_version, data=frame, body_at=head.body_at)
    return frame_json(REQUEST_MESSAGE, head.api_version, (head.correlation_id, head.client_id), values)


def response_by(engine: Engine, frame: bytes, version: int) -> Json:
    if engine == "construct":
        return response_json(frame, version)
    head = peek_response(frame, 0, len(frame), response_header_version(API_FETCH, version))
    if head is None:
        raise ProtocolError("the frame ends inside the response header")
    values = _walked(RESPONSE_MESSAGE, version, data=frame, body_at=head.body_at)
    return frame_json(RESPONSE_MESSAGE, version, (head.correlation_id, None), values)


@functools.cache
def _walker(message: Message, version: int) -> Walk:
    """Return a walker that tells every field of every partition, and topics without partitions too."""
    body = message.layout(version)
    after = body.subcons[body.subcons.index(member(body, _PATHS[message][0])) + 1 :]
    columns = tuple(RECORDS_SIZE if isinstance(bare(each), KRecords) else each.name for each in _entry(body, message))
    rows = Rows(tuple, _PATHS[message], columns, block=True, head=tuple(field.name for field in after))
    walk: Walk = compile_walker(body, rows)
    return walk


def _entry(body: Struct, message: Message) -> list[Construct]:
    outer, inner = _PATHS[message]
    fields: list[Construct] = item_struct(item_struct(body, outer), inner).subcons
    return fields


def _walked(message: Message, version: int, *, data: bytes, body_at: int) -> Json:
    """Return what the walker says, in the shape in which Construct says it."""
    body = message.layout(version)
    rows, head = walk_whole(_walker(message, version), data, body_at, len(data))
    outer, inner = _PATHS[message]
    topic = item_struct(body, outer).subcons[0].name
    emitted = iter(rows)
    blocks = [
        {topic: name, inner: [_named(_entry(body, message), next(emitted)) for _ in range(count)]}
        for name, count in emitted
    ]
    fields = [field for field in body.subcons if field.name != outer]
    return _named(fields, [head[field.name] for field in fields]) | {outer: blocks}


def _named(fields: Sequence[Construct], values: Sequence[Any]) -> Json:
    return {field.name: _shaped(bare(field), value) for field, value in zip(fields, values, strict=True)}


def _shaped(codec: Construct, value: Any) -> Any:
    if isinstance(codec, KRecords):
        return Skipped(0, value)
    if isinstance(codec, TaggedFields):
        return parse_whole(codec, value)
    if isinstance(codec, KArray) and isinstance(codec.subcon, Struct) and value is not None:
        return [_named(codec.subcon.subcons, item) for item in value]
    return value

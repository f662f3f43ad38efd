"""Fetch frames as Kafka's own JSON converters print them, by either parser.

For people and for tests: slow, whole frames only. Must not know files or streams. Invariant: ``body`` is what
FetchRequestDataJsonConverter and FetchResponseDataJsonConverter write with ``serializeRecords = false``.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from construct import Container, Struct

from .apis import API_FETCH, api_name
from .errors import ProtocolError
from .fetch import request_layout, response_layout
from .headers import (
    peek_correlation_id,
    peek_request,
    request_header,
    request_header_version,
    response_header,
    response_header_version,
)
from .layout import item_struct, parse_whole
from .primitives import NULL, KArray, Skipped
from .walker import Walk, walk_whole
from .walker_compiler import RECORDS_SIZE, Rows, compile_walker

if TYPE_CHECKING:
    from collections.abc import Callable

    from .buffers import Bytes

Engine: TypeAlias = Literal["construct", "walker"]
Json: TypeAlias = dict[str, Any]

RECORDS = "records"
CONSTRUCT_STREAM = "_io"  # Construct adds it to every Container


class _Message(NamedTuple):
    """What the walker engine has to know of a message: the path says which arrays lead to the partitions."""

    layout: Callable[[int], Struct]
    path: tuple[str, str]


_REQUEST = _Message(request_layout, ("topics", "partitions"))
_RESPONSE = _Message(response_layout, ("responses", "partitions"))


def request_json(frame: Bytes, engine: Engine = "construct") -> Json:
    """The Fetch request ``frame`` as ``{apiKey, apiVersion, correlationId, clientId, body}``.

    Raises ProtocolError for whatever is not a Fetch request of a supported version, to the last byte.
    """
    data = bytes(frame)
    head = peek_request(data, 0, len(data))
    if head is None:
        raise ProtocolError("the frame ends inside the request header")
    if head.api_key != API_FETCH:
        raise ProtocolError(f"a request of {api_name(head.api_key)}, not of Fetch")
    version = head.api_version
    if engine == "walker":
        body = _walked(_REQUEST, version, data=data, body_at=head.body_at)
        return _frame_json(version, head.correlation_id, head.client_id, body)
    header = request_header(request_header_version(API_FETCH, version))
    whole = parse_whole(Struct("header" / header, "body" / request_layout(version)), data)
    return _frame_json(version, whole.header.correlation_id, whole.header.client_id, _json(whole.body))


def response_json(frame: Bytes, api_version: int, engine: Engine = "construct") -> Json:
    """The Fetch response ``frame`` of that version, in the same form; its clientId is None.

    Raises ProtocolError for whatever is not such a response, to the last byte, or a version not supported.
    """
    data = bytes(frame)
    header = response_header(response_header_version(API_FETCH, api_version))
    if engine == "walker":
        correlation_id = peek_correlation_id(data, 0, len(data))
        if correlation_id is None:
            raise ProtocolError("the frame ends inside the response header")
        body = _walked(_RESPONSE, api_version, data=data, body_at=header.sizeof())
        return _frame_json(api_version, correlation_id, None, body)
    whole = parse_whole(Struct("header" / header, "body" / response_layout(api_version)), data)
    return _frame_json(api_version, whole.header.correlation_id, None, _json(whole.body))


def _frame_json(api_version: int, correlation_id: int, client_id: str | None, body: Json) -> Json:
    return {
        "apiKey": API_FETCH,
        "apiVersion": api_version,
        "correlationId": correlation_id,
        "clientId": client_id,
        "body": body,
    }


def _json(value: Any) -> Any:
    if isinstance(value, Container):
        return dict(_member(name, member) for name, member in value.items() if name != CONSTRUCT_STREAM)
    if isinstance(value, list):
        return [_json(item) for item in value]
    return value


def _member(name: str, value: Any) -> tuple[str, Any]:
    if isinstance(value, Skipped):
        return _records(value.size_bytes)
    return _camel(name), _json(value)


def _records(size_bytes: int) -> tuple[str, int | None]:
    return ("records", None) if size_bytes == NULL else ("recordsSizeInBytes", size_bytes)


@functools.cache
def _walker(message: _Message, version: int) -> Walk:
    """One that leaves nothing out: every column, and topics without partitions too."""
    body = message.layout(version)
    item = _item(message, version)
    columns = tuple(RECORDS_SIZE if name == RECORDS else name for name in item)
    walk: Walk = compile_walker(body, Rows(tuple, message.path, columns, block=tuple))
    return walk


def _item(message: _Message, version: int) -> dict[str, Any]:
    topics, partitions = message.path
    item = item_struct(item_struct(message.layout(version), topics), partitions)
    return {field.name: field.subcon for field in item.subcons}


def _walked(message: _Message, version: int, *, data: bytes, body_at: int) -> Json:
    rows, fields = walk_whole(_walker(message, version), data, body_at, len(data))
    item = _item(message, version)
    emitted = iter(rows)
    topics = [
        {"topic": topic, "partitions": [_row_json(item, next(emitted)) for _ in range(count)]}
        for topic, count in emitted
    ]
    scalars = {_camel(name): value for name, value in fields.items()}
    return scalars | {message.path[0]: topics}


def _row_json(item: dict[str, Any], row: tuple[Any, ...]) -> Json:
    members: Json = {}
    for (name, codec), value in zip(item.items(), row, strict=True):
        if name == RECORDS:
            members.update([_records(value)])
        elif isinstance(codec, KArray) and value is not None:
            names = [_camel(field.name) for field in codec.subcon.subcons]
            members[_camel(name)] = [dict(zip(names, values, strict=True)) for values in value]
        else:
            members[_camel(name)] = value
    return members


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)

"""Fetch frames as Kafka's own JSON converters print them, by either parser.

For people and for tests: slow, whole frames only. Must not know files or streams. Invariant: ``body`` is what
FetchRequestDataJsonConverter and FetchResponseDataJsonConverter write with ``serializeRecords = false``:
tagged fields only where they are not the default, unknown ones never.
"""

from __future__ import annotations

import base64
import functools
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from construct import Struct

from .errors import ProtocolError
from .fetch.tables import REQUEST, RESPONSE, request_layout, response_layout
from .fetch.walker import Walk, walk_whole
from .walkers.compiler import compile_walker
from .walkers.entry import RECORDS_SIZE
from .walkers.rows import Rows
from .wire.apis import API_FETCH, api_name
from .wire.headers import (
    peek_request,
    peek_response,
    request_header,
    request_header_version,
    response_header,
    response_header_version,
)
from .wire.layout import TAGS, ArrayOf, Field, StructOf, bare, default_of, item_struct, member, parse_whole
from .wire.primitives import NULL, UUID, KArray, KRecords, Skipped, TaggedFields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from construct import Construct

    from .wire.framing import Bytes

Engine: TypeAlias = Literal["construct", "walker"]
Json: TypeAlias = dict[str, Any]


class _Message(NamedTuple):
    """A message's table, its Struct by version, and the names of the two arrays that lead to its partitions."""

    table: tuple[Field, ...]
    layout: Callable[[int], Struct]
    path: tuple[str, str]


_REQUEST = _Message(REQUEST, request_layout, ("topics", "partitions"))
_RESPONSE = _Message(RESPONSE, response_layout, ("responses", "partitions"))


def request_json(frame: Bytes, engine: Engine = "construct") -> Json:
    """Return the Fetch request ``frame`` as ``{apiKey, apiVersion, correlationId, clientId, body}``.

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
        values = _walked(_REQUEST, version, data=data, body_at=head.body_at)
        return _frame_json(_REQUEST, version, (head.correlation_id, head.client_id), values)
    header = request_header(request_header_version(API_FETCH, version))
    whole = parse_whole(Struct("header" / header, "body" / request_layout(version)), data)
    return _frame_json(_REQUEST, version, (whole.header.correlation_id, whole.header.client_id), whole.body)


def response_json(frame: Bytes, api_version: int, engine: Engine = "construct") -> Json:
    """Return the Fetch response ``frame`` of that version, in the same form; its clientId is None.

    Raises ProtocolError for whatever is not such a response, to the last byte, or a version not supported.
    """
    data = bytes(frame)
    body = response_layout(api_version)
    header_version = response_header_version(API_FETCH, api_version)
    if engine == "walker":
        head = peek_response(data, 0, len(data), header_version)
        if head is None:
            raise ProtocolError("the frame ends inside the response header")
        values = _walked(_RESPONSE, api_version, data=data, body_at=head.body_at)
        return _frame_json(_RESPONSE, api_version, (head.correlation_id, None), values)
    whole = parse_whole(Struct("header" / response_header(header_version), "body" / body), data)
    return _frame_json(_RESPONSE, api_version, (whole.header.correlation_id, None), whole.body)


def _frame_json(message: _Message, version: int, ids: tuple[int, str | None], values: Mapping[str, Any]) -> Json:
    return {
        "apiKey": API_FETCH,
        "apiVersion": version,
        "correlationId": ids[0],
        "clientId": ids[1],
        "body": _object(message.table, version, message.layout(version), values),
    }


def _object(table: Sequence[Field], version: int, struct: Struct, values: Mapping[str, Any]) -> Json:
    """Return the struct as an object: the fields of the version, in the order of the table."""
    tags = struct.subcons[-1] if TAGS in values else None
    tagged = bare(tags).values(values[TAGS]) if tags is not None else {}
    members: Json = {}
    for field in table:
        if field.tag is None and field.is_in(version):
            codec = bare(member(struct, field.name))
            members.update([_member(field, version, codec, values[field.name])])
        elif field.name in tagged and not is_default(field, tagged[field.name]):
            codec = bare(bare(tags).known[field.tag])
            members.update([_member(field, version, codec, tagged[field.name])])
    return members


def _member(field: Field, version: int, codec: Construct, value: Any) -> tuple[str, Any]:
    if isinstance(value, Skipped):
        return ("records", None) if value.size_bytes == NULL else ("recordsSizeInBytes", value.size_bytes)
    if isinstance(field.codec, StructOf):
        value = _object(field.codec.fields, version, codec, value)
    elif isinstance(field.codec, ArrayOf) and isinstance(field.codec.item, tuple) and value is not None:
        value = [_object(field.codec.item, version, codec.subcon, item) for item in value]
    elif field.codec is UUID:
        value = base64.urlsafe_b64encode(value).rstrip(b"=").decode()
    return _camel(field.name), value


def is_default(field: Field, value: Any) -> bool:
    """Return True if a tagged field need not have been there, the way Kafka sees it."""
    default = default_of(field)
    if not isinstance(field.codec, StructOf):
        return bool(value == default)
    # Kafka's equals() takes unknown tagged fields into account.
    return not value[TAGS] and all(value[name] == said for name, said in default.items())


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@functools.cache
def _walker(message: _Message, version: int) -> Walk:
    """Return a walker that tells every field of every partition, and topics without partitions too."""
    body = message.layout(version)
    after = body.subcons[body.subcons.index(member(body, message.path[0])) + 1 :]
    columns = tuple(RECORDS_SIZE if isinstance(bare(each), KRecords) else each.name for each in _entry(body, message))
    rows = Rows(tuple, message.path, columns, block=True, head=tuple(field.name for field in after))
    walk: Walk = compile_walker(body, rows)
    return walk


def _entry(body: Struct, message: _Message) -> list[Construct]:
    outer, inner = message.path
    fields: list[Construct] = item_struct(item_struct(body, outer), inner).subcons
    return fields


def _walked(message: _Message, version: int, *, data: bytes, body_at: int) -> Json:
    """Return what the walker says, in the shape in which Construct says it."""
    body = message.layout(version)
    rows, head = walk_whole(_walker(message, version), data, body_at, len(data))
    outer, inner = message.path
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

"""Fetch frames as Kafka's own JSON converters print them.

For people and for tests: slow, whole frames only. Must not know files or streams. Invariant: ``body`` is what
FetchRequestDataJsonConverter and FetchResponseDataJsonConverter write with ``serializeRecords = false``:
tagged fields only where they are not the default, unknown ones never.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from construct import Struct

from .errors import ProtocolError
from .fetch.tables import REQUEST, RESPONSE, request_layout, response_layout
from .wire.apis import API_FETCH, api_name
from .wire.headers import (
    peek_request,
    request_header,
    request_header_version,
    response_header,
    response_header_version,
)
from .wire.layout import TAGS, ArrayOf, Field, StructOf, bare, default_of, member, parse_whole
from .wire.primitives import NULL, UUID, Skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from construct import Construct

    from .wire.framing import Bytes

Json: TypeAlias = dict[str, Any]


class Message(NamedTuple):
    """A message's table, and its Struct by version."""

    table: tuple[Field, ...]
    layout: Callable[[int], Struct]


REQUEST_MESSAGE = Message(REQUEST, request_layout)
RESPONSE_MESSAGE = Message(RESPONSE, response_layout)


def request_json(frame: Bytes) -> Json:
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
    header = request_header(request_header_version(API_FETCH, version))
    whole = parse_whole(Struct("header" / header, "body" / request_layout(version)), data)
    return frame_json(REQUEST_MESSAGE, version, (whole.header.correlation_id, whole.header.client_id), whole.body)


def response_json(frame: Bytes, api_version: int) -> Json:
    """Return the Fetch response ``frame`` of that version, in the same form; its clientId is None.

    Raises ProtocolError for whatever is not such a response, to the last byte, or a version not supported.
    """
    data = bytes(frame)
    body = response_layout(api_version)
    header = response_header(response_header_version(API_FETCH, api_version))
    whole = parse_whole(Struct("header" / header, "body" / body), data)
    return frame_json(RESPONSE_MESSAGE, api_version, (whole.header.correlation_id, None), whole.body)


def frame_json(message: Message, version: int, ids: tuple[int, str | None], values: Mapping[str, Any]) -> Json:
    """Return a frame of these correlation id and client id, and of the values that a parser found in its body."""
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

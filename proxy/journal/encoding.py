"""Lines as `journal_schema` declares them, from values to bytes.

Knows the schema, nothing of files. Invariant: a line has exactly the fields of its kind, in the schema's order; a value
that is missing is an error here, not at the reader.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from journal_schema import COMMON, KINDS, SHAPE_PARTS, SHAPE_SILENT, VERSION, Kind

from ..ledger.blocks import no_pause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..ledger.blocks import ReplicaTraffic, Traffic
    from ..quotas import Partitions


_encode = msgspec.json.Encoder().encode


TOPICS_AT_ONCE = 64
"""The number of topics that are written between two pauses."""


class Lists(Protocol):
    """A quota, as far as it selects replicas."""

    def lists(self) -> Mapping[str, Partitions]: ...


class Selection:
    """``*``, or JSON like ``{"orders":"0-3"}``: a quota may select 50 000 topics, 0.1 s of one core.

    The loop that relays only says what is to be written; the journal's thread writes it, in slices, when it encodes the
    line, and once. What it is made of must not be altered after it was handed over. `encoded` is for one thread.
    """

    __slots__ = ("_encoded", "_selecting")

    def __init__(self, selecting: Lists) -> None:
        self._selecting = selecting
        self._encoded: msgspec.Raw | None = None

    def encoded(self, pause: Callable[[], object] = no_pause) -> msgspec.Raw:
        """Return it as a JSON string. `pause` is called after every few topics."""
        if self._encoded is None:
            text = self._text(pause)
            pause()
            self._encoded = msgspec.Raw(_encode(text))
        return self._encoded

    def __str__(self) -> str:
        return self._text(no_pause)

    def _text(self, pause: Callable[[], object]) -> str:
        lists = self._selecting.lists()
        if lists.keys() == {"*"} and lists["*"].every:
            return "*"
        return "{" + ",".join(_members(lists, pause)) + "}"


EventValue = str | int | float | bool | Selection | None
_COMMON_NAMES = tuple(field.name for field in COMMON)
_NAMES = {kind: (*_COMMON_NAMES, *(field.name for field in fields)) for kind, fields in KINDS.items()}
_SILENT = ord(SHAPE_SILENT)
REPLICAS_AT_ONCE = 64
"""The number of replicas that are encoded between two pauses."""


class Origin(NamedTuple):
    """The writer of a line."""

    broker: int
    run: str


class Event(NamedTuple):
    """A journal event, of any kind but traffic. `values` in the order of the kind's fields."""

    kind: Kind
    tick: int
    values: tuple[EventValue, ...]


def event(kind: Kind, tick: int, **values: EventValue) -> Event:
    """Return an event of `kind`; its fields must be there, all of them and no others, or ValueError is raised."""
    fields = KINDS[kind]
    unknown = values.keys() - {field.name for field in fields}
    missing = {field.name for field in fields if field.required} - values.keys()
    if unknown or missing:
        raise ValueError(f"{kind}: unknown {sorted(unknown)}, missing {sorted(missing)}")
    return Event(kind, tick, tuple(values.get(field.name) for field in fields))


def encode_event(origin: Origin, line: Event, time: int, pause: Callable[[], object] = no_pause) -> bytes:
    """Return the line with its newline. `pause` is called now and then while a long one is written."""
    values = (value.encoded(pause) if isinstance(value, Selection) else value for value in line.values)
    return _line(line.kind, (VERSION, line.kind.value, time, *origin, line.tick, *values))


def encode_traffic(origin: Origin, block: Traffic, first_time: int, pause: Callable[[], object] = no_pause) -> bytes:
    """Return one link's line, with its newline. `first_time` is the wall clock's second of tick 0. `pause` is called
    after every few replicas."""
    columns = zip(*_rows(block.replicas, pause), strict=True)
    common = (VERSION, Kind.TRAFFIC.value, first_time + block.tick, *origin, block.tick, *block.link, *block.seconds)
    encoded = []
    for column in columns:  # no other thread runs while msgspec encodes: 1 ms for a column of 20 000 replicas
        pause()
        encoded.append(msgspec.Raw(_encode(column)))
    return _line(Kind.TRAFFIC, (*common, *encoded))


def _rows(replicas: Sequence[ReplicaTraffic], pause: Callable[[], object]) -> Iterator[tuple[str | int, ...]]:
    for number, replica in enumerate(replicas, 1):
        yield _columns(replica)
        if number % REPLICAS_AT_ONCE == 0:
            pause()


def _columns(replica: ReplicaTraffic) -> tuple[str | int, ...]:
    """Return a replica's element of each of the schema's lists."""
    before, position = replica.before, replica.position
    return (
        replica.topic,
        replica.partition,
        shape(replica.said, replica.second_bytes),
        sum(replica.second_bytes),
        replica.header_bytes,
        replica.fetches,
        replica.omitted,
        before.fetch_offset,
        position.fetch_offset,
        before.high_watermark,
        position.high_watermark,
        position.log_start_offset,
    )


def shape(said: Sequence[bool], second_bytes: Sequence[int]) -> str:
    """Return one character per second. It says that there was nothing to say, or news without bytes, or how large the
    second's bytes are beside those of the largest second.

    A second with bytes has at least one part: with none its bytes would be counted in other seconds.
    """
    most = max(second_bytes)
    codes = (
        _SILENT + 1 + max(round(SHAPE_PARTS * size / most), 1) if size else _SILENT + (1 if spoke else 0)
        for spoke, size in zip(said, second_bytes, strict=True)
    )
    return bytes(codes).decode()


def _line(kind: Kind, values: Sequence[object]) -> bytes:
    return _encode(dict(zip(_NAMES[kind], values, strict=True))) + b"\n"


def _members(lists: Mapping[str, Partitions], pause: Callable[[], object]) -> Iterator[str]:
    for number, (name, listed) in enumerate(lists.items(), 1):
        yield f'{json.dumps(name)}:"{listed}"'
        if number % TOPICS_AT_ONCE == 0:
            pause()

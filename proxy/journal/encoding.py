"""Lines as `journal_schema` declares them, from values to bytes.

Knows the schema, nothing of files. Invariant: a line has exactly the fields of its kind, in the schema's order; a
value that is missing is an error here, not at the reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from journal_schema import COMMON, KINDS, VERSION, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .ledger import Traffic

EventValue = str | int | float | bool | None
_COMMON_NAMES = tuple(field.name for field in COMMON)
_NAMES = {kind: (*_COMMON_NAMES, *(field.name for field in fields)) for kind, fields in KINDS.items()}
_encode = msgspec.json.Encoder().encode


class Origin(NamedTuple):
    """Who writes."""

    broker: int
    run: str


class Event(NamedTuple):
    """Anything but traffic. `values` in the order of the kind's fields."""

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


def encode_event(origin: Origin, line: Event, time: int) -> bytes:
    """Return the line with its newline."""
    return _line(line.kind, (VERSION, line.kind.value, time, *origin, line.tick, *line.values))


def encode_traffic(origin: Origin, lines: Iterable[Traffic], first_time: int) -> bytes:
    """Return the lines, each with its newline. `first_time` is the wall clock's second of tick 0."""
    return b"".join(
        _line(
            Kind.TRAFFIC,
            (
                VERSION,
                Kind.TRAFFIC.value,
                first_time + line.tick,
                *origin,
                line.tick,
                *line.key,
                line.record_bytes,
                line.wire_bytes,
                line.fetches,
                line.omitted,
                *line.position,
            ),
        )
        for line in lines
    )


def _line(kind: Kind, values: Sequence[EventValue]) -> bytes:
    return _encode(dict(zip(_NAMES[kind], values, strict=True))) + b"\n"

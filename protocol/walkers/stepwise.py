"""Reads fields one at a time from a buffer that need not hold them all yet: the way that always works.

Walkers (see ../fetch/walker.py) read what is plain and whole in the buffer at one stroke; everything else, a few
entries in a thousand, comes here: what stands at the end of the buffer, long varints, aborted transactions,
tagged fields. The Construct codecs are interpreted as they are; nothing is written down twice.

All readers are generators that a walker delegates to: they yield the position before which everything is
done with, when they need more, and are sent ``(pos, end)``. Must not know Fetch. Invariant: nothing at or
beyond ``end`` is read; a length that the rest of the body cannot hold is refused when it is read.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from construct import Construct, FormatField, Struct

from ..errors import ProtocolError
from ..wire.layout import bare
from ..wire.primitives import (
    MAX_STRING_BYTES,
    NULL,
    UVARINT,
    KArray,
    KRecords,
    KString,
    Sized,
    TaggedFields,
    minimum_bytes,
)
from ..wire.varint import MAX_UVARINT_BYTES, read_uvarint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..wire.buffers import Bytes

T = TypeVar("T")
Steps: TypeAlias = Generator[int, tuple[int, int], T]


class Place:
    """Where a walker is: the next byte, the end of what is there, and where the body stops."""

    __slots__ = ("buffer", "end", "pos", "stop")

    def __init__(self, buffer: Bytes, pos: int, end: int, stop: int) -> None:
        self.buffer = buffer
        self.pos = pos
        self.end = end
        self.stop = stop

    def wait(self, size_bytes: int) -> Steps[None]:
        """Until so many bytes are there."""
        while self.end - self.pos < size_bytes:
            if self.end >= self.stop:
                raise ProtocolError("the message ends too early")
            yield from self.more()

    def more(self) -> Steps[None]:
        """Once, until the caller comes back."""
        was = self.pos
        self.pos, end = yield was
        self.stop += self.pos - was
        self.end = min(end, self.stop)

    def take(self, size_bytes: int) -> Bytes:
        """The next bytes, which must be there."""
        self.pos += size_bytes
        return self.buffer[self.pos - size_bytes : self.pos]


def read(codec: Construct, place: Place, path: str) -> Steps[Any]:
    """The value of any codec; of records the size (-1: null), and their bytes are still to come.

    An array of structs is a list of tuples, and tagged fields are the bytes of their section.
    """
    codec = bare(codec)
    if isinstance(codec, FormatField):
        yield from place.wait(codec.length)
        (value,) = struct.unpack(codec.fmtstr, place.take(codec.length))
        return value
    if isinstance(codec, TaggedFields):
        return (yield from _read_tags(place))
    size = yield from read_size(codec, place, path)
    if isinstance(codec, KRecords) or size == NULL:
        return size if isinstance(codec, KRecords) else None
    if isinstance(codec, KString):
        return (yield from _read_string(size, place, path))
    return (yield from _read_items(codec.subcon, size, place, path))


def read_size(codec: Sized, place: Place, path: str) -> Steps[int]:
    """The length or count that such a value begins with: one that the message can hold."""
    if codec.prefix is UVARINT:
        size = (yield from _read_uvarint(place)) - 1
    else:
        size = yield from read(codec.prefix, place, path)
    least = NULL if codec.nullable else 0
    if size < least or size * codec.item_bytes > place.stop - place.pos:
        raise ProtocolError(f"{path}: length {size} is not one the message can hold")
    if isinstance(codec, KString) and size > MAX_STRING_BYTES:
        raise ProtocolError(f"{path}: a string of {size} bytes is longer than any may be")
    return int(size)


def skip(codec: Construct, place: Place, path: str) -> Steps[None]:
    """Past a value of any codec. The position may then be beyond ``end``: nobody needs those bytes."""
    codec = bare(codec)
    if isinstance(codec, FormatField):
        yield from place.wait(codec.length)
        place.pos += codec.length
    elif isinstance(codec, TaggedFields):
        yield from _skip_tags(place)
    elif isinstance(codec, KArray) and not isinstance(bare(codec.subcon), FormatField):
        count = yield from read_size(codec, place, path)
        for _ in range(count):
            yield from skip_fields(codec.subcon, place, path)
    else:
        size = yield from read_size(codec, place, path)
        place.pos += max(size, 0) * codec.item_bytes


def skip_fields(body: Struct, place: Place, path: str) -> Steps[None]:
    """Past all fields of a struct."""
    for field in body.subcons:
        yield from skip(field, place, f"{path}.{field.name}")


def read_fields(fields: Sequence[Construct], wanted: Sequence[str], place: Place, path: str) -> Steps[list[Any]]:
    """The wanted ones of these fields of a struct, in their order."""
    values = []
    for field in fields:
        if field.name in wanted:
            values.append((yield from read(field, place, f"{path}.{field.name}")))
        else:
            yield from skip(field, place, f"{path}.{field.name}")
    return values


def wait_for_fields(fields: Sequence[Construct], place: Place) -> Steps[None]:
    """Until there are as many bytes as these fields take at least, or all of the body.

    If the last begins with a varint, that may be a long one. So they stay together in the buffer, arrays apart.
    """
    last = bare(fields[-1])
    spare = MAX_UVARINT_BYTES - 1 if isinstance(last, Sized) and last.prefix is UVARINT else 0
    plenty = sum(map(minimum_bytes, fields)) + spare
    while place.end - place.pos < plenty and place.end < place.stop:
        yield from place.more()


def _read_uvarint(place: Place) -> Steps[int]:
    while True:
        found = read_uvarint(place.buffer, place.pos, place.end)
        if found is not None:
            value, place.pos = found
            return value
        yield from place.wait(max(place.end - place.pos, 0) + 1)


def _read_string(size: int, place: Place, path: str) -> Steps[str]:
    yield from place.wait(size)
    try:
        return str(place.take(size), "utf-8")
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{path}: not UTF-8") from error


def _read_items(item: Construct, count: int, place: Place, path: str) -> Steps[list[Any]]:
    item = bare(item)
    if isinstance(item, FormatField):
        yield from place.wait(count * item.length)
        return [value for (value,) in struct.iter_unpack(item.fmtstr, place.take(count * item.length))]
    items = []
    for _ in range(count):
        names = [field.name for field in item.subcons]
        items.append(tuple((yield from read_fields(item.subcons, names, place, path))))
    return items


def _skip_tags(place: Place) -> Steps[None]:
    count = yield from _read_uvarint(place)
    if count * TaggedFields.item_bytes > place.stop - place.pos:
        raise ProtocolError(f"{count} tagged fields are more than the message can hold")
    for _ in range(count):
        yield from _read_uvarint(place)
        size = yield from _read_uvarint(place)
        if size > place.stop - place.pos:
            raise ProtocolError(f"a tagged field of {size} bytes is more than the message can hold")
        place.pos += size


def _read_tags(place: Place) -> Steps[bytes]:
    """The section's bytes, all of them together: a first look finds how long it is."""
    ahead = Place(place.buffer, place.pos, place.end, place.stop)
    steps = _skip_tags(ahead)
    try:
        next(steps)
        while True:
            left = ahead.pos - place.pos
            yield from place.wait(max(left, place.end - place.pos) + 1)
            steps.send((place.pos + left, place.end))
    except StopIteration:
        size = ahead.pos - place.pos
    yield from place.wait(size)
    return bytes(place.take(size))


Fallback: TypeAlias = "Callable[[Bytes, int, int, int], Steps[tuple[Any, ...]]]"
"""What the generated code delegates to: (buffer, pos, end, stop) in, pos, end, stop and values out."""


def value_fallback(codec: Construct, path: str) -> Fallback:
    """One value: ``(pos, end, stop, value)``."""

    def steps(buffer: Bytes, pos: int, end: int, stop: int) -> Steps[tuple[Any, ...]]:
        place = Place(buffer, pos, end, stop)
        value = yield from read(codec, place, path)
        return place.pos, place.end, place.stop, value

    return steps


def count_fallback(array: Sized, path: str) -> Fallback:
    """How many items an array has: ``(pos, end, stop, count)``."""

    def steps(buffer: Bytes, pos: int, end: int, stop: int) -> Steps[tuple[Any, ...]]:
        place = Place(buffer, pos, end, stop)
        count = yield from read_size(array, place, path)
        return place.pos, place.end, place.stop, count

    return steps


def skip_fallback(codec: Construct, path: str) -> Fallback:
    """Past a value: ``(pos, end, stop)``."""

    def steps(buffer: Bytes, pos: int, end: int, stop: int) -> Steps[tuple[Any, ...]]:
        place = Place(buffer, pos, end, stop)
        yield from skip(codec, place, path)
        return place.pos, place.end, place.stop

    return steps


def head_fallback(name: Construct, array: Sized, path: str) -> Fallback:
    """A block's name and how many entries it has: ``(pos, end, stop, name, count)``."""

    def steps(buffer: Bytes, pos: int, end: int, stop: int) -> Steps[tuple[Any, ...]]:
        place = Place(buffer, pos, end, stop)
        value = yield from read(name, place, f"{path}.{name.name}")
        count = yield from read_size(bare(array), place, f"{path}.{array.name}")
        return place.pos, place.end, place.stop, value, count

    return steps


def entry_fallback(fields: Sequence[Construct], wanted: Sequence[str], path: str) -> Fallback:
    """An entry up to its records' length or its end: ``(pos, end, stop, where it began, *wanted values)``."""

    def steps(buffer: Bytes, pos: int, end: int, stop: int) -> Steps[tuple[Any, ...]]:
        place = Place(buffer, pos, end, stop)
        yield from wait_for_fields(fields, place)
        left = place.stop - place.pos
        values = yield from read_fields(fields, wanted, place, path)
        return place.pos, place.end, place.stop, place.stop - left, *values

    return steps

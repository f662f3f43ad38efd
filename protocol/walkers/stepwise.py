"""Reads fields one at a time from a buffer that need not hold them all yet: the way that always works.

Walkers read what is plain and whole in the buffer at one stroke; everything else, a few
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
from ..wire.framing import MAX_UVARINT_BYTES, read_uvarint
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

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..wire.framing import Bytes

T = TypeVar("T")
Steps: TypeAlias = Generator[int, tuple[int, int], T]


class Cursor:
    """A walker's position: the next byte, the end of the received bytes, and the end of the body."""

    __slots__ = ("buffer", "end", "pos", "stop")

    def __init__(self, buffer: Bytes, pos: int, end: int, stop: int) -> None:
        self.buffer = buffer
        self.pos = pos
        self.end = end
        self.stop = stop

    def wait(self, size_bytes: int) -> Steps[None]:
        """Wait until so many bytes are there."""
        while self.end - self.pos < size_bytes:
            if self.end >= self.stop:
                raise ProtocolError("the message ends too early")
            yield from self.more()

    def more(self) -> Steps[None]:
        """Yield once, until the caller comes back."""
        was = self.pos
        self.pos, end = yield was
        self.stop += self.pos - was
        self.end = min(end, self.stop)

    def take(self, size_bytes: int) -> Bytes:
        """Return the next bytes, which must be there."""
        self.pos += size_bytes
        return self.buffer[self.pos - size_bytes : self.pos]


def read(codec: Construct, cursor: Cursor, path: str) -> Steps[Any]:
    """Return the value of any codec; of records the size (-1: null), and their bytes are still to come.

    An array of structs is a list of tuples, and tagged fields are the bytes of their section.
    """
    codec = bare(codec)
    if isinstance(codec, FormatField):
        yield from cursor.wait(codec.length)
        (value,) = struct.unpack(codec.fmtstr, cursor.take(codec.length))
        return value
    if isinstance(codec, TaggedFields):
        return (yield from _read_tags(cursor))
    size = yield from read_size(codec, cursor, path)
    if isinstance(codec, KRecords) or size == NULL:
        return size if isinstance(codec, KRecords) else None
    if isinstance(codec, KString):
        return (yield from _read_string(size, cursor, path))
    return (yield from _read_items(codec.subcon, size, cursor, path))


def read_size(codec: Sized, cursor: Cursor, path: str) -> Steps[int]:
    """Return the length or count that such a value begins with: one that the message can hold."""
    if codec.prefix is UVARINT:
        size = (yield from _read_uvarint(cursor)) - 1
    else:
        size = yield from read(codec.prefix, cursor, path)
    least = NULL if codec.nullable else 0
    if size < least or size * codec.item_bytes > cursor.stop - cursor.pos:
        raise ProtocolError(f"{path}: length {size} is not one the message can hold")
    if isinstance(codec, KString) and size > MAX_STRING_BYTES:
        raise ProtocolError(f"{path}: a string of {size} bytes is longer than any may be")
    return int(size)


def skip(codec: Construct, cursor: Cursor, path: str) -> Steps[None]:
    """Skip a value of any codec. The position may then be beyond ``end``: those bytes are not needed."""
    codec = bare(codec)
    if isinstance(codec, FormatField):
        yield from cursor.wait(codec.length)
        cursor.pos += codec.length
    elif isinstance(codec, TaggedFields):
        yield from _skip_tags(cursor)
    elif isinstance(codec, KArray) and not isinstance(bare(codec.subcon), FormatField):
        count = yield from read_size(codec, cursor, path)
        for _ in range(count):
            yield from skip_fields(codec.subcon, cursor, path)
    else:
        size = yield from read_size(codec, cursor, path)
        cursor.pos += max(size, 0) * codec.item_bytes


def skip_fields(body: Struct, cursor: Cursor, path: str) -> Steps[None]:
    """Skip all fields of a struct."""
    for field in body.subcons:
        yield from skip(field, cursor, f"{path}.{field.name}")


def read_fields(fields: Sequence[Construct], wanted: Sequence[str], cursor: Cursor, path: str) -> Steps[list[Any]]:
    """Return the wanted ones of these fields of a struct, in their order."""
    values = []
    for field in fields:
        if field.name in wanted:
            values.append((yield from read(field, cursor, f"{path}.{field.name}")))
        else:
            yield from skip(field, cursor, f"{path}.{field.name}")
    return values


def wait_for_fields(fields: Sequence[Construct], cursor: Cursor) -> Steps[None]:
    """Wait until there are as many bytes as these fields take at least, or all of the body.

    If the last begins with a varint, that may be a long one. So they stay together in the buffer, arrays apart.
    """
    last = bare(fields[-1])
    spare = MAX_UVARINT_BYTES - 1 if isinstance(last, Sized) and last.prefix is UVARINT else 0
    plenty = sum(map(minimum_bytes, fields)) + spare
    while cursor.end - cursor.pos < plenty and cursor.end < cursor.stop:
        yield from cursor.more()


def _read_uvarint(cursor: Cursor) -> Steps[int]:
    while True:
        found = read_uvarint(cursor.buffer, cursor.pos, cursor.end)
        if found is not None:
            value, cursor.pos = found
            return value
        yield from cursor.wait(max(cursor.end - cursor.pos, 0) + 1)


def _read_string(size: int, cursor: Cursor, path: str) -> Steps[str]:
    yield from cursor.wait(size)
    try:
        return str(cursor.take(size), "utf-8")
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{path}: not UTF-8") from error


def _read_items(item: Construct, count: int, cursor: Cursor, path: str) -> Steps[list[Any]]:
    item = bare(item)
    if isinstance(item, FormatField):
        yield from cursor.wait(count * item.length)
        return [value for (value,) in struct.iter_unpack(item.fmtstr, cursor.take(count * item.length))]
    items = []
    for _ in range(count):
        names = [field.name for field in item.subcons]
        items.append(tuple((yield from read_fields(item.subcons, names, cursor, path))))
    return items


def _skip_tags(cursor: Cursor) -> Steps[None]:
    count = yield from _read_uvarint(cursor)
    if count * TaggedFields.item_bytes > cursor.stop - cursor.pos:
        raise ProtocolError(f"{count} tagged fields are more than the message can hold")
    for _ in range(count):
        yield from _read_uvarint(cursor)
        size = yield from _read_uvarint(cursor)
        if size > cursor.stop - cursor.pos:
            raise ProtocolError(f"a tagged field of {size} bytes is more than the message can hold")
        cursor.pos += size


def _read_tags(cursor: Cursor) -> Steps[bytes]:
    """Return the section's bytes, all of them together: a first look finds how long it is."""
    ahead = Cursor(cursor.buffer, cursor.pos, cursor.end, cursor.stop)
    steps = _skip_tags(ahead)
    try:
        next(steps)
        while True:
            left = ahead.pos - cursor.pos
            yield from cursor.wait(max(left, cursor.end - cursor.pos) + 1)
            steps.send((cursor.pos + left, cursor.end))
    except StopIteration:
        size = ahead.pos - cursor.pos
    yield from cursor.wait(size)
    return bytes(cursor.take(size))


def read_at_once(steps: Steps[T]) -> T:
    """Return what the steps come to where all of the body is there, so that they read or fail, and never ask for
    more."""
    try:
        next(steps)
    except StopIteration as done:
        value: T = done.value
        return value
    raise AssertionError("more was asked for of a body that is all there")


Fallback: TypeAlias = "Callable[[Bytes, int, int, int], Steps[tuple[Any, ...]]]"
"""The function that the generated code delegates to: takes buffer, pos, end, stop; returns pos, end, stop and
values."""


def _fallback(read_values: Callable[[Cursor], Steps[tuple[Any, ...]]]) -> Fallback:
    def steps(buffer: Bytes, pos: int, end: int, stop: int) -> Steps[tuple[Any, ...]]:
        cursor = Cursor(buffer, pos, end, stop)
        values = yield from read_values(cursor)
        return cursor.pos, cursor.end, cursor.stop, *values

    return steps


def value_fallback(codec: Construct, path: str) -> Fallback:
    """Return one value: ``(pos, end, stop, value)``."""

    def read_value(cursor: Cursor) -> Steps[tuple[Any, ...]]:
        return ((yield from read(codec, cursor, path)),)

    return _fallback(read_value)


def count_fallback(array: Sized, path: str) -> Fallback:
    """Return how many items an array has: ``(pos, end, stop, count)``."""

    def read_count(cursor: Cursor) -> Steps[tuple[Any, ...]]:
        return ((yield from read_size(array, cursor, path)),)

    return _fallback(read_count)


def skip_fallback(codec: Construct, path: str) -> Fallback:
    """Return code that skips a value: ``(pos, end, stop)``."""

    def skip_value(cursor: Cursor) -> Steps[tuple[Any, ...]]:
        yield from skip(codec, cursor, path)
        return ()

    return _fallback(skip_value)


def head_fallback(name: Construct, array: Sized, path: str) -> Fallback:
    """Return a block's name and how many entries it has: ``(pos, end, stop, name, count)``."""

    def read_head(cursor: Cursor) -> Steps[tuple[Any, ...]]:
        value = yield from read(name, cursor, f"{path}.{name.name}")
        return value, (yield from read_size(bare(array), cursor, f"{path}.{array.name}"))

    return _fallback(read_head)


def entry_fallback(fields: Sequence[Construct], wanted: Sequence[str], path: str) -> Fallback:
    """Return an entry up to its records' length or its end: ``(pos, end, stop, where it began, *wanted values)``."""

    def read_entry(cursor: Cursor) -> Steps[tuple[Any, ...]]:
        yield from wait_for_fields(fields, cursor)
        left = cursor.stop - cursor.pos
        values = yield from read_fields(fields, wanted, cursor, path)
        return cursor.stop - left, *values

    return _fallback(read_entry)

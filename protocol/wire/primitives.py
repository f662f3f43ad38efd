"""Construct primitives for Kafka's variable-size types, each bounded by the bytes that are really there.

Construct's own strings, arrays and varints trust what they read: with a negative length they read everything, and with
a count of 2**31 - 1 they try to read so many items. The types here never read or allocate more than the stream still
holds, and they know null.
Must not know any message. Invariant: parsing ends in a value or a ProtocolError; a parsed value, records
apart, builds the bytes it came from.
"""

from __future__ import annotations

import io
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from construct import (
    Construct,
    ConstructError,
    FormatField,
    Int16sb,
    Int32sb,
    Renamed,
    Struct,
    Subconstruct,
    stream_read,
    stream_write,
)

from ..errors import ProtocolError
from .framing import MAX_UVARINT_BYTES, read_uvarint, write_uvarint

if TYPE_CHECKING:
    from collections.abc import Mapping


NULL = -1
MAX_STRING_BYTES = 2**15 - 1
NO_ROOT: dict[str, Any] = {"_root": None}
"""The root of a whole message: the outermost struct takes itself for it."""


class Skipped(NamedTuple):
    """Bytes that were stepped over, not read: where they are in the stream and how many (-1: null)."""

    at: int
    size_bytes: int


def remaining_bytes(stream: io.BytesIO) -> int:
    """Return how many bytes the stream still holds."""
    at = stream.tell()
    end = stream.seek(0, io.SEEK_END)
    stream.seek(at)
    return end - at


def minimum_bytes(codec: Construct) -> int:
    """Return the fewest bytes a value of this codec takes on the wire."""
    if isinstance(codec, Renamed):
        return minimum_bytes(codec.subcon)
    if isinstance(codec, FormatField):
        return int(codec.length)
    if isinstance(codec, Struct):
        return sum(minimum_bytes(field) for field in codec.subcons)
    return int(codec.minimum_bytes)


class UVarint(Construct):
    """Unsigned varint, at most five bytes and 2**32 - 1 (KIP-482)."""

    minimum_bytes = 1

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> int:  # noqa: ARG002
        at = stream.tell()
        ahead = stream.read(MAX_UVARINT_BYTES)
        found = read_uvarint(ahead, 0, len(ahead))
        if found is None:
            raise ProtocolError(f"{path}: the bytes end inside an unsigned varint")
        value, size_bytes = found
        stream.seek(at + size_bytes)
        return value

    def _build(self, obj: int, stream: io.BytesIO, context: Any, path: str) -> int:  # noqa: ARG002
        encoded = write_uvarint(obj)
        stream_write(stream, encoded, len(encoded), path)
        return obj


UVARINT = UVarint()


class Sized(Construct):
    """A length or count, then that much.

    ``prefix`` writes it: int16 and int32 as it is, an unsigned varint as n + 1, with 0 for null.
    """

    item_bytes = 1

    def __init__(self, prefix: Construct, *, nullable: bool) -> None:
        super().__init__()
        self.prefix = prefix
        self.nullable = nullable
        self.minimum_bytes = minimum_bytes(prefix)

    def parse_size(self, stream: io.BytesIO, context: Any, path: str) -> int:
        size = int(self.prefix._parse(stream, context, path))
        if self.prefix is UVARINT:
            size -= 1
        if size < (NULL if self.nullable else 0):
            raise ProtocolError(f"{path}: length {size} is not allowed here")
        if size * self.item_bytes > remaining_bytes(stream):
            raise ProtocolError(f"{path}: length {size} is more than the bytes that follow can hold")
        return size

    def build_size(self, size: int, stream: io.BytesIO, context: Any, path: str) -> None:
        self.prefix._build(size + 1 if self.prefix is UVARINT else size, stream, context, path)


class KString(Sized):
    """A length, then so many bytes of UTF-8; a str, or None where null is allowed.

    The compact encoding could hold longer strings than the int16 length of the plain one can tell, but Kafka neither
    writes nor accepts them.
    """

    def __init__(self, prefix: Construct = Int16sb, *, nullable: bool = False) -> None:
        super().__init__(prefix, nullable=nullable)

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> str | None:
        size_bytes = self.parse_size(stream, context, path)
        if size_bytes == NULL:
            return None
        if size_bytes > MAX_STRING_BYTES:
            raise ProtocolError(f"{path}: a string of {size_bytes} bytes is longer than any may be")
        try:
            return str(stream_read(stream, size_bytes, path), "utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolError(f"{path}: not UTF-8") from error

    def _build(self, obj: str | None, stream: io.BytesIO, context: Any, path: str) -> str | None:
        if obj is None:
            self.build_size(NULL, stream, context, path)
            return obj
        encoded = obj.encode()
        self.build_size(len(encoded), stream, context, path)
        stream_write(stream, encoded, len(encoded), path)
        return obj


class KBytes(Sized):
    """A length, then so many bytes; None where null is allowed."""

    def __init__(self, prefix: Construct = Int32sb, *, nullable: bool = False) -> None:
        super().__init__(prefix, nullable=nullable)

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> bytes | Skipped | None:
        size_bytes = self.parse_size(stream, context, path)
        return None if size_bytes == NULL else bytes(stream_read(stream, size_bytes, path))

    def _build(self, obj: bytes | None, stream: io.BytesIO, context: Any, path: str) -> bytes | None:
        self.build_size(NULL if obj is None else len(obj), stream, context, path)
        if obj:
            stream_write(stream, obj, len(obj), path)
        return obj


class KRecords(KBytes):
    """The same, not parsed here: parsing gives a Skipped and reads none of them."""

    def __init__(self, prefix: Construct = Int32sb) -> None:
        super().__init__(prefix, nullable=True)

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> Skipped:
        size_bytes = self.parse_size(stream, context, path)
        skipped = Skipped(stream.tell(), size_bytes)
        stream.seek(max(size_bytes, 0), io.SEEK_CUR)
        return skipped


class KArray(Sized, Subconstruct):
    """A count, then so many items; a list, or None where null is allowed.

    Every item takes at least one byte, so the bytes that are left bound the count.
    """

    def __init__(self, item: Construct, prefix: Construct = Int32sb, *, nullable: bool = False) -> None:
        Subconstruct.__init__(self, item)
        self.prefix = prefix
        self.nullable = nullable
        self.minimum_bytes = minimum_bytes(prefix)
        self.item_bytes = minimum_bytes(item)

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> list[Any] | None:
        count = self.parse_size(stream, context, path)
        if count == NULL:
            return None
        return [self.subcon._parsereport(stream, context, path) for _ in range(count)]

    def _build(self, obj: list[Any] | None, stream: io.BytesIO, context: Any, path: str) -> list[Any] | None:
        self.build_size(NULL if obj is None else len(obj), stream, context, path)
        for item in obj or ():
            self.subcon._build(item, stream, context, path)
        return obj


class KUuid(FormatField):
    """16 bytes, kept as they are."""

    def __init__(self) -> None:
        super().__init__(">", "Q")
        self.fmtstr, self.length = ">16s", 16


UUID = KUuid()


class TaggedFields(Construct):
    """The tag section that ends every struct of a flexible version: a list of (tag, bytes) (KIP-482).

    ``known`` are the tags that the version has a field for: their bytes must parse as such, to the last.
    Building takes the list as it was parsed; ``values`` of known fields are turned into one by ``encoded``.
    """

    minimum_bytes = 1
    item_bytes = 2  # a tag, and the size of its value

    def __init__(self, known: Mapping[int, Renamed] = MappingProxyType({})) -> None:
        super().__init__()
        self.known = known

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> list[tuple[int, bytes]]:
        count = UVARINT._parse(stream, context, path)
        if count * self.item_bytes > remaining_bytes(stream):
            raise ProtocolError(f"{path}: {count} tagged fields do not fit the bytes that follow")
        fields = []
        for _ in range(count):
            tag = UVARINT._parse(stream, context, path)
            size_bytes = UVARINT._parse(stream, context, path)
            if size_bytes > remaining_bytes(stream):
                raise ProtocolError(f"{path}: tag {tag} is longer than the bytes that follow")
            fields.append((tag, stream_read(stream, size_bytes, path)))
        self.values(fields)
        return fields

    def values(self, fields: list[tuple[int, bytes]]) -> dict[str, Any]:
        """Return the known ones of the fields, parsed, by name; of a repeated one the last, as in Kafka."""
        found = {}
        for tag, data in fields:
            codec = self.known.get(tag)
            if codec is not None:
                stream = io.BytesIO(data)
                try:
                    found[codec.name] = parsed(codec, stream)
                except (ConstructError, ProtocolError) as error:
                    raise ProtocolError(f"tag {tag} is not {codec.name}: {error}") from error
                if stream.tell() != len(data):
                    raise ProtocolError(f"tag {tag}: {len(data) - stream.tell()} bytes follow the {codec.name}")
        return found

    def encoded(self, values: Mapping[str, Any]) -> list[tuple[int, bytes]]:
        """Return the fields that ``values`` (by name) has for the known tags, in the order of the tags."""
        known = sorted(self.known.items())
        return [(tag, built(codec, values[codec.name])) for tag, codec in known if codec.name in values]

    def _build(
        self,
        obj: list[tuple[int, bytes]] | None,
        stream: io.BytesIO,
        context: Any,  # noqa: ARG002
        path: str,
    ) -> Any:
        fields = obj or []
        encoded = write_uvarint(len(fields))
        encoded += b"".join(write_uvarint(tag) + write_uvarint(len(value)) + value for tag, value in fields)
        stream_write(stream, encoded, len(encoded), path)
        return obj


class _Whole(Subconstruct):
    """A message whose context is cleared once it has been parsed or built.

    Construct hands a context down to every codec of a message. That of the whole message refers to itself
    (``_params``), and so does that of its outermost struct (``_root``), which holds every value and the bytes. Both
    stay until Python looks for garbage among everything new: under hostile answers at full speed that was 140 000
    objects in 19 seconds, and a pause of 180 ms (measured). No codec here looks at a context.
    """

    def _parse(self, stream: io.BytesIO, context: Any, path: str) -> Any:
        try:
            return self.subcon._parsereport(stream, context, path)
        finally:
            context.clear()

    def _build(self, obj: Any, stream: io.BytesIO, context: Any, path: str) -> Any:
        try:
            return self.subcon._build(obj, stream, context, path)
        finally:
            context.clear()


def parsed(codec: Construct, stream: io.BytesIO) -> Any:
    """Return what the stream holds next, by ``codec``. Raises ConstructError, and what codecs of ours raise."""
    return _Whole(codec).parse_stream(stream, **NO_ROOT)


def built(codec: Construct, value: Any) -> bytes:
    """Return the bytes of ``value``, by ``codec``. Raises ConstructError."""
    return bytes(_Whole(codec).build(value, **NO_ROOT))

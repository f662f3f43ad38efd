"""Turns a journal file's bytes into its lines, and says how it ends: whole, cut off, altered, or no gzip at all.

Pure, standard library. Invariant: of a file that is whole or cut off, a line that is returned is as it was written. If
a byte of a file has changed, nothing says which lines the change is in: then none of them counts.
"""

from __future__ import annotations

import enum
import zlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC = b"\x1f\x8b"
_GZIP = 16 + zlib.MAX_WBITS
_PIECE_BYTES = 1 << 20
MAX_LINE_BYTES = 64 << 20
"""A line of fifteen seconds has some 100 bytes a partition. What is longer than this is no line of a journal."""


class FileEnd(enum.StrEnum):
    WHOLE = "whole"
    """The gzip is complete."""
    CUT = "cut"
    """The file ends before the gzip is complete, after a kill -9, on a full disk, or in a copy that is still being
    made."""
    ALTERED = "altered"
    """A checksum or the coding is wrong: at least one byte is not what was written."""
    FOREIGN = "foreign"
    """No gzip."""


class Inflated(NamedTuple):
    end: FileEnd
    why: str
    """The problem, in a few words; empty if there is none."""


def lines(content: bytes) -> Iterator[str | Inflated]:
    """Yield the lines, the last one only if it is whole, and in the end how the file ends."""
    if not content:
        yield Inflated(FileEnd.CUT, "it is empty")
        return
    if not _MAGIC.startswith(content[: len(_MAGIC)]):
        yield Inflated(FileEnd.FOREIGN, "it does not begin as gzip does")
        return
    rest, is_complete = b"", False
    try:
        for piece, at_the_end in _pieces(content):
            is_complete = at_the_end
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.rstrip(b"\r").decode("utf-8", "replace")
            if len(rest) > MAX_LINE_BYTES:
                yield Inflated(FileEnd.ALTERED, f"a line has more than {MAX_LINE_BYTES} bytes")
                return
    except zlib.error as error:
        yield Inflated(FileEnd.ALTERED, str(error))
        return
    if rest and is_complete:
        yield rest.decode("utf-8", "replace")
    yield Inflated(FileEnd.WHOLE, "") if is_complete else Inflated(FileEnd.CUT, "it ends in the middle")


def _pieces(content: bytes) -> Iterator[tuple[bytes, bool]]:
    """Decompress a piece at a time, one gzip member after the other; and whether that is at a member's end."""
    member = zlib.decompressobj(_GZIP)
    rest = content
    while rest:
        if member.eof:
            member = zlib.decompressobj(_GZIP)
        yield member.decompress(rest, _PIECE_BYTES), member.eof
        rest = member.unused_data or member.unconsumed_tail
    # The last bytes of the input may be taken while their output still waits for room.
    yield member.flush(), member.eof

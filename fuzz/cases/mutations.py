"""Mutations of bytes that were right. Pure: the same generator of random numbers does the same to the same bytes.

Invariant: the result is no longer than `MAX_BYTES`, or than what it was made of.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

MAX_BYTES = 1024 * 1024
INT8 = (0, 1, 0x7F, 0x80, 0xFF, 0xFE)
INT16 = (0, 1, -1, -2, 2**15 - 1, -(2**15), 255, 256)
INT32 = (0, 1, -1, -2, -4, -8, -14, 4, 8, 2**31 - 1, -(2**31), 2**16, 2**24, 100_000)
INT64 = (0, 1, -1, 2**63 - 1, -(2**63), 2**32)
VARINTS = tuple(
    bytes.fromhex(one)
    for one in ("00", "01", "7f", "ff7f", "8000", "80808000", "ffffffff0f", "ffffffff7f", "ffffffffff", "8080808010")
)
"""Short and long, longer than needed, above 32 bits, without an end."""


def _at(rng: Random, data: bytearray, size: int = 1) -> int:
    return rng.randrange(max(len(data) - size, 0) + 1)


def _put(data: bytearray, at: int, new: bytes) -> None:
    data[at : at + len(new)] = new


def flip(rng: Random, data: bytearray) -> None:
    """Flip one bit."""
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def set_byte(rng: Random, data: bytearray) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice(INT8)


def set_int16(rng: Random, data: bytearray) -> None:
    _put(data, _at(rng, data, 2), struct.pack(">h", rng.choice(INT16)))


def set_int32(rng: Random, data: bytearray) -> None:
    _put(data, _at(rng, data, 4), struct.pack(">i", rng.choice(INT32)))


def set_int64(rng: Random, data: bytearray) -> None:
    _put(data, _at(rng, data, 8), struct.pack(">q", rng.choice(INT64)))


def add_to_int(rng: Random, data: bytearray) -> None:
    """Add a little to an integer, which may be a length or a count: values near the truth get furthest."""
    if data:
        at = rng.randrange(len(data))
        data[at] = (data[at] + rng.choice((1, -1, 2, -2, 16))) % 256


def set_varint(rng: Random, data: bytearray) -> None:
    at = _at(rng, data)
    data[at : at + 1] = rng.choice(VARINTS)


def cut_out(rng: Random, data: bytearray) -> None:
    at = _at(rng, data)
    del data[at : at + rng.choice((1, 2, 4, 8, 16, 100))]


def repeat(rng: Random, data: bytearray) -> None:
    at = _at(rng, data)
    data[at:at] = data[at : at + rng.choice((1, 4, 16, 200))] * rng.choice((1, 1, 2, 50))


def put_in(rng: Random, data: bytearray) -> None:
    at = _at(rng, data)
    data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8, 64)))


def truncate(rng: Random, data: bytearray) -> None:
    del data[_at(rng, data) :]


MUTATIONS: tuple[Callable[[Random, bytearray], None], ...] = (
    flip, set_byte, set_int16, set_int32, set_int64, add_to_int, set_varint, cut_out, repeat, put_in, truncate,
)  # fmt: skip


def mutated(rng: Random, data: bytes, *, times: int | None = None) -> bytes:
    """Return `data` after some of these mutations; now and then after none."""
    changed = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 8)) if times is None else times):
        rng.choice(MUTATIONS)(rng, changed)
    return bytes(changed[: max(MAX_BYTES, len(data))])


def prefixed(rng: Random, frame: bytes, *, lies: float) -> bytes:
    """Return the frame behind a length prefix, which lies with that probability."""
    size = len(frame)
    if rng.random() < lies:
        size = rng.choice((*INT32, size - 1, size + 1, size - 4, size + 4, -size, 2 * size, 512 * 1024 + 1))
    return struct.pack(">i", max(min(size, 2**31 - 1), -(2**31))) + frame


def chunks(rng: Random, data: bytes) -> tuple[bytes, ...]:
    """Cut the bytes as they are sent: mostly not at all, or somewhere, or, if they are few, byte by byte."""
    way = rng.random()
    if way < 0.75 or len(data) < 2:
        return (data,)
    if way < 0.97 or len(data) > 1000:
        cuts = sorted({0, len(data), *(rng.randrange(1, len(data)) for _ in range(rng.choice((1, 1, 2, 5))))})
        return tuple(data[begin:end] for begin, end in itertools.pairwise(cuts))
    return tuple(data[n : n + 1] for n in range(len(data)))

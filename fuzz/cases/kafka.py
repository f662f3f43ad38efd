"""Hostile requests of every API and version, and hostile answers to good ones.

Bodies come from Kafka's own golden frames, from the project's tables and from nowhere. Pure.
"""

from __future__ import annotations

import functools
import json
import random
import struct
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS
from protocol.wire.apis import API_CONTROLLED_SHUTDOWN, API_FETCH, APIS, is_flexible

from .case import Case, Door, Ending, generator
from .mutations import INT16, INT32, chunks, mutated, prefixed
from .random_fetches import Exchange, exchange

if TYPE_CHECKING:
    from random import Random

GOLDEN = Path(__file__).parents[2] / "tests" / "protocol" / "golden"
GROWN_PER_VERSION = 40
MAX_FRAMES = 40
_HEAD = struct.Struct(">hhih")
_SHORT = struct.Struct(">ihhih")
_FETCHES = (API_FETCH,) * 3
_PLAIN = (2, 3, 4, 8, 10, 12, 18, 23)
_SIZES = (0, 1, -1, -4, -8, -14, 10, 14, 100, 2**31 - 1, -(2**31))
UNKNOWN_APIS = (88, 1000, 2**15 - 1, -1, -(2**15))


class Pool(NamedTuple):
    """The frames that mutations begin with."""

    requests: tuple[bytes, ...]
    """Golden frames of every API, header and all, without the length prefix."""
    responses: tuple[bytes, ...]
    exchanges: tuple[Exchange, ...]


@functools.cache
def pool() -> Pool:
    """Return the pool, which is always the same."""
    rng = random.Random("pool")  # noqa: S311 - to be repeated
    lines = [
        json.loads(line) for name in ("fetch.jsonl", "heads.jsonl") for line in (GOLDEN / name).read_text().splitlines()
    ]
    frames = [(said["kind"], (GOLDEN / "frames" / said["file"]).read_bytes()) for said in lines]
    return Pool(
        requests=tuple(frame for kind, frame in frames if kind == "request"),
        responses=tuple(frame for kind, frame in frames if kind == "response"),
        exchanges=tuple(exchange(rng, v) for v in SUPPORTED_FETCH_VERSIONS for _ in range(GROWN_PER_VERSION)),
    )


def request_case(seed: int, number: int) -> Case:
    """Make a connection of hostile requests, which a leader answers as it should, if it can."""
    rng = generator(seed, "requests", number)
    name = f"requests-{number}"
    frames = [hostile_request(rng, name) for _ in range(rng.choice((1, 1, 2, 5, 20, MAX_FRAMES)))]
    if rng.random() < 0.2:  # what follows one that is hostile is often never looked at
        frames = [_short(rng) for _ in frames[:3]]
    if rng.random() < 0.5:  # the relay is past its first frame
        frames.insert(0, well_formed(rng, name))
    return Case(
        family="requests", number=number, door=rng.choice((Door.INGRESS, Door.EGRESS)), name=name,
        chunks=chunks(rng, b"".join(frames)), frames=len(frames), ending=_ending(rng),
    )  # fmt: skip


def answer_case(seed: int, number: int) -> Case:
    """Make a connection of good requests, and a leader that answers them with something else."""
    rng = generator(seed, "answers", number)
    name = f"answers-{number}"
    exchanges = [rng.choice(pool().exchanges) for _ in range(rng.choice((1, 2, 5, 10, 30)))]
    if rng.random() < 0.7:  # a replica that comes again with the same, as they do
        exchanges = [exchanges[0]] * len(exchanges)
    first = rng.choice((0, 1, 2**31 - 3, -5))
    ids = [_wrapped(first + n) for n in range(len(exchanges))]
    requests = [
        _request(API_FETCH, one.version, id_, name, one.request) for one, id_ in zip(exchanges, ids, strict=True)
    ]
    answers = tuple(_hostile_answer(rng, one, id_) for one, id_ in zip(exchanges, ids, strict=True))
    return Case(
        family="answers", number=number, door=rng.choice((Door.INGRESS, Door.EGRESS)), name=name,
        chunks=tuple(requests), answers=answers, frames=len(answers), ending=Ending.LINGER,
    )  # fmt: skip


def hostile_request(rng: Random, name: str) -> bytes:
    """Return one request with its length prefix: right, nearly right, or no request at all."""
    kind = rng.random()
    if kind < 0.05:
        return _short(rng)
    if kind < 0.45:
        return prefixed(rng, mutated(rng, rng.choice(pool().requests)), lies=0.05)
    if kind < 0.80:
        one = rng.choice(pool().exchanges)
        frame = _request(API_FETCH, one.version, rng.choice(INT32), name, one.request)[4:]
        return prefixed(rng, mutated(rng, frame), lies=0.05)
    if kind < 0.92:
        key = rng.choice((*APIS, *UNKNOWN_APIS))
        body = rng.randbytes(rng.choice((0, 1, 4, 30, 300)))
        frame = _request(key, rng.choice((*range(20), *INT16)), rng.choice(INT32), name, body)[4:]
        return prefixed(rng, mutated(rng, frame), lies=0.05)
    if kind < 0.95:
        return prefixed(rng, _tagged(rng, name), lies=0.1)
    return prefixed(rng, rng.randbytes(rng.choice((0, 1, 3, 4, 8, 13, 14, 100, 5000))), lies=0.5)


def _short(rng: Random) -> bytes:
    """Return a whole header, and not a byte more, whatever its length prefix and its client id's length say."""
    key = rng.choice((*_FETCHES, *_PLAIN, 0, 7, 17, *UNKNOWN_APIS))
    return _SHORT.pack(rng.choice(_SIZES), key, rng.choice((0, 1, 3, 4, 12, -1)), 1, rng.choice(INT16))


def well_formed(rng: Random, name: str) -> bytes:
    """Return one request with its length prefix, as Kafka's own client would send it."""
    if rng.random() < 0.3:
        frame = rng.choice(pool().requests)
        return struct.pack(">i", len(frame)) + frame
    one = rng.choice(pool().exchanges)
    return _request(API_FETCH, one.version, 1, name, one.request)


def _tagged(rng: Random, name: str) -> bytes:
    """Return a flexible header with more tagged fields than any client needs: right, or one that claims more than there
    are."""
    count = rng.choice((1, 100, 390, 2000))
    said = rng.choice((count, 127, 2**14, 2**32 - 1))
    head = _HEAD.pack(API_FETCH, 12, 1, len(name)) + name.encode() + _uvarint(said)
    return head + b"".join(_uvarint(n) + b"\0" for n in range(count))


def _hostile_answer(rng: Random, one: Exchange, correlation_id: int) -> tuple[bytes, ...]:
    head = struct.pack(">i", correlation_id if rng.random() < 0.95 else rng.choice(INT32))
    if is_flexible(API_FETCH, one.version):
        head += b"\0"
    kind = rng.random()
    if kind < 0.75:
        body = mutated(rng, one.answer)
    elif kind < 0.9:
        body = mutated(rng, rng.choice(pool().responses))[4:]
    else:
        body = rng.randbytes(rng.choice((0, 1, 8, 100)))
    answer = prefixed(rng, head + body, lies=0.08)
    if rng.random() < 0.03:  # more than was asked for
        answer *= 2
    return chunks(rng, answer)


def _request(key: int, version: int, correlation_id: int, name: str, body: bytes) -> bytes:
    """Return the request with its length prefix."""
    client = b"" if (key, version) == (API_CONTROLLED_SHUTDOWN, 0) else name.encode()
    frame = _HEAD.pack(key, version, correlation_id, len(client)) + client
    frame += (b"\0" if is_flexible(key, version) else b"") + body
    return struct.pack(">i", len(frame)) + frame


def _ending(rng: Random) -> Ending:
    return rng.choice((Ending.CLOSE, Ending.RESET, Ending.HALF_CLOSE, Ending.LINGER))


def _wrapped(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def _uvarint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])

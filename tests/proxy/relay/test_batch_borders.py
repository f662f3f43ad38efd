"""Records that are cut off where their grant ended pass untouched, by whatever way, and tell what to grant next."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import trio

from admission.wishes import is_many
from protocol.fetch.batches import BATCH_HEADER_BYTES
from protocol.fetch.request import parse_fetch_request
from protocol.wire.framing import with_length
from tests.proxy.conversation import MIB, throttle

from .wire import T0, T1, Wire, answer, batch, entry, read_frame, relayed

if TYPE_CHECKING:
    from trio.testing import MockClock

END = 1_000_000


def granted(request: bytes) -> dict[tuple[str, int], int]:
    return {(str(e.topic), e.partition): e.partition_max_bytes for e in parse_fetch_request(request).entries}


def cut(sizes: tuple[int, ...], limit: int) -> tuple[bytes, int, int]:
    """Batches of these sizes, in turns, cut at `limit`; how many bytes of them are whole; the size of the next one."""
    records, whole = bytearray(), 0
    for number, size in enumerate(itertools.cycle(sizes)):
        if whole + size > limit:
            return bytes(records + batch(size, b"%d" % (number % 10)))[:limit], whole, size
        records += batch(size, b"%d" % (number % 10))
        whole += size
    raise AssertionError


async def met(wire: Wire, offsets: dict[tuple[str, int], int]) -> None:
    """The follower is behind and that is known."""
    told = answer([entry(partition, high_watermark=END) for _, partition in offsets])
    assert (await wire.in_flight(offsets, told))[1] == told


async def passed(wire: Wire, *pieces: bytes) -> bytes:
    """What the follower gets of a frame that the leader sends in pieces."""

    async def send() -> None:
        for piece in pieces:
            await wire.leader.send_all(piece)
            await trio.sleep(0.001)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send)
        return await read_frame(wire.follower)
    raise AssertionError


@pytest.mark.parametrize(
    "sizes",
    [(1000,), (15_000,), (60_000,), (150_000,), (200_000, 1000, 3000), (70_001, 300_000)],
    ids=str,
)
async def test_the_next_batch_is_known_from_the_part_of_it_that_came(sizes: tuple[int, ...], clock: MockClock) -> None:
    of = throttle(4 * MIB)
    async with relayed(of) as wire:
        await met(wire, {T0: 0})
        await wire.ask({T0: 0})
        limit = granted(await wire.asked())[T0]
        assert limit < MIB
        records, whole, size = cut(sizes, limit)
        told = answer([entry(0, records, high_watermark=END)])
        assert await passed(wire, with_length(told)) == told
        await wire.ask({T0: 9})
        again = granted(await wire.asked())[T0]
        (link,) = of.links
        batches = link.replicas.known[T0].batches
        if not is_many(limit, max(sizes)):
            assert batches.next == size
            assert again >= size + BATCH_HEADER_BYTES
            assert (again - size - BATCH_HEADER_BYTES) % batches.largest == 0, "it ends where a batch is supposed to"
        assert batches.largest == max(sizes)
        assert whole


async def test_a_leader_that_sends_in_pieces_is_understood(clock: MockClock) -> None:
    """The first piece ends within a header of a batch, the second within the entry of the next partition."""
    of = throttle(4 * MIB)
    async with relayed(of) as wire:
        await met(wire, {T0: 0, T1: END})
        await wire.ask({T0: 0, T1: END})
        limit = granted(await wire.asked())[T0]
        records, whole, size = cut((60_000,), limit)
        told = answer([entry(0, records, high_watermark=END), entry(1, b"", high_watermark=END)])
        frame = with_length(told)
        at = frame.index(records) + whole + 5
        pieces = frame[: at - 60_000], frame[at - 60_000 : at], frame[at:-20], frame[-20:]
        assert await passed(wire, *pieces) == told
        await wire.ask({T0: 9, T1: END})
        await wire.asked()
        (link,) = of.links
        assert link.replicas.known[T0].batches.next == size

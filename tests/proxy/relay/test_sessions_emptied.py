"""Fetch v7 to v18 on the wire, in sessions and outside: records that are over quota by the time they arrive are
replaced by a length of 0, nothing else. How sessions go otherwise: test_sessions."""

from __future__ import annotations

import itertools

import pytest
import trio
import trio.testing

from protocol.wire.layout import TAGS
from tests.proxy.conversation import MIB, quotas, throttle

from .test_sessions import (
    GRANTED,
    HIGH,
    SESSION,
    answer,
    asks,
    body_of,
    each_version,
    frame_of,
    hears,
    listed,
    meet,
    told,
)
from .wire import batch, entry, patient_clock, relayed, reserved_bytes

pytestmark = pytest.mark.usefixtures("no_lingering")


async def lowered(version: int, frame: bytes, *, pieces: int = 0, session: bool = True) -> bytes:
    """Everything is granted at 400 MiB/s; before the answer comes, the quota falls to 64 KiB/s."""
    of = throttle(400 * MIB)
    async with relayed(of) as wire:
        await meet(wire, version, session_id=SESSION if session else 0)
        asked, ids = ({}, (SESSION, 1)) if session else (dict.fromkeys(range(3), 0), (0, 0))
        await asks(wire, frame_of(version, asked, session=ids))
        trio.lowlevel.current_clock().jump(0.001)
        of.apply(quotas(65536), trio.current_time())
        received = await hears(wire, frame, pieces)
        await trio.testing.wait_all_tasks_blocked()
        assert reserved_bytes(of) == 0
        assert of.statistics.substituted_partitions == 1
    return received


def over_quota(version: int, size: int) -> tuple[bytes, bytes]:
    """The answer, and what is to be left of it: a length of 0 in place of the records, nothing else."""

    def of(records: bytes) -> bytes:
        entries = [
            entry(0, records, high_watermark=HIGH + 5, aborted=[(5, 6)]),
            entry(1, None),
            entry(2, b"", error=6, high_watermark=-1),
        ]
        return answer(version, entries, tags=version >= 12)

    return of(batch(size)), of(b"")


@each_version
@pytest.mark.parametrize("session", [True, False])
@pytest.mark.parametrize("size", [20, 126, 127, 20_000, 900_000])
async def test_only_their_records_are_emptied(
    version: int, session: bool, size: int, clock: trio.testing.MockClock
) -> None:
    """Lengths of one to three bytes in flexible versions."""
    frame, expected = over_quota(version, size)
    assert await lowered(version, frame, session=session) == expected


@each_version
def test_they_are_emptied_in_pieces_of_any_size(version: int) -> None:
    frame, expected = over_quota(version, 150)
    for pieces in itertools.chain(range(1, 41), [149, 200]):

        async def scenario(pieces: int = pieces) -> bytes:
            return await lowered(version, frame, pieces=pieces)

        assert trio.run(scenario, clock=patient_clock()) == expected


@each_version
async def test_emptied_and_replayed_at_once(version: int, clock: trio.testing.MockClock) -> None:
    """A full answer: one omitted, of another the records are over quota when they come."""
    of = throttle()
    async with relayed(of) as wire:
        await meet(wire, version, session_id=0)
        assert listed(await asks(wire, frame_of(version, dict.fromkeys(range(3), 0)))) == [GRANTED]
        trio.lowlevel.current_clock().jump(0.001)
        of.apply(quotas(1), trio.current_time())
        received = await hears(wire, answer(version, [entry(GRANTED, batch(500))], tags=version >= 12), 11)
        assert told(version, received) == [(GRANTED, 0, HIGH, 0), (1, 0, HIGH, 0), (2, 0, HIGH, 0)]
        without = body_of(version, answer(version, [], tags=version >= 12))
        assert body_of(version, received).get(TAGS) == without.get(TAGS)

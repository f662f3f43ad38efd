"""A connection that is to end does so between two requests: none stays unanswered, no record that was sent with acks=0
is lost, and its follower learns of the end before it asks again."""

from __future__ import annotations

import os
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from protocol.wire.apis import API_PRODUCE
from protocol.wire.framing import with_length
from proxy.relay import connection as relaying
from proxy.relay.poller import open_poller

from ..conversation import fetch_frame
from . import wire as wiring
from .wire import T0, answer, entry, read_all, read_exactly, read_frame, relayed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

    from proxy.relay.poller import Poller

    from .wire import Wire

METADATA = with_length(struct.pack(">hhih", 3, 1, 7, 3) + b"abc" + struct.pack(">i", -1))
ANSWERED = with_length((7).to_bytes(4) + b"and what follows")
UNSEEN = 3
"""How many requests a busy producer has in flight."""


def produce(number: int) -> bytes:
    """A Produce v2 with acks=0."""
    return with_length(
        struct.pack(">hhih", API_PRODUCE, 2, number, 3) + b"abc" + struct.pack(">hi", 0, 1000) + bytes(500)
    )


async def ends(wire: Wire) -> None:
    wire.draining.begun.set()
    await trio.testing.wait_all_tasks_blocked(0.02)


async def test_the_end_goes_with_the_last_answer(clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that found the end in answer to its next fetch waited for a second before it came back."""
    pollers: list[Poller] = []

    @asynccontextmanager
    async def opened() -> AsyncIterator[Poller]:
        async with open_poller() as poller:
            assert poller is not None
            pollers.append(poller)
            yield poller

    monkeypatch.setattr(wiring, "open_poller", opened)
    async with relayed() as wire:
        await wire.ask({T0: 5})
        await wire.asked()
        await ends(wire)
        frame, (follower, leader) = with_length(answer([entry(0)])), (wire.follower.socket, wire.leader.socket)
        os.write(leader.fileno(), frame)
        pollers[0]._poll()  # and no task of Trio's runs meanwhile
        assert os.read(follower.fileno(), len(frame)) == frame
        assert os.read(follower.fileno(), 1) == b""
    assert wire.ending["cause"] == "drained"


async def test_one_on_which_nothing_has_come_in_this_process_ends_at_once(clock: MockClock) -> None:
    """It was taken over, and idle since: whether something is unread is not known before it is tried."""
    async with relayed() as wire:
        wire.draining.begun.set()
        await wire.finished.wait()
        assert trio.current_time() < relaying.LOOK_SECONDS * 3
    assert wire.ending["cause"] == "drained"


async def test_half_a_request_is_waited_for_and_answered(clock: MockClock) -> None:
    request = with_length(fetch_frame({T0: 5}))
    async with relayed() as wire:
        await wire.follower.send_all(request[:-5])
        await ends(wire)
        assert not wire.finished.is_set()
        await wire.follower.send_all(request[-5:])
        assert (await wire.asked())[:12] == request[4:16]
        await wire.leader.send_all(with_length(answer([entry(0)])))
        assert await read_frame(wire.follower) == answer([entry(0)])
        await wire.finished.wait()
    assert wire.ending["cause"] == "drained"


async def test_half_a_request_that_never_ends_is_not_waited_for_long(clock: MockClock) -> None:
    async with relayed() as wire:
        await wire.follower.send_all(with_length(fetch_frame({T0: 5}))[:-5])
        began = trio.current_time()
        await ends(wire)
        await wire.finished.wait()
        assert trio.current_time() - began == pytest.approx(relaying.UNREAD_SECONDS, abs=0.2)
    assert wire.ending["cause"] == "drained"


async def test_one_that_always_has_a_request_in_flight_ends_when_what_was_read_is_answered(clock: MockClock) -> None:
    async with relayed() as wire:
        await wire.follower.send_all(METADATA * UNSEEN)
        began, answered = trio.current_time(), 0
        wire.draining.begun.set()

        async def answers() -> None:
            nonlocal answered
            while await wire.leader.receive_some(len(METADATA)):
                await trio.sleep(0.1)
                answered += 1
                await wire.leader.send_all(ANSWERED)
                if trio.current_time() < began + 2 * relaying.UNREAD_SECONDS:
                    await wire.follower.send_all(METADATA)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answers)
            found = await read_all(wire.follower)
        assert len(found) == answered * len(ANSWERED)
        assert trio.current_time() - began < relaying.UNREAD_SECONDS + 1
    assert wire.ending["cause"] == "drained"


async def test_what_a_producer_without_acks_sends_until_it_knows_of_the_end_goes_on(clock: MockClock) -> None:
    """It learns of nothing that is lost."""
    async with relayed() as wire:
        await wire.follower.send_all(produce(0))
        await ends(wire)
        assert await wire.follower.receive_some(1) == b""
        for number in (1, 2):
            await wire.follower.send_all(produce(number))
        await wire.follower.send_eof()
        assert await read_all(wire.leader) == b"".join(produce(number) for number in range(3))
    assert wire.ending["cause"] == "drained"


async def test_a_producer_without_acks_that_never_ends_is_not_waited_for_long(clock: MockClock) -> None:
    async with relayed() as wire:
        began = trio.current_time()
        await wire.follower.send_all(produce(0))
        await ends(wire)
        assert await read_exactly(wire.leader, len(produce(0))) == produce(0)
        await wire.finished.wait()
        assert trio.current_time() - began < relaying.UNREAD_SECONDS + 0.5
    assert wire.ending["cause"] == "drained"

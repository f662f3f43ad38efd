"""Peers that say nothing are waited for, for a while, and make room for others; what they say stays in its socket."""

from __future__ import annotations

import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import trio
import trio.testing

from proxy.network.silent_peers import MIN_SECONDS, SilentPeers
from proxy.relay.connection import Connection, Draining, Given

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

SECONDS = 30.0


class Scene:
    """`peers` are the tests' ends of sockets, `heard` what was found of each."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.silent = SilentPeers(SECONDS)
        self.draining = Draining()
        self.peers: list[socket.socket] = []
        self.heard: dict[int, bool] = {}
        self._nursery = nursery

    async def connect(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        theirs.settimeout(0)
        self.peers += ours, theirs
        self._nursery.start_soon(self._hear, len(self.peers) // 2 - 1, theirs)
        await trio.testing.wait_all_tasks_blocked()
        return ours

    async def _hear(self, number: int, sock: socket.socket) -> None:
        self.heard[number] = await self.silent.has_spoken(sock, self.draining)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with trio.open_nursery() as nursery:
        found = Scene(nursery)
        yield found
        nursery.cancel_scope.cancel()
    for sock in found.peers:
        sock.close()


async def _give(_: Connection) -> Given:
    return Given.TAKEN


async def settled() -> None:
    """Until what the kernel has told is dealt with."""
    await trio.testing.wait_all_tasks_blocked(0.01)


async def test_the_first_byte_is_waited_for_and_stays() -> None:
    async with scene() as to:
        ours = await to.connect()
        assert to.heard == {}
        ours.send(b"xy")
        await settled()
        assert to.heard == {0: True}
        assert to.peers[1].recv(2) == b"xy"


async def test_an_end_without_a_word_is_no_word() -> None:
    async with scene() as to:
        (await to.connect()).close()
        await settled()
        assert to.heard == {0: False}
        assert to.silent.closed == 0


async def test_the_wait_has_an_end(autojump_clock: MockClock) -> None:
    async with scene() as to:
        await to.connect()
        await trio.sleep(SECONDS - 0.1)
        assert to.heard == {}
        await trio.sleep(0.2)
        assert to.heard == {0: False}
        assert to.silent.closed == 1


async def test_those_that_have_been_silent_the_longest_make_room(mock_clock: MockClock) -> None:
    async with scene() as to:
        for _ in range(3):
            await to.connect()
            mock_clock.jump(0.1)
        mock_clock.jump(MIN_SECONDS)
        await to.connect()
        to.silent.make_room(2)
        await settled()
        assert to.heard == {0: False, 1: False}
        to.silent.make_room(2)
        await settled()
        assert to.heard == {0: False, 1: False, 2: False}, "the last one has hardly had the time to say something"
        assert to.silent.closed == 3


async def test_a_drain_waits_for_nobody() -> None:
    async with scene() as to:
        await to.connect()
        to.draining.begun.set()
        to.silent.look_again()
        await settled()
        await to.connect()  # accepted just before, and looked at only now
        assert to.heard == {0: False, 1: False}
        assert to.silent.closed == 0


async def test_who_has_just_connected_is_handed_over(mock_clock: MockClock) -> None:
    async with scene() as to:
        await to.connect()
        mock_clock.jump(MIN_SECONDS)
        await to.connect()
        to.draining.give = _give
        to.draining.begun.set()
        to.silent.look_again()
        await settled()
        assert to.heard == {0: False, 1: True}

"""What comes whole is dealt with where the poller finds it; what needs waiting is the flow's, in order."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from proxy.relay.eager import Eager
from proxy.relay.leg import Leg
from proxy.relay.window import READ_AHEAD_BYTES, Window

from .test_poller import settle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.relay.poller import Poller


@contextmanager
def pairs(poller: Poller) -> Iterator[tuple[Leg, socket.socket, Leg, socket.socket]]:
    """(a leg to read from, its peer, a leg to send to, its peer), both legs the poller's."""
    ours, theirs = socket.socketpair(), socket.socketpair()
    source, to = Leg(ours[0]), Leg(theirs[0])
    for leg in (source, to):
        poller.attach(leg)
    with ours[0], ours[1], theirs[0], theirs[1]:
        yield source, ours[1], to, theirs[1]
        for leg in (source, to):
            poller.detach(leg)


class Room:
    """Takes lower-case bytes at once and leaves anything else; notes what was counted and how often all was sent."""

    def __init__(self, source: Leg, to: Leg) -> None:
        self.window = Window(source, 64 * 1024)
        self.eager = Eager(self.window, to, self._handle, count=self._count, sent=self._sent)
        self.counted = self.sends = self.wakes = 0

    def _handle(self) -> bool:
        data = self.window.peek(self.window.size)
        if data == b"fail":
            raise ConnectionResetError("in the poller")
        if not data.islower():
            return False
        self.window.take(len(data))
        return self.eager.send(data)

    def _count(self, size: int) -> None:
        self.counted += size

    def _sent(self) -> None:
        self.sends += 1

    async def left(self) -> bytes:
        """What the flow gets; empty at the end."""
        while True:
            await self.eager.wait()
            self.wakes += 1
            if not await self.window.fill(1):
                return b""
            data = self.window.peek(self.window.size)
            if not data.islower():
                self.window.take(len(data))
                return data


async def test_what_can_be_taken_at_once_wakes_nobody_and_what_cannot_is_the_flows(poller: Poller) -> None:
    with pairs(poller) as (source, follower, to, leader), trio.fail_after(5):
        room = Room(source, to)
        got: list[bytes] = []

        async def drive() -> None:
            got.append(await poller.drive(room.left()))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive)
            for each in (b"one", b"two"):
                await settle()
                follower.sendall(each)
                await settle()
                assert leader.recv(100) == each
            assert (got, room.wakes, room.sends, room.counted) == ([], 0, 2, 6)
            follower.sendall(b"THREE")
        assert (got, room.wakes) == ([b"THREE"], 1)


async def test_the_end_is_the_flows_even_if_it_came_with_the_last_data(poller: Poller) -> None:
    with pairs(poller) as (source, follower, to, leader), trio.fail_after(5):
        follower.sendall(b"last")
        follower.shutdown(socket.SHUT_WR)
        assert await poller.drive(Room(source, to).left()) == b""
        assert leader.recv(100) == b"last"


async def test_what_goes_wrong_in_the_flows_place_goes_wrong_in_the_flow(poller: Poller) -> None:
    """And not in the poller, which wakes all the others."""
    with pairs(poller) as (source, follower, to, _), trio.fail_after(5):
        caught: list[str] = []

        async def drive() -> None:
            with pytest.raises(ConnectionResetError) as error:
                await poller.drive(Room(source, to).left())
            caught.append(str(error.value))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive)
            await settle()
            follower.sendall(b"fail")
        assert caught == ["in the poller"]


async def test_what_the_other_end_has_no_room_for_the_flow_sends_before_anything_else(poller: Poller) -> None:
    with pairs(poller) as (source, follower, to, leader), trio.fail_after(20):
        room, piece = Room(source, to), b"x" * (READ_AHEAD_BYTES - 1)
        received = bytearray()

        async def drive() -> None:
            assert await poller.drive(room.left()) == b"END"

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive)
            pieces = 0
            while to.writing.ready and not room.eager._unsent:
                follower.sendall(piece)
                pieces += 1
                await settle(0.002)
            sends = room.sends
            assert sends < pieces
            while len(received) < pieces * len(piece):
                received += await trio.to_thread.run_sync(leader.recv, 1 << 20)
            await settle()
            follower.sendall(b"END")
        assert bytes(received) == piece * pieces
        assert (room.counted, room.sends) == (len(received), pieces)


async def test_a_cancelled_flow_takes_nothing_more(poller: Poller) -> None:
    with pairs(poller) as (source, follower, to, leader), trio.fail_after(5):
        room = Room(source, to)
        with trio.move_on_after(0.01):
            await poller.drive(room.left())
        follower.sendall(b"late")
        await settle()
        leader.setblocking(False)
        with pytest.raises(BlockingIOError):
            leader.recv(10)

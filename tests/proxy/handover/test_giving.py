"""The old process' side: connections go over one after the other, and those whose turn it is not are served."""

from __future__ import annotations

import os
import socket
import uuid
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import trio

from proxy.handover.channel import Channel
from proxy.handover.giving import Giving
from proxy.handover.states import SCHEMA, ConnectionState, Hello, Offer, Ready

from ..recorded_log import RecordedLog
from ..relay.wire import Wire, answer, entry, relayed
from .old_server import BROKER, OldServer

if TYPE_CHECKING:
    from collections.abc import Sequence

CONNECTIONS = 40
LIMIT_SECONDS = 30
KEY = ("t", 0)


class Server(OldServer):
    """Of so many relayed connections."""

    versions = (3, 17)

    def __init__(self, wires: Sequence[Wire]) -> None:
        self._wires = wires

    def hand_over(self, giving: Giving, process: int) -> None:
        assert process == os.getpid()
        for wire in self._wires:
            wire.draining.give = giving.give
            wire.draining.begun.set()


async def taker(address: str) -> Channel:
    """A new process that is ready, and takes what it wants when it wants."""
    sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    while True:
        try:
            await sock.connect(address)
        except ConnectionRefusedError:  # not yet
            await trio.sleep(0.01)
        else:
            break
    channel = Channel(sock)
    await channel.send(Hello(SCHEMA, BROKER))
    offer, _ = await channel.receive()
    assert isinstance(offer, Offer)
    assert offer.fetch_versions == [3, 17]
    await channel.send(Ready())
    return channel


async def served(wire: Wire) -> None:
    await wire.exchange({KEY: 5}, answer([entry(KEY[1])]))


async def most_served(wires: Sequence[Wire]) -> None:
    """All of them but one, whichever that is."""
    told, hears = trio.open_memory_channel[None](len(wires))

    async def serve(wire: Wire) -> None:
        await served(wire)
        told.send_nowait(None)

    async with trio.open_nursery() as nursery:
        for wire in wires:
            nursery.start_soon(serve, wire)
        for _ in wires[1:]:
            await hears.receive()
        nursery.cancel_scope.cancel()


async def test_whoever_is_not_taken_yet_is_served_meanwhile() -> None:
    """They all came to rest at once: 400 waited up to 1.1 s for each other."""
    address = f"\0test/{uuid.uuid4().hex}"
    async with AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(relayed()) for _ in range(CONNECTIONS)]
        with trio.fail_after(LIMIT_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(Giving(address, Server(wires), RecordedLog()).run)
                channel = await taker(address)
                await trio.testing.wait_all_tasks_blocked(0.05)
                # The new process has taken none. Few are on their way to it, in the kernel, and one is about to be.
                waiting = [wire for wire in wires if not wire.finished.is_set()]
                assert len(waiting) > CONNECTIONS // 2
                await most_served(waiting)
                for _ in wires:
                    state, descriptors = await channel.receive()
                    assert isinstance(state, ConnectionState)
                    for descriptor in descriptors:
                        os.close(descriptor)
                for wire in wires:
                    await wire.finished.wait()
                channel.close()
                nursery.cancel_scope.cancel()
        assert {wire.ending["cause"] for wire in wires} == {"handed_over"}

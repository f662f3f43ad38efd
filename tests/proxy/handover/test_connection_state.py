"""What the other process is told of a connection, and what it makes of it."""

from __future__ import annotations

import struct
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio
import trio.testing

from protocol.wire.framing import with_length
from proxy.handover.connection_state import come_to_rest, restore, take
from proxy.handover.messages import ConnectionState
from proxy.relay.connection import Given

from ..relay.wire import read_exactly, relayed

if TYPE_CHECKING:
    from proxy.relay.connection import Connection

HELLO = bytes.fromhex("160301") + bytes(40)
"""The beginning of TLS, for which there are no keys."""


async def opaque_state() -> ConnectionState:
    """Of a connection that passes as it is, as it comes out at the other end."""
    states: list[ConnectionState] = []

    async def give(connection: Connection) -> Given:
        await trio.lowlevel.checkpoint()
        states.append(take(connection, trio.current_time()))
        return Given.TAKEN

    async with relayed() as wire:
        await wire.follower.send_all(HELLO)
        assert await read_exactly(wire.leader, len(HELLO)) == HELLO
        wire.draining.give = give
        wire.draining.begun.set()
        await wire.finished.wait()
    return msgspec.msgpack.decode(msgspec.msgpack.encode(states[0]), type=ConnectionState)


@pytest.mark.parametrize(
    ("said", "counted"), [("tls", "tls"), ("framing", "framing"), ("of a later version", "framing")]
)
async def test_a_connection_that_passes_unthrottled_is_counted_where_it_goes_on(said: str, counted: str) -> None:
    state = await opaque_state()
    assert (state.is_opaque, state.opaque_reason) == (True, "tls")
    state = msgspec.structs.replace(state, opaque_reason=said)
    async with relayed(restore=partial(restore, state=state, now=trio.current_time())) as wire:
        await wire.follower.send_all(b"more")
        assert await read_exactly(wire.leader, 4) == b"more"
        assert wire.throttle.statistics.undecoded == {counted: 1}
        assert wire.throttle.statistics.opaque_connections == 1


async def test_a_request_that_waits_for_the_hand_over_is_no_pause_for_want_of_room() -> None:
    request = with_length(struct.pack(">hhih", 3, 1, 7, 3) + b"abc" + struct.pack(">i", -1))
    asked = trio.Event()

    async def give(connection: Connection) -> Given:
        come_to_rest(connection)
        await asked.wait()
        return Given.STAYS

    async with relayed() as wire:
        wire.draining.give = give
        wire.draining.begun.set()
        await wire.follower.send_all(request)
        await trio.testing.wait_all_tasks_blocked(0.02)
        wire.draining.call_off()
        asked.set()
        assert await read_exactly(wire.leader, len(request)) == request
        assert wire.throttle.statistics.in_flight_pauses == {}

"""What the other process is told of a connection, and what it makes of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from proxy.handover.connection_state import restore, take
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

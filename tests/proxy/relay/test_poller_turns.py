"""Turns that are asked for while the poller serves: the next round's, never this one's."""

from __future__ import annotations

import socket

import trio

from proxy.relay.leg import Leg
from proxy.relay.poller import LINGER_SECONDS, open_poller, take_turn


async def test_a_flow_that_an_event_woke_may_take_turn_after_turn() -> None:
    """Nobody was waiting for a turn when the event came: the first one asked for must not be served in that round."""
    async with open_poller() as poller:
        assert poller is not None
        ours, peer = socket.socketpair()
        with peer, ours, trio.fail_after(5):
            leg = Leg(ours)
            poller.attach(leg)

            async def receive_and_take_turns() -> bytes:
                buffer = bytearray(10)
                with memoryview(buffer) as view:
                    received = await leg.receive_into(view)
                for _ in range(3):
                    await take_turn()
                return bytes(buffer[:received])

            found: list[bytes] = []

            async def drive() -> None:
                found.append(await poller.drive(receive_and_take_turns()))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(drive)
                await trio.sleep(3 * LINGER_SECONDS)
                peer.sendall(b"data")
            poller.detach(leg)
        assert found == [b"data"]

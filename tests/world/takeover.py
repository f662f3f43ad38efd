"""Another sidecar takes over the connections of one, each at rest, as `proxy.handover` does between processes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import trio

from proxy.handover.connection_state import come_to_rest, is_at_rest, restore, take
from proxy.relay.connection import Given
from proxy.roles import Role

if TYPE_CHECKING:
    from proxy.relay.connection import Connection

    from .pipes import End
    from .scene import World
    from .sidecar import WorldSidecar

MAX_REST_SECONDS = 5.0


def take_over(world: World, broker_id: int) -> None:
    """Let a new sidecar go on where the one of this broker stops; the messages between them are values here."""
    old = world.sidecars[broker_id]
    new = world.make_sidecar(broker_id, old.spec)
    new.history[:0] = old.history
    new.before = [*old.before, old]
    for role in Role:
        new.throttles[role].budget.restore(old.throttles[role].budget.state(world.network.now), world.network.now)
    world.sidecars[broker_id] = new
    old.draining.give = partial(_give, world, new)
    old.draining.begun.set()
    world.network.owes_trio = True


async def _give(world: World, new: WorldSidecar, connection: Connection) -> Given:
    come_to_rest(connection)
    world.network.owes_trio = True
    with trio.move_on_after(MAX_REST_SECONDS):
        while not is_at_rest(connection):
            with trio.move_on_after(0.05):
                await connection.in_flight.settled.wait()
    if not is_at_rest(connection):
        return Given.ENDS
    now = world.network.now
    state = take(connection, now)
    follower, leader = (end.hand_on() for end in cast("tuple[End, End]", connection.ends))

    async def dial(address: object, *, timeout_seconds: float) -> End:
        del address, timeout_seconds
        await trio.lowlevel.checkpoint()
        return leader

    world.serve(
        new, follower, Role(state.role), state.link.peer, state.upstream, dial,
        restored=lambda fresh: restore(fresh, state, world.network.now),
    )  # fmt: skip
    world.ledger.faults["taken_over"] += 1
    return Given.TAKEN

"""What a hand-over leaves in the old process for some seconds, and what the new one ends of an older release."""

from __future__ import annotations

import math
import socket
from typing import TYPE_CHECKING

import msgspec
import pytest
import trio

from proxy.handover.ending_turns import SPREAD_SECONDS
from proxy.handover.messages import Confirmed
from proxy.handover.old_process import OldProcess
from proxy.roles import Role

from ..conversation import MIB, throttle
from .test_new_process import LIMIT_SECONDS, STATE, New, Server, old_process, tcp_pair

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from proxy.relay.connection import Draining
    from proxy.relay.transport import PlainSocket


@pytest.mark.parametrize("rate", [MIB, math.inf])
async def test_what_stays_for_some_seconds_has_nothing_of_the_quota_that_was_given(rate: float) -> None:
    """Followers with TLS that wait for their end here, and those that dialled the new process, had a quota each."""
    of, now = throttle(rate), trio.current_time()
    old = New(throttles={Role.LEADER: of})
    given = old.handover.available_bytes()["leader"]
    old.handover.hand_over(OldProcess(old.path, Server(), old.log))
    left = of.budget.state(now)
    if math.isinf(rate):
        assert (given, left) == (None, None)
    else:
        assert given is not None
        assert given > 0
        assert left == pytest.approx(-SPREAD_SECONDS * rate, rel=0.1)


async def test_connections_whose_tls_another_process_keeps_end_when_it_has_given_everything(
    nursery: trio.Nursery,
) -> None:
    """Version 0.1.0 gives one end of a pair in place of a TLS socket, and encrypts until the connection ends, which may
    be days: an upgrade that mends OpenSSL would have mended nothing for them."""
    new, begun = New(), dict[str, list[bool]]()

    async def old() -> None:
        async with old_process(new.path) as channel:
            for source, (one, other) in (("10.0.0.2", socket.socketpair()), (None, tcp_pair())):
                await channel.send(msgspec.structs.replace(STATE, source=source), [one.fileno(), other.fileno()])
                one.close()
                other.close()
            await channel.send(Confirmed())
            channel.close()

    async def go_on(_: object, follower: PlainSocket, leader: PlainSocket, *, draining: Draining) -> None:
        kind = follower.sock.family.name
        begun[kind] = [draining.is_begun()]
        with trio.move_on_after(1):
            await draining.begun.wait()
        begun[kind].append(draining.is_begun())
        follower.close()
        leader.close()

    def hold(source: str, run: Callable[[], Awaitable[None]], _: object) -> None:
        nursery.start_soon(run)
        assert source in ("10.0.0.2", "127.0.0.1")

    with trio.fail_after(LIMIT_SECONDS):
        nursery.start_soon(old)
        while await new.handover.ask() is None:  # noqa: ASYNC110 - as above
            await trio.sleep(0.01)
        await new.handover.take_connections(hold, go_on)
        while any(len(each) < 2 for each in begun.values()):  # noqa: ASYNC110 - as above
            await trio.sleep(0.01)
    assert begun == {"AF_UNIX": [False, True], "AF_INET": [False, False]}

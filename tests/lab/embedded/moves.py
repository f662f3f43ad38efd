"""Sidecars between our own leader and follower, all in one process and on one mocked clock, and what they let through.

Time stands still while anybody has something to do, so what is measured is the arithmetic and not the machine: a
transfer takes no time at all, a wait exactly as long as it was meant to.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import trio
import trio.testing

from lab.embedded.follower import EmbeddedFollower, FetcherSettings
from lab.embedded.leader import EmbeddedLeader
from proxy.changes import Changes
from proxy.config.settings import Address, LimitSettings
from proxy.relay.connection import Draining, relay
from proxy.relay.poller import open_poller
from proxy.relay.transport import adopt
from tests.proxy.conversation import MIB
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from lab.embedded.follower import Delivery
    from proxy.relay.poller import Poller
    from proxy.throttle.role_throttle import RoleThrottle

PATIENCE_SECONDS = 0.03
LIMITS = LimitSettings(
    max_request_bytes=8 * MIB, max_substitution_bytes=16 * MIB, connect_timeout_seconds=2.0, drain_seconds=5.0
)
Key = tuple[str, int]


def patient_clock() -> trio.testing.MockClock:
    return trio.testing.MockClock(autojump_threshold=PATIENCE_SECONDS)


@dataclass
class Sidecar:
    """One role of one sidecar, in front of one upstream."""

    throttle: RoleThrottle
    changes: Changes = field(default_factory=Changes)
    log: RecordedLog = field(default_factory=RecordedLog)

    @asynccontextmanager
    async def listening(self, upstream: tuple[str, int]) -> AsyncIterator[tuple[str, int]]:
        async with open_poller() as poller, self._listening(upstream, poller) as address:
            yield address

    @asynccontextmanager
    async def _listening(self, upstream: tuple[str, int], poller: Poller | None) -> AsyncIterator[tuple[str, int]]:
        async def handle(stream: trio.SocketStream) -> None:
            await relay(
                adopt(stream),
                Address(*upstream),
                peer="other",
                throttle=self.throttle,
                limits=LIMITS,
                changes=self.changes,
                draining=Draining(),
                poller=poller,
                log=self.log,
            )

        async with trio.open_nursery() as nursery:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(partial(trio.serve_listeners, handle, listeners))
            yield listeners[0].socket.getsockname()[:2]
            nursery.cancel_scope.cancel()
        assert "internal_error" not in {line.get("cause") for line in self.log.lines}


def filled(partitions: Iterable[Key], mebibytes: float, *, value_bytes: int = 1000) -> EmbeddedLeader:
    """A leader with so much in each partition."""
    leader = EmbeddedLeader(value_bytes=value_bytes)
    for topic, partition in partitions:
        log = leader.log(topic, partition)
        leader.produce(topic, partition, int(mebibytes * MIB) // log.message_bytes)
    return leader


def follower_of(
    partitions: Iterable[Key], *, version: int = 3, value_bytes: int = 1000, backoff_seconds: float = 0.1
) -> EmbeddedFollower:
    settings = FetcherSettings(version=version, backoff_seconds=backoff_seconds)
    return EmbeddedFollower(list(partitions), value_bytes=value_bytes, settings=settings)


def worst_bytes(deliveries: Iterable[Delivery], seconds: float) -> int:
    """The most record bytes that came within any `seconds`."""
    inside: list[Delivery] = []
    total = worst = 0
    for delivery in sorted(deliveries, key=lambda d: d.time):
        inside.append(delivery)
        total += delivery.record_bytes
        while delivery.time - inside[0].time >= seconds:
            total -= inside.pop(0).record_bytes
        worst = max(worst, total)
    return worst


def received_bytes(follower: EmbeddedFollower, *, after: float = 0.0, until: float = 1e9) -> int:
    return sum(d.record_bytes for d in follower.deliveries if after <= d.time < until)


def most_fetches_in_a_second(leader: EmbeddedLeader) -> int:
    times = [time for time, _ in leader.requests]
    return max((sum(start <= other < start + 1 for other in times) for start in times), default=0)

"""A listener's rate on relayed connections: who is muted, who is not, and what is charged without being understood."""

from __future__ import annotations

import math
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import trio

from protocol.fetch.request import parse_fetch_request
from protocol.wire.framing import with_length
from proxy.clients.throttle import ClientThrottle
from proxy.config.settings import Policy
from proxy.quotas import Quotas, RoleQuota
from proxy.quotas.client_entity import ClientEntity
from proxy.quotas.client_rates import NO_CLIENT_RATES, ClientRates, TrafficRates
from proxy.quotas.keys import CATCH_UP_ONLY
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics
from proxy.throttle.role_throttle import RoleThrottle
from tests.proxy.clients.frames import fetch_request, fetch_response, parsed_fetch
from tests.proxy.conversation import settings

from ..relay.wire import T0, Wire, answer, entry, patient_clock, read_exactly, read_frame, relayed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

MB = 1_000_000
RATE = 4.0 * MB
BURST = 0.125
"""Seconds of the rate that consumers have at once."""


@pytest.fixture
def clock() -> MockClock:
    return patient_clock()


class Listener:
    """The ingress of one broker, whose clients and followers have a rate together."""

    def __init__(
        self,
        rate: float = RATE,
        *,
        enforce: bool = True,
        policy: Policy = Policy.STRICT,
        clients: ClientRates = NO_CLIENT_RATES,
    ) -> None:
        self.quotas = Quotas(
            leader=RoleQuota.of_every_topic(math.inf),
            listener_bytes_per_second=rate,
            clients=clients,
            enforce=enforce,
        )
        statistics = RoleStatistics()
        self.clients = ClientThrottle(settings(policy), self.quotas, 0.0, statistics)
        self.throttle = RoleThrottle(
            Role.LEADER, settings(policy), quotas=self.quotas, statistics=statistics, now=0.0, above=self.clients.uplink
        )

    def change(self, rate: float) -> None:
        self.quotas = replace(self.quotas, listener_bytes_per_second=rate)
        self.throttle.apply(self.quotas, trio.current_time())
        self.clients.apply(self.quotas, trio.current_time())

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Wire]:
        async with relayed(self.throttle, clients=self.clients) as wire:
            yield wire


async def fetched(wire: Wire, record_bytes: int, *, version: int = 11) -> int:
    """One Fetch of a consumer, and the throttle time that it is told."""
    await wire.follower.send_all(with_length(fetch_request(version=version)))
    await read_frame(wire.leader)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.leader.send_all, with_length(fetch_response(record_bytes, version=version)))
        return int(parsed_fetch(await read_frame(wire.follower), version=version).throttle_time_ms)


@pytest.mark.parametrize("version", [4, 11, 12])
async def test_a_consumer_without_a_quota_is_told_and_muted(clock: MockClock, version: int) -> None:
    async with Listener().connected() as wire:
        began = trio.current_time()
        assert await fetched(wire, int(0.1 * RATE), version=version) == 0
        told = await fetched(wire, int(0.5 * RATE), version=version)
        assert told == pytest.approx((0.6 - BURST) * 1000, abs=60)
        await fetched(wire, 1000, version=version)
        assert trio.current_time() - began == pytest.approx(0.6 - BURST, abs=0.1)


@pytest.mark.parametrize("policy", Policy)
async def test_a_follower_is_never_muted_and_has_what_consumers_leave(clock: MockClock, policy: Policy) -> None:
    listener = Listener(policy=policy)
    async with listener.connected() as consumer, listener.connected() as follower, listener.connected() as behind:
        for wire, offset in ((follower, 10**6), (behind, 1)):
            await wire.in_flight({T0: offset}, answer([entry(0)]))
        assert await fetched(consumer, int(0.6 * RATE)) > 0
        began = trio.current_time()
        in_sync = answer([entry(0, bytes(1000))])
        assert (await follower.in_flight({T0: 10**6}, in_sync))[1] == in_sync
        assert trio.current_time() - began < 0.05
        began = trio.current_time()
        await behind.ask({T0: 1}, max_wait_ms=5000)
        await behind.asked()
        # 0.6 s of the rate less the bucket's first 0.05 s, and 0.05 s until it opens.
        assert trio.current_time() - began == pytest.approx(0.6, abs=0.12)


async def test_a_consumer_that_catches_up_comes_last_and_is_not_muted(clock: MockClock) -> None:
    """Its quota has `catch_up_only`: it takes turns with followers that are behind, after consumers at the tail."""
    mirror = ClientEntity(None, "broker-102-fetcher-0")  # of every request that `Wire.ask` sends
    rates = ClientRates(consumer=TrafficRates({mirror: 100.0 * MB}, {CATCH_UP_ONLY: {mirror: True}}))
    listener = Listener(clients=rates)
    async with listener.connected() as consumer, listener.connected() as behind, listener.connected() as follower:
        for wire, replica_id in ((behind, -1), (follower, 102)):
            await wire.in_flight({T0: 1}, answer([entry(0)]), replica_id=replica_id)
        assert await fetched(consumer, int(0.6 * RATE)) > 0
        began = trio.current_time()
        for wire, replica_id in ((behind, -1), (follower, 102)):
            await wire.ask({T0: 1}, max_wait_ms=5000, replica_id=replica_id)
        for wire in (behind, follower):
            (asked,) = parse_fetch_request(await wire.asked()).entries
            assert asked.partition_max_bytes <= 0.125 * RATE  # half a burst
        assert 0.5 <= trio.current_time() - began <= 0.85
        assert len(listener.clients.uplink.shares._claims) == 4


async def test_without_a_rate_nothing_is_looked_at_and_a_change_ends_a_mute(clock: MockClock) -> None:
    listener = Listener(math.inf)
    async with listener.connected() as wire:
        assert not listener.clients.is_needed
        assert await fetched(wire, 4 * MB) == 0
        listener.change(RATE)
        assert listener.clients.is_needed
        assert await fetched(wire, 4 * MB) > 500
        began = trio.current_time()
        listener.change(math.inf)
        wire.changes.notify()
        await fetched(wire, 1000)
        assert trio.current_time() - began < 0.1
        assert [node.entity for node in listener.throttle.tree.trunk("102")] == [("role", "")]


async def test_observed_only_counts_and_mutes_nobody(clock: MockClock) -> None:
    listener = Listener(enforce=False)
    async with listener.connected() as wire:
        for _ in range(10):
            assert await fetched(wire, 4 * MB) == 0
        assert listener.clients.uplink.client_bytes > 40 * MB
        # What passed meanwhile is no debt of ten seconds once the rate is enforced.
        listener.quotas = replace(listener.quotas, enforce=True)
        listener.change(RATE)
        assert 0 < await fetched(wire, int(0.1 * RATE)) < 500


async def test_what_is_not_understood_is_charged_and_not_delayed(clock: MockClock) -> None:
    """A TLS connection that passes through: catch-up has what it leaves."""
    listener = Listener()
    async with listener.connected() as opaque, listener.connected() as follower:
        await follower.in_flight({T0: 1}, answer([entry(0)]))
        await opaque.follower.send_all(b"\x16\x03\x01")
        await read_exactly(opaque.leader, 3)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(opaque.leader.send_all, bytes(2 * MB))
            assert len(await read_exactly(opaque.follower, 2 * MB)) == 2 * MB
        assert trio.current_time() - began < 0.1
        await follower.ask({T0: 1}, max_wait_ms=5000)
        await follower.asked()
        assert trio.current_time() - began == pytest.approx(0.5, abs=0.12)
        assert listener.throttle.statistics.opaque_connections == 1
        await opaque.follower.aclose()

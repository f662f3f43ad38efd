"""What each connection of a scene should have had of each topic: the scene's rates, given to exact water-filling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from proxy.roles import Role

from ..proxy.conversation import LIMIT
from .fairness import Budget, shares_of_flows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .fairness import Flow
    from .scene import Fetch, Outcome, Scene, World

WAIT_SECONDS = 0.05
"""What a fetch takes besides its way: bytes on the network, a wait for the gate."""
WIRE_SHARE = 0.98
"""Record bytes of what a line carries."""


class Entity(NamedTuple):
    """A connection (`topic` empty), or what it fetches of one topic."""

    reader: str
    topic: str
    share: float
    """Bytes per second that it should have."""
    had: float

    @property
    def ratio(self) -> float:
        return self.had / self.share


def fair_shares(world: World) -> dict[Flow, float]:
    """Return bytes per second by connection and topic."""
    scene = world.scene
    wants = {flow: most for fetch in scene.fetches for flow, most in _wants(fetch)}
    trunks = [
        Budget(fetch.line_rate * WIRE_SHARE / fetch.connections, frozenset({name}))
        for fetch in scene.fetches
        for name in fetch.names()
        if fetch.line_rate < math.inf
    ]
    branches: list[Budget] = []
    for broker_id, sidecar in world.sidecars.items():
        for role in Role:
            if role is Role.LEADER and sidecar.spec.ingress:
                own = {name: fetch for fetch in scene.fetches for name in fetch.names() if fetch.leader == broker_id}
            elif role is Role.FOLLOWER and sidecar.spec.egress:
                own = {name: fetch for fetch in scene.fetches for name in fetch.names() if fetch.follower == broker_id}
            else:
                continue
            quota = sidecar.quotas.of(role)
            finer = quota.finer
            peer = {name: fetch.follower if role is Role.LEADER else fetch.leader for name, fetch in own.items()}
            trunks.append(_bound(scene, quota.bytes_per_second, set(own)))
            for rack, rate in finer.racks.items():
                trunks.append(_bound(scene, rate, {name for name in own if scene.racks.get(peer[name]) == rack}))
            for number, rate in finer.peers.items():
                trunks.append(_bound(scene, rate, {name for name in own if peer[name] == number}))
            of_topics: dict[str, set[Flow]] = {}
            for flow in wants:
                if flow[0] in own and (entity := finer.of_topic(flow[1])) is not None:
                    of_topics.setdefault(entity.name, set()).add(flow)
            rates = {entity.name: rate for entity, rate in finer.bounds() if entity.kind == "topic"}
            branches += [Budget(rates[name], frozenset(flows)) for name, flows in of_topics.items()]
    partitions = {
        (name, topic): float(count)
        for fetch in scene.fetches
        for name in fetch.names()
        for topic, count in fetch.topics.items()
    }
    return shares_of_flows(wants, [each for each in trunks if each.members], branches, partitions=partitions)


def _wants(fetch: Fetch) -> Iterator[tuple[Flow, float]]:
    """Return what a connection could use of each topic: a fetch brings a megabyte of a partition at most."""
    round_trip = 2 * fetch.one_way_ms / 1000 + fetch.jitter_ms / 1000 + WAIT_SECONDS
    for name in fetch.names():
        for topic, partitions in fetch.topics.items():
            yield (name, topic), partitions * LIMIT / round_trip


def _bound(scene: Scene, rate: float, members: set[str]) -> Budget:
    """Return a budget of what is left beside replicas in sync, which are charged."""
    written = sum(
        fetch.written * sum(fetch.live.values()) for fetch in scene.fetches for name in fetch.names() if name in members
    )
    return Budget(max(rate - written, 0.0), frozenset(members))


def entities(outcome: Outcome, begin: float = 5.0, end: float | None = None) -> list[Entity]:
    """Return what each connection had and should have had, altogether and of each topic with a rate of its own."""
    shares = fair_shares(outcome.world)
    rated = {
        topic
        for sidecar in outcome.world.sidecars.values()
        for role in Role
        for _, topic in shares
        if sidecar.quotas.of(role).finer.of_topic(topic) is not None
    }
    had = outcome.rates(begin, lambda each: (each.reader, each.topic), end)
    found = []
    for reader in sorted({reader for reader, _ in shares}):
        own = {flow: share for flow, share in shares.items() if flow[0] == reader}
        total = sum(own.values())
        if total and not math.isinf(total):
            found.append(Entity(reader, "", total, sum(had.get(flow, 0.0) for flow in own)))
        found += [
            Entity(reader, topic, share, had.get((reader, topic), 0.0))
            for (_, topic), share in own.items()
            if len(own) > 1 and topic in rated and share and not math.isinf(share)
        ]
    return found

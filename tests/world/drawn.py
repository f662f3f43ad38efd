"""Scenes drawn from a seed: trees of rates, demands, latencies. The same seed draws the same scene."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ..proxy.conversation import MIB
from .scene import EVERY, Fetch, Scene
from .sidecar import SidecarSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RACKS = ("a", "b", "c")
_Name = TypeVar("_Name", int, str)
TOPICS = ("orders", "clicks", "t")


class Rates(NamedTuple):
    """A sidecar's rates, bytes per second, which a quotas.toml says."""

    leader: float | None = None
    follower: float | None = None
    peers: Mapping[int, float] = {}
    racks: Mapping[str, float] = {}
    topics: Mapping[str, float] = {}
    role: str = "leader"
    """The role that the finer rates are of."""

    @property
    def toml(self) -> str:
        lines = ["[brokers.default]"]
        for role, rate in (("leader", self.leader), ("follower", self.follower)):
            if rate is not None:
                lines.append(f"{role}.replication.throttled.rate = {int(rate)}")
        for kind, rates in (("peers", self.peers), ("racks", self.racks), ("topics", self.topics)):
            for name, rate in rates.items():
                lines += [f'[{kind}."{name}"]', f"{self.role}.replication.throttled.rate = {int(rate)}"]
                if kind == "topics":
                    lines.append(f'{self.role}.replication.throttled.replicas = "*"')
        return "\n".join(lines) + "\n" + EVERY


def tree(seed: int) -> Scene:
    """Draw a broker with a tree of rates, whose peers want this and that from near and far."""
    draw = random.Random(f"tree {seed}")
    hub, peers = 1, list(range(2, 2 + draw.randint(2, 6)))
    is_leader = draw.random() < 0.6
    rate = draw.choice([0.5, 1, 1, 2, 4]) * MIB
    racks = {peer: draw.choice(RACKS) for peer in peers}
    role = "leader" if is_leader else "follower"

    def inner(names: Iterable[_Name], chance: float) -> dict[_Name, float]:
        return {each: rate * draw.uniform(0.1, 0.6) for each in names if draw.random() < chance}

    rates = Rates(
        leader=rate if is_leader else None,
        follower=None if is_leader else rate,
        peers=inner(peers, 0.2),
        racks=inner(sorted(set(racks.values())), 0.25),
        topics=inner(TOPICS, 0.25),
        role=role,
    )
    sidecars = {hub: SidecarSpec(rates.toml, ingress=is_leader, egress=not is_leader)}
    fetches = []
    for peer in peers:
        topics = {topic: draw.randint(1, 5) for topic in TOPICS if draw.random() < 0.5} or {"t": draw.randint(1, 8)}
        fetches.append(
            Fetch(
                *((peer, hub) if is_leader else (hub, peer)),
                topics=topics,
                one_way_ms=0.2 * 300 ** draw.random(),
                jitter_ms=draw.choice([0, 0, 2]),
                version=draw.choice([3, 11, 12, 12, 17]),
                first=10 * peer,
                line_rate=rate * draw.uniform(0.05, 0.3) if draw.random() < 0.2 else math.inf,
                sizes=draw.choice([(4000,), (16_000,), (16_000,), (60_000,), (1000, 15_000, 60_000)]),
            )
        )
        if draw.random() < 0.15:
            own = Rates(leader=rate, follower=rate * draw.uniform(0.3, 1.5))
            sidecars[peer] = SidecarSpec(own.toml, ingress=not is_leader, egress=is_leader)
    return Scene(sidecars, tuple(fetches), racks=racks, seed=seed)

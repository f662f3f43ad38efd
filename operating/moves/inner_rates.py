"""The rates inside a role's rate (`proxy.quotas.finer_rates`), as far as they concern a move: which part of a broker's
share each of them bounds, and when.

Pure. Invariant: a rate of a rack is told, never counted: which brokers are of a rack, only brokers know.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from proxy.quotas.finer_rates import PEER, RACK, Entity
from proxy.roles import Role
from reassignment import Load, loads, moving, source

from .stretches import Part, Stretch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.quotas import Quotas, RoleQuota
    from proxy.quotas.finer_rates import FinerRates
    from reassignment import PartitionMove, RoleName, TopicPartition

    from .planning import Ground


class Moment(NamedTuple):
    """From `begins`, seconds from now, these quotas hold."""

    begins: float
    quotas: Quotas


def inner_parts(ground: Ground, key: tuple[int, RoleName], moments: Sequence[Moment]) -> tuple[Part, ...]:
    """Return the parts of a broker's share, by peer and topic, that at one of the moments have less than the broker."""
    quotas = [moment.quotas.of(Role(key[1])) for moment in moments]
    rates = [dict(quota.finer.bounds()) for quota in quotas]
    found = []
    for entity, moves in _bounded(ground, key, quotas).items():
        mosts = [
            min(each.get(entity, math.inf), quota.bytes_per_second) for each, quota in zip(rates, quotas, strict=True)
        ]
        stretches = tuple(Stretch(moment.begins, most) for moment, most in zip(moments, mosts, strict=True))
        below = [
            stretch for stretch, quota in zip(stretches, quotas, strict=True) if stretch[1] < quota.bytes_per_second
        ]
        if below:
            shares = loads(moves, ground.sizes, {})
            load = next((each for each in shares if each[:2] == key), Load(*key, 0.0, 0.0, 0.0))
            found.append(Part(str(entity), load, below[0], stretches))
    return tuple(found)


def racks_below(role: RoleName, bytes_per_second: float, moments: Sequence[Moment]) -> dict[str, float]:
    """Return the racks that have less than this rate at one of the moments, with the least they have."""
    found: dict[str, float] = {}
    for moment in moments:
        for entity, rate in moment.quotas.of(Role(role)).finer.bounds():
            if entity.kind == RACK and rate < bytes_per_second:
                found[entity.name] = min(rate, found.get(entity.name, math.inf))
    return found


def _of_broker(ground: Ground, key: tuple[int, RoleName]) -> Iterator[tuple[TopicPartition, PartitionMove]]:
    """Yield what a broker may send as a leader, or fetches as a follower."""
    broker, role = key
    for partition, move in moving(ground.moves).items():
        if role == "leader" and broker in move.sources:
            yield partition, move
        elif role == "follower" and broker in move.destinations:
            yield partition, move._replace(destinations=(broker,))


def _bounded(
    ground: Ground, key: tuple[int, RoleName], quotas: Sequence[RoleQuota]
) -> dict[Entity, dict[TopicPartition, PartitionMove]]:
    """Return what of a broker's share each rate bounds; racks aside."""
    different: list[FinerRates] = []
    for quota in quotas:
        if quota.finer and quota.finer not in different:
            different.append(quota.finer)
    found: dict[Entity, dict[TopicPartition, PartitionMove]] = {}
    for partition, move in _of_broker(ground, key) if different else ():
        for finer in different:
            topic = finer.of_topic(partition.topic)
            if topic is not None:
                found.setdefault(topic, {})[partition] = move
            for destination in move.destinations:
                peer = destination if key[1] == "leader" else source(partition, move.sources, ground.sizes)
                if peer in finer.peers:
                    bounded = move._replace(destinations=(destination,))
                    found.setdefault(Entity(PEER, str(peer)), {})[partition] = bounded
    return found

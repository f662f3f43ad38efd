"""The budgets of one role: its own at the root, those of racks, peers and topics beneath it.

One node for each rate of the quotas that is not unlimited, shared by all connections that it concerns. Without rates
inside the role's there is the root alone. Pure: time is an argument. Invariant: a node outlives every change of the
quotas that keeps its section, with what it has counted and what it is owed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from admission.budget import Kip73Budget, StrictBudget
from admission.shares import ROLE

from ..quotas.finer_rates import NO_FINER_RATES, PEER, RACK, Entity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from admission.budget_path import BudgetPath
    from admission.shares import BudgetNode, Claim
    from protocol.session.requests import PartitionKey

    from ..config.settings import QuotaSettings
    from ..quotas.finer_rates import FinerRates
    from ..topology.racks import Racks
    from ..topology.topic_names import TopicNames


class BudgetTree:
    """The budgets for one snapshot of the quotas. When the inner rates or the brokers' racks change, another value
    takes its place, and each connection looks anew which nodes it passes."""

    __slots__ = ("_names", "_racks", "_rates", "above", "has_branches", "has_racks", "inner", "root")

    def __init__(
        self,
        root: BudgetNode,
        names: TopicNames,
        racks: Racks,
        rates: FinerRates = NO_FINER_RATES,
        inner: Mapping[Entity, BudgetNode] | None = None,
        above: BudgetNode | None = None,
    ) -> None:
        self.root = root
        self.above = above
        """The budget of the whole listener, which bounds the role together with other traffic; None: there is none."""
        self.inner = inner or {}
        """The nodes beneath the root, by what has the rate."""
        self._rates = rates
        self.has_racks = bool(rates.racks)
        self.has_branches = bool(rates.topics or rates.globs)
        """True if some topic has a rate of its own."""
        self._names = names
        self._racks = racks

    def renew(
        self, rates: FinerRates, settings: QuotaSettings, now: float, above: BudgetNode | None = None
    ) -> BudgetTree:
        """Return the tree with these inner rates: the nodes there were, at the new rate, and new ones."""
        if rates == self._rates and above is self.above:
            return self
        inner: dict[Entity, BudgetNode] = {}
        for entity, bytes_per_second in rates.bounds():
            node = self.inner.get(entity)
            if node is None:
                node = budget_node(settings, bytes_per_second, now, entity)
            node.change_rate(bytes_per_second, now)
            inner[entity] = node
        return BudgetTree(self.root, self._names, self._racks, rates, inner, above)

    def reroute(self) -> BudgetTree:
        """Return another value with the same nodes, so that each connection looks anew which of them it passes."""
        return BudgetTree(self.root, self._names, self._racks, self._rates, self.inner, self.above)

    def trunk(self, peer: str) -> list[BudgetNode]:
        """Return what bounds all traffic with `peer`, which is a broker's id where that is known: what is above the
        role, the role's rate, that of the peer's rack, if its rack is known, and its own."""
        rack = self._racks.of(peer) if self.has_racks else None
        found = (self.inner.get(Entity(RACK, rack)) if rack else None, self.inner.get(Entity(PEER, peer)))
        return [node for node in (self.above, self.root, *found) if node is not None]

    def branch(self, topic: str | bytes) -> BudgetNode | None:
        """Return what bounds a topic, by name or id, beside its trunk; None while the name of an id is not known."""
        name = topic if isinstance(topic, str) else self._names.of(topic)
        entity = None if name is None else self._rates.of_topic(name)
        return None if entity is None else self.inner.get(entity)

    def branches(self, keys: Sequence[PartitionKey], path: BudgetPath) -> Sequence[Claim | None]:
        """Return the branch of `path` that each partition is of; to be asked where a topic has a rate."""
        of_topics: dict[str | bytes, Claim | None] = {}
        for topic, _ in keys:
            if topic not in of_topics:
                node = self.branch(topic)
                of_topics[topic] = None if node is None else path.branch(node)
        return [of_topics[topic] for topic, _ in keys]


def budget_node(
    settings: QuotaSettings, bytes_per_second: float, now: float, entity: tuple[str, str] = ROLE
) -> BudgetNode:
    """Return a budget of the policy that is set."""
    if settings.policy == "kip73":
        return Kip73Budget(
            bytes_per_second=bytes_per_second,
            samples=settings.window_num,
            sample_seconds=settings.window_size_seconds,
            entity=entity,
        )
    return StrictBudget(
        bytes_per_second=bytes_per_second,
        gate_seconds=settings.gate_seconds,
        burst_seconds=settings.burst_seconds,
        samples=settings.window_num,
        sample_seconds=settings.window_size_seconds,
        now=now,
        entity=entity,
    )

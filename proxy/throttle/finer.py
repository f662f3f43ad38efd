"""Budgets inside a role's budget: of the traffic with one broker, of that with all brokers of a rack, and of topics.

One `Bound` for each rate of the quotas file that is not unlimited, shared by all connections that it concerns. A link
asks which bounds hold for it (`Entered`), and takes part in them by `admission.stakes`. There is none of this where the
file has no such rate. Pure: time is an argument. Invariant: a bound outlives every change of the file that keeps its
section, with what it has counted and what it is owed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from admission.stakes import Stake, Stakes

from ..quotas.finer_rates import PEER, RACK, Entity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from admission.budget import Budget
    from admission.simple_rate import SimpleRate
    from protocol.session.requests import PartitionKey

    from ..quotas.finer_rates import FinerRates
    from .racks import Racks
    from .topic_names import TopicNames

MOST_RESOLVED = 20_000
"""The most topics of one connection for which it is remembered which bound is theirs; with one more, remembering starts
again."""


class Bound:
    """One rate, what it allows and what passed under it."""

    __slots__ = ("budget", "bytes_per_second", "entity", "passed_bytes", "rate")

    def __init__(self, entity: Entity, bytes_per_second: float, budget: Budget, rate: SimpleRate) -> None:
        self.entity = entity
        self.bytes_per_second = bytes_per_second
        self.budget = budget
        self.rate = rate
        """The rate at which bytes passed, over KIP-73's window."""
        self.passed_bytes = 0
        """How many bytes of throttled replicas, in sync or not, have passed since the bound began."""


class FinerBudgets:
    """The finer budgets of one role, for one snapshot of the quotas. When the finer rates or the brokers' racks change,
    another value takes its place. A connection that finds another value than before looks anew which budgets bound
    it."""

    __slots__ = ("_names", "_racks", "_rates", "bounds")

    def __init__(self, rates: FinerRates, bounds: Mapping[Entity, Bound], names: TopicNames, racks: Racks) -> None:
        self._rates = rates
        self._names = names
        self._racks = racks
        self.bounds = bounds

    def again(self) -> FinerBudgets:
        """Return another value with the same budgets, so that each connection looks anew which of them bound it."""
        return FinerBudgets(self._rates, self.bounds, self._names, self._racks)

    def has(self, rates: FinerRates) -> bool:
        """Whether these are the budgets of just those rates."""
        return self._rates == rates

    def of_peer(self, peer: str) -> list[Bound]:
        """Return what bounds the traffic with `peer`, which is a broker's id where that is known: its rack's rate, if
        its rack is known, and its own."""
        rack = self._racks.of(peer)
        found = (self.bounds.get(Entity(RACK, rack)) if rack else None, self.bounds.get(Entity(PEER, peer)))
        return [bound for bound in found if bound is not None]

    def of_topic(self, topic: str | bytes) -> tuple[Bound | None, bool]:
        """Return what bounds a topic, by name or id, and whether that is for good: names of ids become known."""
        name = topic if isinstance(topic, str) else self._names.of(topic)
        if name is None:
            return None, False
        entity = self._rates.of_topic(name)
        return None if entity is None else self.bounds.get(entity), True

    @property
    def names_topics(self) -> bool:
        return bool(self._rates.topics or self._rates.globs)

    @property
    def names_racks(self) -> bool:
        return bool(self._rates.racks)


def renewed(
    before: FinerBudgets | None,
    rates: FinerRates,
    names: TopicNames,
    racks: Racks,
    now: float,
    *,
    make: Callable[[Entity, float], Bound],
) -> FinerBudgets | None:
    """Return the budgets of `rates`: those there were, at the new rate, and new ones; None if there is no rate."""
    if before is not None and before.has(rates):
        return before
    found: dict[Entity, Bound] = {}
    for entity, bytes_per_second in rates.bounds():
        bound = None if before is None else before.bounds.get(entity)
        if bound is None:
            bound = make(entity, bytes_per_second)
        elif bound.bytes_per_second != bytes_per_second:
            bound.bytes_per_second = bytes_per_second
            bound.budget.change_rate(bytes_per_second, now)
        found[entity] = bound
    return FinerBudgets(rates, found, names, racks) if found else None


class _Share(NamedTuple):
    """One connection's stake in a bound."""

    bound: Bound
    stake: Stake


class Entered:
    """One connection's part in the finer budgets of its role."""

    __slots__ = ("_finer", "_has_left", "_of_topics", "_own", "_resolved", "stakes")

    def __init__(self, finer: FinerBudgets, role: Stake, peer: str) -> None:
        self._finer = finer
        self._own = [_Share(bound, Stake.in_budget(bound.budget)) for bound in finer.of_peer(peer)]
        self.stakes = Stakes(role, [share.stake for share in self._own])
        self._of_topics: dict[Bound, _Share] = {}
        self._resolved: dict[str | bytes, _Share | None] = {}
        self._has_left = False

    def leave(self) -> None:
        """Take no further part; what is reserved is still to be settled."""
        self._has_left = True
        for share in (*self._own, *self._of_topics.values()):
            share.stake.leave()

    def parts_of(self, keys: Sequence[PartitionKey]) -> list[Stake | None]:
        """Return for each partition the stake in what bounds its topic."""
        if not self._finer.names_topics:
            return [None] * len(keys)
        return [None if share is None else share.stake for share in (self._share_of(topic) for topic, _ in keys)]

    def _share_of(self, topic: str | bytes) -> _Share | None:
        try:
            return self._resolved[topic]
        except KeyError:
            bound, for_good = self._finer.of_topic(topic)
        share = None if bound is None else self._of_topics.get(bound)
        if bound is not None and share is None and not self._has_left:
            share = self._of_topics[bound] = _Share(bound, Stake.in_budget(bound.budget))
        if for_good:
            if len(self._resolved) >= MOST_RESOLVED:
                self._resolved.clear()
            self._resolved[topic] = share
        return share

    def must_discard(self, keys: Collection[PartitionKey], admitted_at: float, now: float) -> set[PartitionKey]:
        """Return those of `keys` whose records, asked for at `admitted_at`, are over quota in some bound by now."""
        if self.stakes.must_discard(admitted_at, now):
            return set(keys)
        over = {share.stake for share in self._of_topics.values() if share.stake.budget.must_discard(admitted_at, now)}
        return {key for key in keys if (share := self._share_of(key[0])) and share.stake in over} if over else set()

    def begin(self, key: PartitionKey, size: int, now: float) -> None:
        """Records of `size` bytes of a throttled partition are about to go on."""
        share = self._share_of(key[0]) if self._finer.names_topics else None
        self.stakes.begin(None if share is None else share.stake, size, now)

    def forget_begun(self) -> None:
        """What has begun and is not settled by now never will be."""
        for share in (*self._own, *self._of_topics.values()):
            share.stake.claim.begun_bytes = 0

    def account(self, key: PartitionKey, part: Stake | None, granted: int, used: int, now: float, *, most: int) -> None:
        """Account for `used` bytes of a throttled partition that went on to the follower. `granted`: the bytes of its
        grant, reserved in `part` too; 0: there was none. No more than `most` bytes are charged: where quotas are only
        observed, more comes than would come if they were enforced."""
        share = self._share_of(key[0]) if self._finer.names_topics else None
        for each in self._own if share is None else (*self._own, share):
            each.bound.passed_bytes += used
            each.bound.rate.record(used, now)
        charged = min(used, most)
        if granted:
            self.stakes.settle(part, reserved=granted, used=charged, now=now)
        elif charged:
            self.stakes.settle(None if share is None else share.stake, reserved=0, used=charged, now=now)

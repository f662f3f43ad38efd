"""Orders the replicas of one connection: those in greater need first, but for a share of others.

Between connections `admission.shares` sees to the same. Inside one, replicas of the greatest urgency are asked for
alone, as long as they can use what the budget allows: beside others they would have no more than one limit of theirs in
each fetch (replica.fetch.max.bytes, a megabyte). Replicas of less urgency are asked for beside them in two cases: the
budget has so much left that the first cannot use it all, or enough bytes are owed to their class. A class that has
replicas in this request is owed a nineteenth of what the class above it was granted or is owed. A class that has none
in this request is owed a nineteenth of what the first class was granted: a sidecar on the other side lets its replicas
be asked for only now and then. Replicas of a topic whose own budget is shut are asked for beside these, to keep their
place in its line; no other replica waits for them.

Pure. Invariant: every replica that is behind is granted something again and again, whatever goes before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from admission.shares import FIRST_SHARE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from admission.wishes import Wish
    from protocol.session.requests import PartitionKey

    from ..topology.partition_urgency import PartitionUrgency
    from .replica import Replica

MAX_DEFICIT_BYTES = 4 * 2**20
"""The most bytes that one connection owes to one class, unless its next batch alone takes more: a class that could use
nothing for a long time must not get all of its share at once."""


class Ordered(NamedTuple):
    """The replicas that may be granted bytes now, in order.

    `keys` and `wishes`: these replicas in order, and what each wishes for. `priority`: the greatest of theirs. `left`:
    how many others there are, which are granted nothing.
    """

    keys: Sequence[PartitionKey]
    wishes: Sequence[Wish]
    priority: int
    left: int


class PriorityOrder:
    """The service deficit of each class of one connection's replicas."""

    __slots__ = ("_below", "_deficit", "_needed", "_urgency_of")

    def __init__(self) -> None:
        self._deficit: dict[int, float] = {}
        """The bytes owed to each class seen so far, by its urgency."""
        self._needed: dict[int, float] = {}
        """The bytes that the replica whose turn it is in a class needs at least, by its urgency."""
        self._below: Sequence[int] = ()
        """The classes of the last request, by urgency, but for the most urgent one."""
        self._urgency_of: dict[PartitionKey, int] = {}
        """The urgency of each replica of the last request."""

    def order(
        self, replicas: Sequence[Replica], known: PartitionUrgency, *, has_spare: bool, shut: Set[PartitionKey]
    ) -> Ordered:
        """Put the replicas of a request in order. `replicas`: those that are behind or new, the one served least
        first. `has_spare`: so much is left in the budget that replicas of every class may be granted something. `shut`:
        those to which the budget of their topic grants nothing now."""
        urgency_of = self._urgency_of = {replica.key: known.urgency_of(replica.key) for replica in replicas}
        classes: dict[int, list[Replica]] = {}
        waiting: list[Replica] = []
        for replica in replicas:
            if replica.key in shut:
                waiting.append(replica)
            else:
                classes.setdefault(urgency_of[replica.key], []).append(replica)
        ranks = sorted(classes, reverse=True)
        if not ranks:
            most = max(urgency_of.values(), default=0)
            return Ordered([each.key for each in waiting], [each.wish for each in waiting], most, 0)
        first, *rest = ranks
        self._below = rest
        for urgency in ranks:
            self._deficit.setdefault(urgency, 0.0)
        found = [(each.key, each.wish) for each in classes[first]]
        owed = [self._deficit_wish(classes[urgency], urgency) for urgency in rest]
        found = [each for each in owed if each is not None] + found
        if has_spare:
            named = {key for key, _ in found}
            found += [(each.key, each.wish) for urgency in rest for each in classes[urgency] if each.key not in named]
        found += [(each.key, each.wish) for each in waiting if has_spare or urgency_of[each.key] >= first]
        keys, wishes = zip(*found, strict=True)
        return Ordered(keys, wishes, first, len(replicas) - len(found))

    def _deficit_wish(self, replicas: list[Replica], urgency: int) -> tuple[PartitionKey, Wish] | None:
        """Return the wish of the replica whose turn it is in this class, cut down to what the class is owed; None if it
        is owed less than that replica needs."""
        replica, owed = replicas[0], self._deficit[urgency]
        wish = replica.wish
        needed = self._needed[urgency] = min(wish.need_bytes, wish.limit_bytes, wish.likely_bytes)
        if owed < needed:
            return None
        return replica.key, wish._replace(limit_bytes=min(wish.limit_bytes, int(owed)))

    def granted(self, grants: Mapping[PartitionKey, int]) -> None:
        """Record what each replica was granted. The less urgent classes are now owed their share of that, and what they
        were granted themselves is taken off what they were owed."""
        first, total, urgency_of = 0, 0.0, self._urgency_of
        for key, size in grants.items():
            urgency = urgency_of[key]
            if urgency in self._below:
                self._deficit[urgency] = max(self._deficit[urgency] - size, 0.0)
            else:
                first, total = urgency, total + size
        share = (1 - FIRST_SHARE) / FIRST_SHARE
        present = total
        for urgency in sorted(self._deficit, reverse=True) if total else ():
            if urgency in self._below:
                present *= share
                self._owe(urgency, present)
            elif urgency < first:
                self._owe(urgency, total * share)

    def _owe(self, urgency: int, size: float) -> None:
        most = max(MAX_DEFICIT_BYTES, self._needed.get(urgency, 0))
        self._deficit[urgency] = min(self._deficit[urgency] + size, most)

"""The order in which the replicas of one connection are served: the one that was served least comes first.

Those whose grants brought nothing go last, but for one at a time, which goes first: it may bring records again, but
a fetch that brings nothing takes as long as its leader waits.

Kept in order instead of sorted for each request: of a thousand replicas that are behind a fetch grants ten, and only
these change their places. Where many have changed at once, or there are few, all are sorted.

Pure. Knows nothing of a replica but these numbers. Invariant: `in_order` returns all members, sorted by `served` but
for those that stall.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from protocol.work_in_steps import parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from protocol.session.requests import PartitionKey
    from protocol.work_in_steps import Steps


class Served(Protocol):
    """A replica as its order sees it."""

    served: float
    placed_at: float
    """The value of `served` by which it was placed last."""
    empty_grants: int
    """The number of its grants in a row that brought nothing."""

    @property
    def key(self) -> PartitionKey: ...


S = TypeVar("S", bound=Served)
SERVED = attrgetter("served")
"""The key by which replicas are ordered."""
FEW = 64
"""The number of items that are sorted in a few microseconds."""
MAX_MOVED_SHARE = 1 / 16
"""The greatest share of all replicas that are placed one by one: 2.5 µs each, where sorting takes 0.1 µs for each of
all."""


class ServiceOrder(Generic[S]):
    """`members`: the replicas to order, by their keys; the caller changes them, and reports each change by `touch`."""

    __slots__ = ("_items", "_level", "_members", "_moves", "_placed_at", "_stalled", "_touched", "has_brought")

    def __init__(self, members: Mapping[PartitionKey, S]) -> None:
        self._members = members
        self._items: list[S] = []
        self._placed_at: list[float] | None = None
        """The `placed_at` of each item; None: the items are to be sorted anew."""
        self._touched: dict[S, None] = {}
        """The items to be placed anew, while others have places: a small share of all."""
        self._moves = 0
        """The number of touches since the items were put in order."""
        self._level: float = 0
        """The most that a replica counted as served for when it was served again."""
        self._stalled: dict[PartitionKey, S] = {}
        """The replicas whose last grants brought nothing, the one asked for longest ago first."""
        self.has_brought = True
        """True if the last answer to grants brought something: then one that stalls is asked for beside others."""

    def stall(self, item: S) -> None:
        """Note that a grant of the replica brought nothing."""
        self._stalled.pop(item.key, None)
        self._stalled[item.key] = item

    def serve(self, item: S, size: int) -> None:
        """Note that a grant of the replica brought `size` bytes.

        Whichever was served least goes first. One that had less while it was behind, since the other end sent others
        first, makes up for that. One that had less for want of records, or by its leader's throttle, starts level.
        """
        if self._stalled and self._stalled.pop(item.key, None) is not None:
            self.level_up(item)
        if item.served > self._level:
            self._level = item.served
        item.served += size
        if self._placed_at is None:  # as `touch` does: each call costs every partition of an answer
            self._moves += 1
        else:
            self.touch(item)

    def level_up(self, item: S) -> None:
        """Let the replica make up for nothing that it had less than others."""
        item.served = max(item.served, self._level)

    def touch(self, item: S) -> None:
        """Note that the replica became a member, is one no more, or was served."""
        self._moves += 1
        if self._placed_at is not None:
            self._touched[item] = None
            if len(self._touched) > MAX_MOVED_SHARE * len(self._placed_at):
                self._placed_at, self._touched = None, {}

    def clear(self) -> None:
        """Note that no member is left."""
        self._items, self._placed_at, self._touched, self._stalled = [], None, {}, {}

    def in_order(self) -> Steps[Sequence[S]]:
        """Return all members, in order; as a list that is valid until the next call."""
        if len(self._members) > FEW:
            order = yield from self._by_service()
        else:
            order = self._items = sorted(self._members.values(), key=SERVED)
            self._placed_at, self._moves = None, 0
            if self._touched:
                self._touched = {}
        if not self._stalled:
            return order
        members = self._members
        self._stalled = {k: each for k, each in self._stalled.items() if each.empty_grants and members.get(k) is each}
        stalled, first = list(self._stalled.values()), int(self.has_brought)
        return [*stalled[:first], *(each for each in order if each.key not in self._stalled), *stalled[first:]]

    def _by_service(self) -> Steps[Sequence[S]]:
        count, moves, self._moves = len(self._members), self._moves, 0
        if self._placed_at is None:
            self._items = sorted(self._members.values(), key=SERVED)
            if moves <= MAX_MOVED_SHARE * count:
                yield
                places = list(map(SERVED, self._items))
                for part in parts(self._items):
                    for item in part:
                        item.placed_at = item.served
                    if part is not self._items:
                        yield
                self._placed_at = places
        else:
            for item in self._touched:
                self._take_out(item, self._placed_at)
            for item in self._touched:
                if self._members.get(item.key) is item:
                    self._put_in(item, self._placed_at)
        if self._touched:
            self._touched = {}
        return self._items

    def _take_out(self, item: S, places: list[float]) -> None:
        """Take a replica from its place, if it has one."""
        first, end = bisect_left(places, item.placed_at), bisect_right(places, item.placed_at)
        try:
            at = self._items.index(item, first, end)
        except ValueError:
            return
        del self._items[at], places[at]

    def _put_in(self, item: S, places: list[float]) -> None:
        item.placed_at = item.served
        at = bisect_right(places, item.served)
        self._items.insert(at, item)
        places.insert(at, item.served)

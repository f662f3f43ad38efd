"""A connection's way through the budget tree: a grant is the least that any budget on it allows.

The role's budget holds for all of its connections; beneath it there may be budgets of the peer's rack, of the peer, and
of topics. A connection has a claim in each. Role, rack and peer bound everything that it fetches: these claims are the
*trunk*. A topic's budget bounds a part of it: such claims are *branches*. What is granted is taken from every budget
that bounds it, so each keeps to its own rate. Without inner rates the trunk is one claim, and there are no branches.

A connection waits for its turn in one budget at a time: in the one that is shut longest. In all others it releases its
turn, so their bytes go to a connection that can use them, and no two connections wait for each other.

Pure: time is an argument. Knows bytes, not brokers or topics. Invariants: nothing is granted beyond the room of any
budget, but for a first batch (KIP-74), which each repays as debt; what is taken from a budget is settled there once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .fetcher import GRACE_SECONDS, Fetcher
from .turns import Want
from .wishes import share

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .turns import BudgetNode, Claim
    from .wishes import Wish


class BudgetPath:
    """The claims of one connection; `trunk` holds those for everything that it fetches, the role's first."""

    __slots__ = ("_asked", "_has_left", "_only_branches", "branches", "fetcher", "trunk")

    def __init__(self, *trunk: BudgetNode) -> None:
        self.fetcher = Fetcher()
        self.trunk = tuple(node.join(self.fetcher) for node in trunk)
        self.branches: dict[BudgetNode, Claim] = {}
        """The claims in budgets of parts of what is fetched, by budget."""
        self._asked: tuple[Claim, ...] = ()
        """The branches of the last wishes."""
        self._only_branches = False
        """True if each of the last wishes was of a branch: then at least one branch must have room."""
        self._has_left = False

    def branch(self, node: BudgetNode) -> Claim | None:
        """Return the claim in the budget of a part of what is fetched; None if the connection has left before."""
        claim = self.branches.get(node)
        if claim is None and not self._has_left:
            claim = self.branches[node] = node.join(self.fetcher)
        return claim

    def reroute(self, *trunk: BudgetNode) -> BudgetPath:
        """Return the connection's path through other budgets. Claims in those that stay are kept; the others are left,
        and so is this path: what was reserved on it is still to be settled on it."""
        path = BudgetPath.__new__(BudgetPath)
        before = {claim.budget: claim for claim in self.trunk}
        path.fetcher = self.fetcher
        path.trunk = tuple(before.pop(node) if node in before else node.join(self.fetcher) for node in trunk)
        path.branches, path._asked, path._only_branches, path._has_left = {}, (), False, False
        self._has_left = True
        for claim in (*before.values(), *self.branches.values()):
            claim.budget.turns.leave(claim)
        return path

    def leave(self) -> None:
        """Give up all places in line; what is reserved is still to be settled."""
        self._has_left = True
        for claim in (*self.trunk, *self.branches.values()):
            claim.budget.turns.leave(claim)

    def may_grant(self, now: float, *, rides: bool = False) -> bool:
        """Return True if anything would be granted that no branch bounds; the claims ask for it."""
        self.fetcher.ask(now)
        return self._trunk_room(now, rides=rides) > 0

    def grant(
        self, wishes: Sequence[Wish], now: float, *, branches: Sequence[Claim | None] = (), rides: bool = False
    ) -> list[int]:
        """Return the bytes granted to each of the first `wishes`, reserved until they are settled in every budget that
        bounds them; later wishes, for which nothing is left, are not in the list.

        `branches`: the branch of each wish; None: of none. `rides`: see `BudgetNode.room`.
        """
        self.fetcher.ask(now)
        if branches or self._asked:
            self._ask_branches(branches)
        if len(self.trunk) > 1 or self._asked:
            self._bound_deficit()
        available = self._trunk_room(now, rides=rides)
        if not available:
            return []
        room = {claim: claim.budget.room(claim, now, rides=rides) for claim in self._asked} if self._asked else None
        if room and self._only_branches and not any(room.values()):
            self._wait_at(len(self.trunk), now)
            return []
        # Each budget that bounds the grant gains more than it can keep until the connection asks again.
        is_ample = not (rides and available >= self.fetcher.max_bytes_beside_in_sync)
        for claim in self.trunk + self._asked:
            is_ample = is_ample and claim.budget.is_ample(claim, now)
        grants = share(wishes, available, is_ample=is_ample, branches=branches, room=room)
        total = sum(grants)
        self.fetcher.granted(total, now)
        for claim in self.trunk:
            claim.budget.reserve(claim, total, now)
        if branches:
            self._take_of_branches(grants, branches, now)
        if len(self.trunk) > 1 or self._asked:
            self._wait_where_shut(now)
        return grants

    def _ask_branches(self, branches: Sequence[Claim | None]) -> None:
        asked = dict.fromkeys(claim for claim in branches if claim is not None)
        for claim in self._asked:
            if claim not in asked:
                claim.want = Want.NOTHING
        self._asked = tuple(asked)
        self._only_branches = bool(asked) and None not in branches

    def _bound_deficit(self) -> None:
        """Bound what is kept for the connection, where it had less than others, by what its other budgets let it
        have."""
        bursts = [claim.budget.burst_bytes for claim in self.trunk[1:]]
        if self._only_branches:
            bursts.append(sum(claim.budget.burst_bytes for claim in self._asked))
        self.fetcher.max_deficit = min(bursts, default=math.inf)

    def _trunk_room(self, now: float, *, rides: bool) -> float:
        """Return the least room on the trunk. If there is none, the connection waits where it is shut longest."""
        room = math.inf
        shut: list[Claim] = []
        for claim in self.trunk:
            found = claim.budget.room(claim, now, rides=rides)
            if not found:
                shut.append(claim)
            elif found < room:
                room = found
        if shut:
            if len(self.trunk) > 1 or self._asked:
                longest = max(reversed(shut), key=lambda claim: _seconds(claim, now))
                self._wait_at(self.trunk.index(longest), now)
            return 0.0
        if math.isinf(room):
            return room
        fetcher = self.fetcher
        room = min(room, fetcher.max_grant_bytes)
        return min(room, fetcher.max_bytes_beside_in_sync) if rides else room

    def _wait_where_shut(self, now: float) -> None:
        """Release other turns while this connection is away, if some budget is shut until long after it is back."""
        seconds = [_seconds(claim, now) for claim in self.trunk]
        if self._only_branches:
            seconds.append(min(_seconds(claim, now) for claim in self._asked))
        longest = max(seconds)
        if longest > GRACE_SECONDS:
            self._wait_at(seconds.index(longest), now)

    def _wait_at(self, place: int, now: float) -> None:
        """Wait for one budget of the trunk, or beyond its end for branches: release the turns above it, where others
        could go on, and those in branches. A claim that waits beneath it waits for it as well."""
        _release(self.trunk[:place], now)
        if place < len(self.trunk):
            _release(self._asked, now)

    @staticmethod
    def _take_of_branches(grants: Sequence[int], branches: Sequence[Claim | None], now: float) -> None:
        of_branches: dict[Claim, int] = {}
        for size, branch in zip(grants, branches, strict=False):
            if branch is not None and size:
                of_branches[branch] = of_branches.get(branch, 0) + size
        for branch, size in of_branches.items():
            branch.budget.reserve(branch, size, now)

    def settle(self, *, reserved: int, used: int, now: float, branches: Iterable[tuple[Claim, int, int]] = ()) -> None:
        """Settle grants of `reserved` bytes that moved `used`; 0 reserved for traffic that needs no grant.

        `branches`: the same for those of it that a branch bounds.
        """
        for claim in self.trunk:
            claim.budget.settle(claim, reserved=reserved, used=used, now=now)
        for claim, of_reserved, of_used in branches:
            claim.budget.settle(claim, reserved=of_reserved, used=of_used, now=now)
        if reserved:
            self.fetcher.brought(used, now)

    def charge_on_send(self, branch: Claim | None, size: int, now: float) -> None:
        """Charge records of `size` bytes that are about to go on."""
        for claim in self.trunk if branch is None else (*self.trunk, branch):
            claim.budget.charge_on_send(claim, size, now)

    def forget_early_charges(self) -> None:
        """Forget what was charged early and is not settled by now, since it never will be."""
        for claim in (*self.trunk, *self.branches.values()):
            claim.charged_early_bytes = 0

    def must_discard(self, admitted_at: float, now: float) -> bool:
        """Return True if a budget of the trunk cannot bear records that were asked for at `admitted_at`."""
        for claim in self.trunk:  # noqa: SIM110 - a generator costs each fetch two calls
            if claim.budget.must_discard(admitted_at, now):
                return True
        return False

    def overloaded_branches(self, admitted_at: float, now: float) -> set[BudgetNode]:
        """Return the budgets of branches that cannot bear records that were asked for at `admitted_at`."""
        return {node for node in self.branches if node.must_discard(admitted_at, now)}

    def seconds_until_turn(self, now: float) -> float:
        """Return when it is worth asking again; inf if never at these rates."""
        seconds = max(_seconds(claim, now) for claim in self.trunk)
        if self._only_branches:
            seconds = max(seconds, min(_seconds(claim, now) for claim in self._asked))
        return seconds

    def has_spare(self, now: float) -> bool:
        """Return True if so much is left in every budget of the trunk that the first connections cannot use it all."""
        return all(claim.budget.has_spare(now) for claim in self.trunk)

    def place(self, priority: int) -> None:
        """Give what is wished for this priority from now on."""
        if priority != self.fetcher.priority:
            self.fetcher.priority = priority
            for claim in (*self.trunk, *self.branches.values()):
                claim.budget.turns.look_again()

    def want_nothing(self) -> None:
        """Note that everything that was wished for is granted, or that nothing is wished for."""
        for claim in (*self.trunk, *self._asked):
            claim.want = Want.NOTHING

    def others_want(self) -> bool:
        """Return True if any other connection of the role wants bytes."""
        return self.trunk[0].budget.turns.others_want(self.trunk[0])


def _release(claims: Iterable[Claim], now: float) -> None:
    for claim in claims:
        claim.release_turn(now)


def _seconds(claim: Claim, now: float) -> float:
    return claim.budget.seconds_until_turn(claim, now)

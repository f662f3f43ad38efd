"""A connection's way through the budget tree: a grant is the least that any budget on it allows.

The role's budget holds for all of its connections; beneath it there may be budgets of the peer's rack, of the peer, and
of topics. A connection has a claim in each. Role, rack and peer bound everything that it fetches: these claims are the
*trunk*. A topic's budget bounds a part of it: such claims are *branches*. What is granted is taken from every budget
that bounds it, so each keeps to its own rate. Without inner rates the trunk is one claim, and there are no branches.

While one budget holds a connection up, nothing is kept for it in the others but what does not come in meanwhile, and no
more than it could use at once: so their bytes go to connections that can use them, and no two wait for each other.

Pure: time is an argument. Knows bytes, not brokers or topics. Invariants: nothing is granted beyond the room of any
budget, but for a first batch (KIP-74), which each repays as debt; what is taken from a budget is settled there once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .fetcher import Fetcher
from .wishes import LIMIT, share

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .shares import BudgetNode, Claim
    from .wishes import Wish


class BudgetPath:
    """The claims of one connection; `trunk` holds those for everything that it fetches, the role's first."""

    __slots__ = ("_asked", "_has_left", "_only_branches", "_wished", "branches", "fetcher", "has_all", "trunk")

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
        self._wished = math.inf
        self.has_all = False
        """True if everything that was wished for last is granted."""
        """The bytes that it can use at once."""

    @property
    def burst_bytes(self) -> float:
        """The most bytes that its trunk ever has at once; inf if nothing bounds them."""
        return min(claim.budget.burst_bytes for claim in self.trunk)

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
        path.fetcher.path_credit = math.inf
        path.trunk = tuple(before.pop(node) if node in before else node.join(self.fetcher) for node in trunk)
        path.branches, path._asked, path._only_branches, path._has_left = {}, (), False, False
        path._wished, path.has_all = math.inf, False
        self._has_left = True
        for claim in (*before.values(), *self.branches.values()):
            claim.budget.shares.leave(claim)
        return path

    def leave(self) -> None:
        """Give up all places in line; what is reserved is still to be settled."""
        self._has_left = True
        for claim in (*self.trunk, *self.branches.values()):
            claim.budget.shares.leave(claim)

    def may_grant(self, now: float, wished: float = math.inf, *, beside_in_sync: bool = False) -> bool:
        """Return True if anything would be granted of so many bytes that no branch bounds; the claims ask for it."""
        self.fetcher.ask(now, wished)
        self._wished = wished
        return self._trunk_room(now, wished, beside_in_sync=beside_in_sync) > 0

    def grant(
        self,
        wishes: Iterable[Wish],
        now: float,
        *,
        wished: float | None = None,
        branches: Sequence[Claim | None] = (),
        beside_in_sync: bool = False,
    ) -> list[int]:
        """Return the bytes granted to each of the first `wishes`, reserved until they are settled in every budget that
        bounds them; later wishes, for which nothing is left, are not in the list.

        `wished`: the sum of their limits, or inf if that is more than `burst_bytes`, since of many wishes only the
        first are looked at then; None: sum them up. `branches`: the branch of each wish; None: of none.
        `beside_in_sync`: see `BudgetNode.room`.
        """
        self._wished = wished = sum(map(LIMIT, wishes)) if wished is None else wished
        self.fetcher.ask(now, wished)
        self.has_all = False
        if branches or self._asked:
            self._ask_branches(branches)
        if len(self.trunk) > 1 or self._asked:
            self._bound_credit()
        room: dict[Claim, float] = {}
        if self._asked:
            room = self._branch_room(now, beside_in_sync=beside_in_sync)
            if self._only_branches and not any(room.values()):
                return []
        most = min(wished, sum(room.values())) if self._only_branches else wished
        available = self._trunk_room(now, most, beside_in_sync=beside_in_sync)
        if not available:
            return []
        # Each budget that bounds the grant gains more than it can keep until the connection asks again.
        is_ample = not (beside_in_sync and available >= self.fetcher.max_bytes_beside_in_sync)
        for claim in self.trunk + self._asked if self._only_branches else self.trunk:
            is_ample = is_ample and claim.budget.is_ample(claim, now)
        grants = share(wishes, available, wished=wished, is_ample=is_ample, branches=branches, room=room)
        total = sum(grants)
        self.has_all = total == wished  # none is granted more than its limit
        self.fetcher.granted(total, now, has_all=self.has_all)
        for claim in self.trunk:
            claim.budget.reserve(claim, total, now)
        if branches:
            self._take_of_branches(grants, branches, now)
        if len(self.trunk) > 1 or self._asked:
            self._look_elsewhere(now)
        return grants

    def _ask_branches(self, branches: Sequence[Claim | None]) -> None:
        asked = dict.fromkeys(claim for claim in branches if claim is not None)
        for claim in self._asked:
            if claim not in asked:
                claim.wants = False
        self._asked = tuple(asked)
        self._only_branches = bool(asked) and None not in branches

    def _bound_credit(self) -> None:
        """Bound what is kept for the connection, where it had less than others, by what its other budgets let it
        have."""
        away = self.fetcher.absence_seconds
        parts = [claim.budget.part_at_once(away) for claim in self.trunk[1:]]
        if self._only_branches:
            parts.append(sum(claim.budget.part_at_once(away) for claim in self._asked))
        self.fetcher.path_credit = min(parts, default=math.inf)

    def _branch_room(self, now: float, *, beside_in_sync: bool) -> dict[Claim, float]:
        """Return the room in each branch. Where the fetch goes on without it, what is the connection's own is enough:
        the next time may be long after."""
        waits = self._only_branches
        found = {}
        for claim in self._asked:
            node = claim.budget
            most = math.inf if waits or node.shares.is_one else max(claim.credit, 1.0)
            found[claim] = node.room(claim, now, beside_in_sync=beside_in_sync, most=most)
        return found

    def _trunk_room(self, now: float, most: float, *, beside_in_sync: bool) -> float:
        """Return the least room on the trunk, where `most` can be used."""
        room = most
        for claim in self.trunk:
            if not claim.budget.shares.is_one:
                room = min(room, self.fetcher.max_grant_bytes, self.fetcher.path_credit)
                if claim.budget.gate_bytes < math.inf:  # `kip73` grants all or nothing
                    room = min(room, self.fetcher.line_bytes * (1 if self._asked else 2))
        for claim in reversed(self.trunk):
            found = claim.budget.room(claim, now, beside_in_sync=beside_in_sync, most=room)
            if not found:
                return 0.0
            if found < room:
                room = found
        if math.isinf(room):
            return room
        return min(room, self.fetcher.max_bytes_beside_in_sync) if beside_in_sync else room

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
            self.fetcher.brought(reserved, used, now)

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
        return self._look_elsewhere(now)

    def _look_elsewhere(self, now: float) -> float:
        """Tell each claim until when the connection waits for its other budgets: nothing is to be kept for it before.
        Return the longest wait."""
        if len(self.trunk) == 1 and not self._asked:
            return self.trunk[0].budget.seconds_until_turn(self.trunk[0], now, most=self._wished)
        waits, most = [], self._wished
        if self._only_branches:
            most = min(most, sum(claim.budget.gate_bytes for claim in self._asked))
        for claim in reversed(self.trunk):
            waits.append(claim.budget.seconds_until_turn(claim, now, most=most))
            most = min(most, claim.budget.gate_bytes)
        waits.reverse()
        branches = [_seconds(claim, now) for claim in self._asked]
        if self._only_branches:
            waits.append(min(branches))
        *_, second, longest = sorted([0.0, *waits])
        for claim, wait in zip(self.trunk, waits, strict=False):
            claim.elsewhere_until = now + (second if wait == longest else longest)
        of_trunk = max(waits[: len(self.trunk)])
        for claim in self._asked:
            claim.elsewhere_until = now + of_trunk
        return longest

    def has_spare(self, now: float) -> bool:
        """Return True if so much is left in every budget of the trunk that the first connections cannot use it all."""
        return all(claim.budget.has_spare(now) for claim in self.trunk)

    def place(self, priority: int) -> None:
        """Give what is wished for this priority from now on."""
        if priority != self.fetcher.priority:
            self.fetcher.priority = priority
            for claim in (*self.trunk, *self.branches.values()):
                claim.budget.shares.look_again()

    def want_nothing(self) -> None:
        """Note that everything that was wished for is granted, or that nothing is wished for."""
        for claim in (*self.trunk, *self._asked):
            claim.wants = False


def _seconds(claim: Claim, now: float) -> float:
    return claim.budget.seconds_until_turn(claim, now)

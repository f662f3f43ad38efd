"""One connection's place in the line of its role's budget, and what its replicas are granted.

Pure. Knows what replicas wish for and what a budget gives, nothing of requests.

Invariant: each grant is settled once, with the bytes of the answer or by being given back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from protocol.pacing import FEW, paced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admission.budget import Wish
    from protocol.session.requests import PartitionKey

    from .replicas import Replicas
    from .role_throttle import RoleThrottle

LEAST_HOLD_SECONDS = 0.002
"""The shortest hold, so that a wait that rounds to nothing cannot become a loop of decisions."""
LEAST_FORWARDED_WAIT_MS = 10
"""The shortest max_wait_ms asked of a leader: an idle link makes at most so many fetches a second."""


Turn: TypeAlias = "tuple[Sequence[PartitionKey], Sequence[Wish]]"
"""The replicas whose turn it is, in order, and what each of them wishes for."""
NOBODY: Turn = ((), ())


class Admission:
    """Of one link."""

    __slots__ = ("_replicas", "_throttle", "claim")

    def __init__(self, throttle: RoleThrottle, replicas: Replicas) -> None:
        self._throttle = throttle
        self._replicas = replicas
        self.claim = throttle.budget.turns.join()

    def leave(self) -> None:
        self._throttle.budget.turns.leave(self.claim)

    def in_turn(self, now: float, *, with_new: bool, rides: bool) -> Turn:
        """Return the replicas that may be granted something, the one served longest ago first, new ones last.

        `rides`: the request goes on anyway, for the sake of other partitions. Putting more than `FEW` replicas in order
        takes a while, and is not done where the budget has nothing to grant.
        """
        replicas, claim = self._replicas, self.claim
        if not replicas.behind and not (with_new and replicas.new):
            claim.wants = False
            return NOBODY
        claim.due = now
        if len(replicas.behind) > FEW and not self._throttle.budget.may_admit(claim, now, rides=rides):
            return NOBODY
        order = replicas.in_turn(with_new=with_new)
        return [replica.key for replica in paced(order)], [replica.wish for replica in paced(order)]

    def grant(self, turn: Turn, now: float, *, rides: bool) -> dict[PartitionKey, int]:
        """Return how many bytes each is granted, until the budget is used up. The budget changes in one step, so no
        other connection is granted anything in between."""
        keys, wishes = turn
        if not keys:
            return {}
        grants = self._throttle.budget.admit(self.claim, wishes, now, rides=rides)
        if len(grants) == len(wishes) and grants == [limit for limit, _, _ in wishes]:
            self.claim.wants = False
        return dict(zip(keys, grants, strict=False))

    def give_back(self, grants: dict[PartitionKey, int], now: float) -> None:
        """Return grants to the budget that no request will use."""
        for granted in grants.values():
            self._throttle.budget.settle(self.claim, reserved=granted, used=0, now=now)

    def looks_again(self, now: float, deadline: float) -> float:
        """Return when a held request is to be decided again: when its turn comes, at `deadline` at the latest."""
        turn = now + max(self._throttle.budget.seconds_until_turn(self.claim, now), LEAST_HOLD_SECONDS)
        self.claim.is_held = True
        self.claim.due = min(turn, deadline)
        return self.claim.due

    def hurry(self, max_wait_ms: float, now: float) -> float:
        """Return how many milliseconds the leader may wait for data: until this link's turn, `max_wait_ms` at most.

        The caller rounds up: an answer just before the turn would cost another fetch and another wait.
        """
        turn_ms = self._throttle.budget.seconds_until_turn(self.claim, now) * 1000
        return min(max_wait_ms, max(turn_ms, LEAST_FORWARDED_WAIT_MS))

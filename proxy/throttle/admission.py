"""One connection's place in the line of its role's budget, and what its replicas are granted.

Pure. Knows what replicas wish for and what a budget gives, nothing of requests.

Invariant: what is granted is settled by the answer, or given back here.
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
"""Waits are never shorter, so that rounding cannot turn one into a loop."""
LEAST_FORWARDED_WAIT_MS = 10
"""The shortest max_wait_ms asked of a leader: an idle link makes at most so many fetches a second."""


Turn: TypeAlias = "tuple[Sequence[PartitionKey], Sequence[Wish]]"
"""Whose turn it is, and what each wishes for."""
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
        """Return whose turn it is to be granted something: those that were served longest ago first, those never met
        last. Many are not even put in order where nothing can be granted."""
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
        """Return what these are granted, in order. Nobody else has a turn meanwhile: a budget changes in one step."""
        keys, wishes = turn
        if not keys:
            return {}
        grants = self._throttle.budget.admit(self.claim, wishes, now, rides=rides)
        if len(grants) == len(wishes) and grants == [limit for limit, _, _ in wishes]:
            self.claim.wants = False
        return dict(zip(keys, grants, strict=False))

    def give_back(self, grants: dict[PartitionKey, int], now: float) -> None:
        """What was granted will not be asked for."""
        for granted in grants.values():
            self._throttle.budget.settle(self.claim, reserved=granted, used=0, now=now)

    def looks_again(self, now: float, deadline: float) -> float:
        """When it is worth deciding again, at the latest at `deadline`."""
        turn = now + max(self._throttle.budget.seconds_until_turn(self.claim, now), LEAST_HOLD_SECONDS)
        self.claim.is_held = True
        self.claim.due = min(turn, deadline)
        return self.claim.due

    def hurry(self, max_wait_ms: float, now: float) -> float:
        """So long, in milliseconds, and no longer than until it is our turn, the leader may wait.

        An answer just before the gate opens would cost another fetch, and its wait: the result is to be rounded up.
        """
        turn_ms = self._throttle.budget.seconds_until_turn(self.claim, now) * 1000
        return min(max_wait_ms, max(turn_ms, LEAST_FORWARDED_WAIT_MS))

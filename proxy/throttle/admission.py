"""One connection's place in the line of its role's budget, and what its replicas are granted.

Pure. Knows what replicas wish for and what a budget gives, nothing of requests.

Invariant: each grant is settled once, with the bytes of the answer or by being given back.
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from admission.budget import limits
from admission.stakes import Stake

from .finer import Entered
from .precedence import Precedence
from .riding import Riding
from .steps import is_long

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admission.budget import Wish
    from protocol.session.requests import PartitionKey

    from .finer import FinerBudgets
    from .replica import Replica
    from .replicas import Replicas
    from .role_throttle import RoleThrottle

_KEY, _WISH = attrgetter("key"), attrgetter("wish")
LEAST_HOLD_SECONDS = 0.002
"""The shortest hold, so that a wait that rounds to nothing cannot become a loop of decisions."""
LEAST_FORWARDED_WAIT_MS = 10
"""The shortest max_wait_ms that a leader is asked for, so that an idle link makes at most 100 fetches a second."""
Turn: TypeAlias = "tuple[Sequence[PartitionKey], Sequence[Wish]]"
"""The replicas whose turn it is, in order, and what each of them wishes for."""
NOBODY: Turn = ((), ())
LEAST_FIXED_BYTES = 160 * 1024
"""Ten batches of the default size. Each piece costs brokers and sidecars some work, however small it is. On two cores
with nothing to spare, pieces of 64 KiB made followers slower, which called for small pieces: at 4 MiB/s producers
waited 6.6 to 7.0 ms (median), and 9.7 to 10.0 while another process started. With this they wait 6.2 and 7.3, as with
half gates. In the simulated cluster that depends most on it, a leader beside three that bring little has 0.46 of the
quota; 0.28 to 0.34 with 112 to 144 KiB."""


class Admission:
    """One link's claim on the budget of its role, and its grants."""

    __slots__ = (
        "_entered", "_finer", "_granted_bytes", "_leaves", "_peer", "_precedence", "_replicas", "_riding", "_throttle",
        "claim", "granted_by", "has_all", "parts",
    )  # fmt: skip

    def __init__(self, throttle: RoleThrottle, replicas: Replicas, peer: str) -> None:
        self._throttle = throttle
        self._replicas = replicas
        self._peer = peer
        self._finer: FinerBudgets | None = None
        self._entered: Entered | None = None
        self.claim = throttle.budget.turns.join()
        self._precedence = Precedence()
        self._riding = Riding()
        self._granted_bytes = 0
        """How many bytes the last request was granted, if the throttle paces what rides along; else 0."""
        self._leaves = 0
        """How many replicas of the last request asked the budget for nothing, because others are in greater need."""
        self.has_all = False
        """Everything that was wished for last is granted."""
        self.granted_by: Entered | None = None
        """The part in the budgets of its peer and of topics that the last grants were reserved in. Brokers may be found
        in other racks while a long request is decided, and `entered` is another part then."""
        self.parts: dict[PartitionKey, Stake] = {}
        """Those of the last grants that a topic's budget bounds too, with the stake in that budget."""

    def leave(self) -> None:
        self._throttle.budget.turns.leave(self.claim)
        self._leave_finer()

    def meets(self, peer: str) -> None:
        """The other broker is known by another name."""
        self._peer = peer
        self._leave_finer()

    def _leave_finer(self) -> None:
        self._finer = None
        if self._entered is not None:
            self._entered.leave()
            self._entered = None

    @property
    def entered(self) -> Entered | None:
        """Its part in the budgets of its peer and of topics; None: there are none."""
        finer = self._throttle.finer
        if finer is not self._finer:
            self._leave_finer()
            if finer is not None:
                self._finer, self._entered = finer, Entered(finer, Stake(self._throttle.budget, self.claim), self._peer)
        return self._entered

    def want_nothing(self) -> None:
        """Nothing is wished for, or all of it is granted."""
        self.claim.wants = False
        self._granted_bytes = 0
        if self._entered is not None:
            self._entered.stakes.want_nothing()

    def in_turn(self, now: float, *, with_new: bool, rides: bool) -> Turn:
        """Return the replicas that may be granted something, the one served longest ago first, new ones last.

        `rides`: the request goes on anyway, for the sake of other partitions. Putting many replicas in order takes a
        while, and is not done where the budget has nothing to grant.
        """
        replicas, claim = self._replicas, self.claim
        self.has_all, self._leaves = False, 0
        if not replicas.behind and not (with_new and replicas.new):
            self.want_nothing()
            return NOBODY
        claim.due = now
        if is_long(len(replicas.behind)) and not self._may_admit(now, rides=rides):
            return NOBODY
        order = replicas.in_turn(with_new=with_new)
        if self._throttle.needs.is_any:
            return self._by_need(order, now)
        if self.claim.urgency:
            self._place(0)
        return list(map(_KEY, order)), list(map(_WISH, order))

    def _by_need(self, order: Sequence[Replica], now: float) -> Turn:
        """The same where some are in greater need than others."""
        entered, budget = self.entered, self._throttle.budget
        has_spare = budget.has_spare(now) if entered is None else entered.stakes.have_spare(now)
        arranged = self._precedence.arrange(order, self._throttle.needs, has_spare=has_spare)
        self._place(arranged.urgency)
        self._leaves = arranged.left
        return arranged.keys, arranged.wishes

    def _place(self, urgency: int) -> None:
        if self._entered is None:
            self._throttle.budget.turns.place(self.claim, urgency)
        else:
            self._entered.stakes.place(urgency)

    def _may_admit(self, now: float, *, rides: bool) -> bool:
        entered = self.entered
        if entered is not None:
            return entered.stakes.may_admit(now, rides=rides)
        return self._throttle.budget.may_admit(self.claim, now, rides=rides)

    def grant(self, turn: Turn, now: float, *, rides: bool) -> dict[PartitionKey, int]:
        """Return how many bytes each is granted, until the budget is used up. The budget changes in one step, so no
        other connection is granted anything in between."""
        keys, wishes = turn
        self._granted_bytes = 0
        if not keys:
            return {}
        entered = self.granted_by = self._entered if self._throttle.finer is self._finer else self.entered
        if entered is None:
            grants = self._throttle.budget.admit(self.claim, wishes, now, rides=rides)
        else:
            grants = self._grant_finer(entered, keys, wishes, now, rides=rides)
        if len(grants) == len(wishes) and grants == limits(wishes):
            self.has_all = not self._leaves
            if not self.claim.urgency:
                self.want_nothing()
        granted = dict(zip(keys, grants))  # noqa: B905 - to say `strict` costs every fetch half of the call again
        if entered is not None:
            granted = {key: size for key, size in granted.items() if size}
        if self.claim.urgency:
            self._precedence.granted(granted)
        if self._throttle.paces:
            self._granted_bytes = sum(grants)
        return granted

    def came_back(self, seconds: float, size: float, now: float) -> None:
        """The follower asks again, `seconds` after an answer with records of replicas in sync began to go on to it. The
        longer the follower took, the less it is granted beside such records next, but never less than the rate's floor
        brings until it is back. The floor of a fixed rate is that rate: it is to be reached, so nothing is held back
        from a bucket that is about to be full, and no piece of it is smaller than `LEAST_FIXED_BYTES`."""
        throttle, claim = self._throttle, self.claim
        self._riding.came_back(seconds, self._granted_bytes, size, now)
        away = max(seconds, claim.absence_seconds)
        if throttle.is_auto:
            floor = throttle.floor_bytes_per_second * away
        elif throttle.budget.has_spare(now):
            floor = math.inf
        else:
            floor = max(throttle.quota.bytes_per_second * away, LEAST_FIXED_BYTES)
        claim.most_riding_bytes = max(self._riding.most_bytes, floor)

    def rides_freely(self) -> None:
        """The throttle paces nothing from now on: how soon the follower is back does not count."""
        self.claim.most_riding_bytes = math.inf

    def _grant_finer(
        self, entered: Entered, keys: Sequence[PartitionKey], wishes: Sequence[Wish], now: float, *, rides: bool
    ) -> list[int]:
        parts = entered.parts_of(keys)
        grants = entered.stakes.admit(wishes, parts, now, rides=rides)
        self.parts = {
            key: part for key, part, size in zip(keys, parts, grants, strict=False) if part is not None and size
        }
        return grants

    def give_back(self, grants: dict[PartitionKey, int], now: float) -> None:
        """Return grants to the budget that no request will use."""
        for key, granted in grants.items():
            self._throttle.budget.settle(self.claim, reserved=granted, used=0, now=now)
            if self.granted_by is not None:
                self.granted_by.stakes.settle(self.parts.get(key), reserved=granted, used=0, now=now)

    def looks_again(self, now: float, deadline: float) -> float:
        """Return when a held request is to be decided again: when its turn comes, at `deadline` at the latest."""
        turn = now + max(self._seconds_until_turn(now), LEAST_HOLD_SECONDS)
        self.claim.is_held = True
        self.claim.due = due = min(turn, deadline)
        if self._entered is not None:
            self._entered.stakes.waits(due)
        return due

    def _seconds_until_turn(self, now: float) -> float:
        if self._entered is not None:
            return self._entered.stakes.seconds_until_turn(now)
        return self._throttle.budget.seconds_until_turn(self.claim, now)

    def hurry(self, max_wait_ms: float, now: float) -> float:
        """Return how many milliseconds the leader may wait for data: until this link's turn, `max_wait_ms` at most.

        The caller rounds up: an answer just before the turn would cost another fetch and another wait.
        """
        return min(max_wait_ms, max(self._seconds_until_turn(now) * 1000, LEAST_FORWARDED_WAIT_MS))

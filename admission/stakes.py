"""Several budgets at once: a grant is the least of what each of them allows.

A role's budget holds for all of its connections. Beside it there may be budgets of a part of them (one peer) and of a
part of what they fetch (one topic). A connection has a *stake* in each: its claim there. What it is granted is taken
from every budget that bounds it, so each keeps to its own rate, whatever the others do; a connection that one of them
has nothing for *stands back* in all the others, whose bytes go to whoever can use them.

Pure: time is an argument. Knows bytes, not brokers or topics. Invariants: nothing is granted beyond the room of any
budget, but for a first batch (KIP-74), which each repays as debt; what is taken from a budget is settled there once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from .budget import MOST_SHARED, limits, share
from .turns import GRACE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from .budget import Budget, Wish
    from .turns import Claim


SHUT_SECONDS = 0.08
"""A little less than a default gate. If one of a connection's several own budgets is shut for longer than this, the
connection waits for that one alone and stands back in the others. With 50 ms a peer that had a quarter of its rack's
rate lost its turns in the rack's budget and had 0.69 of its own rate. With 110 ms four connections of one peer kept
those of another peer from a quarter of what the rack had for them (both in simulation)."""
_SEVERAL = 2


class Stake(NamedTuple):
    """One connection's claim in one budget."""

    budget: Budget
    claim: Claim

    @classmethod
    def in_budget(cls, budget: Budget) -> Stake:
        return cls(budget, budget.turns.join())

    def leave(self) -> None:
        self.budget.turns.leave(self.claim)

    def settle(self, *, reserved: int, used: int, now: float) -> None:
        self.budget.settle(self.claim, reserved=reserved, used=used, now=now)


class Stakes:
    """The stakes of one connection. `role`: in the role's budget, which all connections share. `own`: in the budgets
    that bound everything that this connection fetches (of its peer and of its peer's rack). Stakes in budgets that
    bound only a part of it (of a topic) come with the wishes."""

    __slots__ = ("_asked", "_parts", "own", "role")

    def __init__(self, role: Stake, own: Sequence[Stake]) -> None:
        self.role = role
        self.own = own
        self._asked: Collection[Stake] = ()
        """The stakes in the budgets of parts that the last wishes were for."""
        self._parts: Collection[Stake] = ()
        """The same, if each of the last wishes was for such a part: then at least one of these budgets must have room.
        Otherwise empty."""

    def may_admit(self, now: float, *, rides: bool = False) -> bool:
        """Tell whether anything would be granted that no budget of a part bounds; the claims ask for it."""
        if self._own_room(now, rides=rides) and self.role.budget.may_admit(self.role.claim, now, rides=rides):
            return True
        self._parts = ()
        return False

    def admit(
        self, wishes: Sequence[Wish], parts: Sequence[Stake | None], now: float, *, rides: bool = False
    ) -> list[int]:
        """Return what the first so many of `wishes` are granted, 0 for nothing, reserved until settled in the role's
        budget, in those of `own` and in that of its part.

        `parts`: for each wish the stake in the budget of the part that it is of; None: of none.
        """
        before, found = self._asked, dict.fromkeys(part for part in parts if part is not None)
        self._asked = found
        for part in before:
            if part not in found:
                part.claim.wants = False
                part.budget.turns.place(part.claim, 0)
        self._parts = () if None in parts else found
        self._bound_arrears()
        for part in found:
            part.claim.due = now
            part.budget.turns.place(part.claim, self.role.claim.urgency)
        room = self._own_room(now, rides=rides)
        if not room:
            # Two connections, each of them first in one of two budgets, would otherwise wait for each other in both.
            _stand_back(found, now)
            return []
        left = {part: part.budget.room(part.claim, now, rides=rides) for part in found}
        if self._parts and not any(left.values()):
            _stand_back((self.role, *self.own), now)
            return []
        role_room = self.role.budget.room(self.role.claim, now, rides=rides)
        if not role_room:
            _stand_back(found, now)
            return []
        room = min(room, role_room)
        is_ample = self._is_ample(found, now)
        if found:
            grants = _Sharing(room, left, is_ample=is_ample).share(wishes, parts)
        else:
            grants = share(wishes, room, is_ample=is_ample)
        self._take(grants, parts, now)
        self._leave_what_is_left(now)
        return grants

    def _is_ample(self, parts: Iterable[Stake], now: float) -> bool:
        """Tell whether every budget that bounds the next grant gains more than it can keep until the connection asks
        again."""
        return all(each.budget.is_ample(each.claim, now) for each in (self.role, *self.own, *parts))

    def _leave_what_is_left(self, now: float) -> None:
        """Stand back in the other budgets while this connection is away, if one of its own budgets is shut for a while,
        or if it wants nothing but parts whose budgets are all shut. The other budgets could grant it nothing anyway, so
        nobody is to wait for it there."""
        if any(_seconds(stake, now) > GRACE_SECONDS for stake in self.own):
            _stand_back((self.role, *self._asked), now)
            self._stands_back_for_shut(now)
        elif self._parts and all(_seconds(part, now) > GRACE_SECONDS for part in self._parts):
            _stand_back((self.role, *self.own), now)

    def _stands_back_for_shut(self, now: float) -> bool:
        """If one of several own budgets is shut for longer than `SHUT_SECONDS`, stand back in the others and wait for
        that one alone; return whether one is."""
        if len(self.own) < _SEVERAL:
            return False
        shut = [stake for stake in self.own if _seconds(stake, now) > SHUT_SECONDS]
        if shut:
            _stand_back((self.role, *(stake for stake in self.own if stake not in shut)), now)
        return bool(shut)

    def _bound_arrears(self) -> None:
        """What the connection has had less than others is kept for it no further than its other budgets let it go."""
        burst_bytes = min((stake.budget.burst_bytes for stake in self.own), default=math.inf)
        if self._parts:
            burst_bytes = min(burst_bytes, sum(part.budget.burst_bytes for part in self._parts))
        for stake in (self.role, *self.own):
            stake.claim.most_arrears_bytes = burst_bytes

    def _own_room(self, now: float, *, rides: bool) -> float:
        """Return the least room in the connection's own budgets. If one of them has none, the connection stands back in
        the others and in the role's budget."""
        for stake in (self.role, *self.own):
            stake.claim.due = now
        if self.role.claim.rests_seconds(now):
            _stand_back(self.own, now)
            return 0.0
        if self._stands_back_for_shut(now):
            return 0.0
        room = math.inf
        for stake in self.own:
            room = min(room, stake.budget.room(stake.claim, now, rides=rides))
            if not room:
                _stand_back((self.role, *(other for other in self.own if other is not stake)), now)
                return 0.0
        return room

    def _take(self, grants: Sequence[int], parts: Sequence[Stake | None], now: float) -> None:
        total = sum(grants)
        of_parts: dict[Stake, int] = {}
        for size, part in zip(grants, parts, strict=False):
            if part is not None and size:
                of_parts[part] = of_parts.get(part, 0) + size
        for stake, size in ((self.role, total), *((stake, total) for stake in self.own), *of_parts.items()):
            stake.budget.take(stake.claim, size, now)

    def seconds_until_turn(self, now: float) -> float:
        """Return when it is worth asking again; inf if never at these rates."""
        seconds = max(_seconds(stake, now) for stake in (self.role, *self.own))
        if self._parts:
            seconds = max(seconds, min(_seconds(part, now) for part in self._parts))
        return max(seconds, self.role.claim.rests_seconds(now))

    def waits(self, due: float) -> None:
        """The connection's request waits here, and asks again at `due`."""
        for stake in (self.role, *self.own, *self._asked):
            stake.claim.is_held, stake.claim.due = True, due

    def have_spare(self, now: float) -> bool:
        """Tell whether so much is left in the role's budget, and in all of `own`, that the first cannot use it all."""
        return all(stake.budget.has_spare(now) for stake in (self.role, *self.own))

    def place(self, urgency: int) -> None:
        """What is wished for is of this urgency from now on."""
        for stake in (self.role, *self.own):
            stake.budget.turns.place(stake.claim, urgency)

    def want_nothing(self) -> None:
        """Everything that was wished for is granted, or nothing is wished for."""
        for stake in (self.role, *self.own, *self._asked):
            stake.claim.wants = False

    def begin(self, part: Stake | None, size: int, now: float) -> None:
        """Records of `size` bytes are about to go on: tell all budgets but the role's."""
        for stake in self.own if part is None else (*self.own, part):
            stake.budget.begin(stake.claim, size, now)

    def settle(self, part: Stake | None, *, reserved: int, used: int, now: float) -> None:
        """Account, outside of the role's budget, for what was reserved (0: without a grant) and came."""
        for stake in self.own if part is None else (*self.own, part):
            stake.settle(reserved=reserved, used=used, now=now)

    def must_discard(self, admitted_at: float, now: float) -> bool:
        """Tell whether one of `own` cannot bear records that were asked for at `admitted_at`."""
        return any(stake.budget.must_discard(admitted_at, now) for stake in self.own)


def _stand_back(stakes: Iterable[Stake], now: float) -> None:
    for stake in stakes:
        stake.claim.stand_back(now)


def _seconds(stake: Stake, now: float) -> float:
    return stake.budget.seconds_until_turn(stake.claim, now)


class _Sharing:
    """Hands out `room`, in order, and of it to the wishes of a part no more than is `left` there."""

    def __init__(self, room: float, left: dict[Stake, float], *, is_ample: bool) -> None:
        self._room = room
        self._is_ample = is_ample
        self._left = left
        self._begun: set[Stake | None] = set()
        """The parts of which something has been granted; None is among them once anything at all has."""

    def share(self, wishes: Sequence[Wish], parts: Sequence[Stake | None]) -> list[int]:
        """The first of all, and of each part, gets what it needs even if that is more (KIP-74). What is left when
        everybody had a turn is handed out in order again."""
        if self._is_ample and self._is_enough(wishes, parts):
            return limits(wishes)
        wishes, parts = wishes[:MOST_SHARED], parts[:MOST_SHARED]
        grants, room = [0] * len(wishes), self._room
        for place, (wish, part) in enumerate(zip(wishes, parts, strict=True)):
            most = wish.expected(room, is_ample=self._is_ample)
            least = min(wish.need_bytes, most)
            if self._room <= 0 or (self._room < least and None in self._begun):
                return grants
            left = math.inf if part is None else self._left[part]
            if left <= 0 or (left < least and part in self._begun):
                if part is not None:
                    self._left[part] = 0.0  # a later wish that needs less must not go before this one
                continue
            grants[place] = self._hand_out(
                wish.whole(min(most, max(least, min(self._room, left))), is_ample=self._is_ample), part
            )
        for place, (wish, part) in enumerate(zip(wishes, parts, strict=True)):
            left = self._room if part is None else min(self._room, self._left[part])
            if grants[place] and left > 0:
                most = wish.most(room, is_ample=self._is_ample)
                whole = wish.whole(min(most, grants[place] + left), is_ample=self._is_ample)
                grants[place] += self._hand_out(max(whole - grants[place], 0), part)
        return grants

    def _is_enough(self, wishes: Sequence[Wish], parts: Sequence[Stake | None]) -> bool:
        wished = dict.fromkeys(self._left, 0)
        total = 0
        for wish, part in zip(wishes, parts, strict=True):
            total += wish.limit_bytes
            if total > self._room:
                return False
            if part is not None:
                wished[part] += wish.limit_bytes
        return all(wished[part] <= left for part, left in self._left.items())

    def _hand_out(self, size: int, part: Stake | None) -> int:
        self._room -= size
        self._begun.add(None)
        if part is not None:
            self._left[part] -= size
            self._begun.add(part)
        return size

"""Wishes are what replicas ask of a budget, and are shared out from the bytes that it has.

Pure. Knows bytes and batches, not connections or rates. Invariant: no more is handed out than there is, except that the
first batch of all, and the first of each branch of the budget tree, comes whole (KIP-74).
"""

from __future__ import annotations

import math
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .shares import Claim

LIMIT = itemgetter(0)
"""A function that returns the most that a wish can use."""
MAX_SHARED = 500
"""The most replicas of one fetch that are granted something where the budget is too small for all: that many grants
take half a millisecond to work out, and no other connection has its turn meanwhile. The other replicas go first at the
next fetch. Those of a branch without room do not count: they would be first at every fetch."""
WASTED_SHARE = 1 / 25
"""The part of the bytes that may come in vain because grants end within batches. Where a batch is no larger than this
part of a grant, it makes no difference where the grant ends: 1 kB batches one at a time were 1000 fetches a second."""


def is_many(size: float, batch_bytes: int) -> bool:
    """Return True if `size` bytes are so many batches of a known size that a part of one makes no difference."""
    return 0 < batch_bytes <= WASTED_SHARE * size


class Wish(NamedTuple):
    """The bytes that one out-of-sync partition asks of a budget.

    It can use at most `limit_bytes`, and a grant below `need_bytes` would bring it no records. Its answer will probably
    bring `likely_bytes`. Where there is not enough for all partitions it is granted no more than that: other partitions
    could have used the bytes that are reserved for it and do not come.

    A grant that ends within a batch brings a part of it in vain: the follower discards it and fetches it again. The
    next batch probably ends after `first_bytes`, and others after it every `batch_bytes`; 0: unknown. Grants above
    `sure_bytes` would bring too much in vain.
    """

    limit_bytes: int
    need_bytes: int
    likely_bytes: float = math.inf
    sure_bytes: float = math.inf
    first_bytes: int = 0
    batch_bytes: int = 0

    def whole(self, most_bytes: float, *, is_ample: bool = False) -> int:
        """Return the most bytes, up to `most_bytes`, that probably end where a batch does; all if they are ample."""
        most, first, batch = int(most_bytes), self.first_bytes, self.batch_bytes
        return most if is_ample or not batch or most < first else first + (most - first) // batch * batch

    def most(self, available: float, *, is_ample: bool) -> int:
        """Return what it is granted at most of so many bytes; if they are ample, nothing is saved on it."""
        limit, sure = self.limit_bytes, self.sure_bytes
        if is_ample or is_many(min(limit, available), self.batch_bytes):
            return limit
        return self.whole(limit) if sure >= limit else int(sure)

    def expected(self, available: float, *, is_ample: bool) -> int:
        """Return what it is granted of so many bytes where there is not enough for all."""
        most = self.most(available, is_ample=is_ample)
        return most if self.likely_bytes >= most else self.whole(self.likely_bytes, is_ample=is_ample)


def share(
    wishes: Iterable[Wish],
    available: float,
    *,
    wished: float,
    is_ample: bool = True,
    branches: Sequence[Claim | None] = (),
    room: Mapping[Claim, float] | None = None,
) -> list[int]:
    """Hand out `available` bytes in order; the list ends where nothing is left, and no further wish is looked at.
    `wished`: the sum of all limits; inf: it is more than is available.

    Of the wishes of one branch (`branches` names the branch of each wish, None for none) no more is handed out than the
    branch has `room` for. Unless there `is_ample`, no wish gets more than can be used well, and the rest stays.
    """
    if is_ample and wished <= available and (not room or _fit(wishes, branches, room)):
        return list(map(LIMIT, wishes))
    sharing = _Sharing(available, room or {}, is_ample=is_ample)
    return sharing.share(wishes, branches or repeat(None))


def _fit(wishes: Iterable[Wish], branches: Sequence[Claim | None], room: Mapping[Claim, float]) -> bool:
    """Return whether each branch has room for everything that its wishes can use."""
    wished = dict.fromkeys(room, 0)
    for wish, branch in zip(wishes, branches, strict=True):
        if branch is not None:
            wished[branch] += wish.limit_bytes
    return all(wished[branch] <= left for branch, left in room.items())


class _Sharing:
    """Hands out bytes, in order, and to the wishes of a branch no more than the branch has left."""

    def __init__(self, available: float, room: Mapping[Claim, float], *, is_ample: bool) -> None:
        self._available = self._left = available
        self._is_ample = is_ample
        self._room = dict(room)
        self._has_begun = False
        self._begun: set[Claim] = set()
        """The branches of which something was granted."""

    def share(self, wishes: Iterable[Wish], branches: Iterable[Claim | None]) -> list[int]:
        """Grant each wish what it is likely to bring. The first of all, and of each branch, gets what it needs even if
        that is more (KIP-74). What is left when all had a turn is handed out in order again."""
        grants: list[int] = []
        tried: list[tuple[Wish, Claim | None]] = []
        shared = 0
        for wish, branch in zip(wishes, branches):  # noqa: B905 - without branches the second is endless
            tried.append((wish, branch))
            if branch is not None and self._room[branch] <= 0:
                grants.append(0)
                continue
            if shared == MAX_SHARED:
                break
            shared += 1
            expected = wish.expected(self._available, is_ample=self._is_ample)
            need = wish.need_bytes if wish.need_bytes < expected else expected
            if self._left <= 0 or (self._left < need and self._has_begun):
                return grants
            grants.append(self._first_grant(wish, branch, expected, need))
        for place, ((wish, branch), granted) in enumerate(zip(tried, tuple(grants), strict=False)):
            left = self._left if branch is None else min(self._left, self._room[branch])
            if granted and left > 0:
                most = min(wish.most(self._available, is_ample=self._is_ample), granted + left)
                grants[place] += self._hand_out(max(wish.whole(most, is_ample=self._is_ample) - granted, 0), branch)
        return grants

    def _first_grant(self, wish: Wish, branch: Claim | None, expected: int, need: int) -> int:
        left = self._left
        if branch is not None:
            room = self._room[branch]
            if room < need and branch in self._begun:
                self._room[branch] = 0.0  # a later wish that needs less must not go before this one
                return 0
            self._begun.add(branch)
            left = min(left, room)
        return self._hand_out(wish.whole(min(expected, max(need, left)), is_ample=self._is_ample), branch)

    def _hand_out(self, size: int, branch: Claim | None) -> int:
        self._left -= size
        self._has_begun = True
        if branch is not None:
            self._room[branch] -= size
        return size

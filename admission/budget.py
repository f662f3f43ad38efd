"""A role's budget: how many throttled bytes the broker may move now, and who may ask for them.

Two policies, one interface. `StrictBudget` asks only for what the budget allows, so the quota holds every
second; `Kip73Budget` is the broker's own arithmetic, all or nothing by SimpleRate. All connections of a role
share one budget. Pure: time is an argument, in seconds; nothing here knows a partition or a frame.

Invariant: every reservation made by `admit` is settled exactly once, by the answer or by the connection's end.
"""

from __future__ import annotations

import math
from itertools import accumulate, takewhile
from operator import add, itemgetter, sub
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .simple_rate import QUOTA_WINDOW_NUM, QUOTA_WINDOW_SIZE_SECONDS, SimpleRate
from .token_bucket import TokenBucket
from .turns import Claim, Turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_LIMIT = itemgetter(0)
MOST_SHARED = 2000
"""If there is not enough for all replicas of one fetch, at most this many are granted something. To work out so many
grants takes 0.5 ms, and no other connection has its turn meanwhile. The other replicas go first at the next fetch."""
MANY_BATCHES = 32
"""In so many batches and more, half of one makes no difference."""
FIRST_ADDED = 50
"""How many wishes are added up first. As a rule these alone are more than the budget has, and the rest need not be
added up; or the budget has enough for all wishes."""


class Wish(NamedTuple):
    """What one partition that is out of sync asks of a budget.

    It can use at most `limit_bytes`, and a grant below `need_bytes` would bring it no records. Its answer will probably
    bring `likely_bytes`. If there is not enough for all partitions, it is granted no more than that: other partitions
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
        """Return what it is granted of so many bytes where there is not enough for everybody."""
        most = self.most(available, is_ample=is_ample)
        return most if self.likely_bytes >= most else self.whole(self.likely_bytes, is_ample=is_ample)


def is_many(size: float, batch_bytes: int) -> bool:
    """Tell whether `size` bytes are so many batches of a known size that a part of one makes no difference."""
    return 0 < MANY_BATCHES * batch_bytes <= size


class Budget(Protocol):
    """What a connection may ask of its role's budget."""

    turns: Turns

    @property
    def burst_bytes(self) -> float:
        """The most that it lets through at once; inf if nothing bounds that."""

    def change_rate(self, bytes_per_second: float, now: float) -> None:
        """Take a new quota; inf is unlimited, 0 stops catch-up."""

    def change_gate(self, gate_seconds: float, now: float) -> None:
        """Grant in portions worth so long at the quota from now on, where the policy has portions."""

    def may_admit(self, claim: Claim, now: float, *, rides: bool = False) -> bool:
        """Tell whether `admit` would grant anything now; the claim asks for it."""

    def admit(self, claim: Claim, wishes: Sequence[Wish], now: float, *, rides: bool = False) -> list[int]:
        """Return the bytes granted to each of the first `wishes`, reserved until they are settled; later wishes, for
        which nothing is left, are not in the list.

        `rides`: the fetch is forwarded in any case, for replicas in sync. Their records come in the same answer and
        should not have to wait for many others, so the grant is small.
        """

    def room(self, claim: Claim, now: float, *, rides: bool = False) -> float:
        """Return how many bytes `admit` would share out now: 0 for none, inf for as many as are wished for. The claim
        counts as asking for them. `stakes` needs bytes of several budgets for one grant, so it calls this for each of
        them, and then `take` instead of `admit`."""

    def is_ample(self, claim: Claim, now: float) -> bool:
        """Tell whether more will come in during the claim's next two fetches than can be kept: what it is not granted
        now may be lost."""

    def take(self, claim: Claim, granted: int, now: float) -> None:
        """`granted` bytes of the room are granted, to be settled."""

    def seconds_until_turn(self, claim: Claim, now: float) -> float:
        """Return when it is worth asking again; inf if never at this rate."""

    def has_spare(self, now: float) -> bool:
        """Tell whether so much is left that the connections of the greatest urgency cannot use all of it."""

    def begin(self, claim: Claim, size: int, now: float) -> None:
        """Records of `size` bytes are about to go on; they are settled when they have gone. A connection may leave it
        out: then they count when they are settled."""

    def settle(self, claim: Claim, *, reserved: int, used: int, now: float) -> None:
        """A grant of `reserved` bytes moved `used`; 0 reserved for traffic that needs no grant."""

    def must_discard(self, admitted_at: float, now: float) -> bool:
        """Tell whether records that were asked for at `admitted_at` are over quota by now (KIP-73's leader side)."""


class StrictBudget:
    """Token bucket with debt and turns: a grant is a lowered partition_max_bytes."""

    def __init__(
        self,
        *,
        bytes_per_second: float,
        gate_seconds: float,
        burst_seconds: float,
        window_seconds: float = QUOTA_WINDOW_NUM * QUOTA_WINDOW_SIZE_SECONDS,
        now: float,
    ) -> None:
        self.turns = Turns()
        self._lowered_at = -math.inf
        self._window_seconds = window_seconds
        self._bucket = TokenBucket(
            rate=bytes_per_second, gate_seconds=gate_seconds, burst_seconds=burst_seconds, now=now
        )

    @property
    def burst_bytes(self) -> float:
        return self._bucket.burst_bytes

    def change_rate(self, bytes_per_second: float, now: float) -> None:
        if bytes_per_second < self._bucket.rate:
            self._lowered_at = now
            self.turns.level()
        if bytes_per_second != self._bucket.rate:
            self._bucket.change_rate(bytes_per_second, now)

    def change_gate(self, gate_seconds: float, now: float) -> None:
        self._bucket.change_gate(gate_seconds, now)

    def may_admit(self, claim: Claim, now: float, *, rides: bool = False) -> bool:
        return self.room(claim, now, rides=rides) > 0

    def admit(self, claim: Claim, wishes: Sequence[Wish], now: float, *, rides: bool = False) -> list[int]:
        """A grant beside replicas in sync (`rides`) is a small piece: a record with acks=all that comes behind a whole
        gate's worth of catch-up in the same answer would have to wait for all of that."""
        room = self.room(claim, now, rides=rides)
        if not room:
            return []
        is_paced = rides and room >= claim.most_riding_bytes  # so it is not the bucket that has too little
        grants = share(wishes, room, is_ample=not is_paced and self.is_ample(claim, now))
        self.take(claim, sum(grants), now)
        return grants

    def is_ample(self, claim: Claim, now: float) -> bool:
        bucket = self._bucket
        if math.isinf(bucket.rate):
            return True
        return bucket.available(now) + 2 * bucket.rate * claim.absence_seconds > bucket.burst_bytes

    def room(self, claim: Claim, now: float, *, rides: bool = False) -> float:
        bucket = self._bucket
        self.turns.ask(claim, now, most_arrears_bytes=bucket.burst_bytes)
        if math.isinf(bucket.rate):
            return math.inf
        if not bucket.rate or claim.rests_until > now:
            return 0.0
        free = self._free(claim, now, bucket.piece_bytes if rides else bucket.gate_bytes)
        if not free:
            return 0.0
        if not self.turns.is_one and self._goes_later(claim, now):
            return 0.0
        appetite = claim.appetite_bytes
        most = free if free < appetite else appetite
        return min(most, self._most_riding_bytes(claim)) if rides else most

    def _goes_later(self, claim: Claim, now: float) -> bool:
        # `_free` has kept `spared_bytes` for connections of greater urgency. What is left beside that they cannot use,
        # so this connection need not wait for them.
        of_equals = self.turns.urgent > 0 and self._bucket.spared_bytes > 0 and self.turns.yields(claim)
        return self.turns.ahead_of(claim, now, of_equals=of_equals) > 0

    def _most_riding_bytes(self, claim: Claim) -> float:
        """As many bytes as the bucket gains until this connection is back, but at least half a gate and at most a gate.
        When it was always half a gate, two connections that are 130 ms away had half a gate each in a round trip, and a
        third of the rate went to nobody."""
        bucket = self._bucket
        most = max(bucket.piece_bytes, min(bucket.rate * claim.absence_seconds, bucket.gate_bytes))
        return min(most, claim.most_riding_bytes)

    def take(self, claim: Claim, granted: int, now: float) -> None:
        self._bucket.reserve(granted, apart=granted - self.turns.serve(claim, granted, now))

    def _kept(self, claim: Claim, now: float) -> float:
        """How many bytes stay in the bucket for connections that have had less. It is at most what the bucket holds
        beyond a gate: so the bucket opens for this connection when it is full at the latest, and nothing of the rate is
        lost."""
        bucket = self._bucket
        if self.turns.urgent and self.turns.yields(claim):
            return bucket.spared_bytes
        return min(self.turns.kept_from(claim, bucket.rate, now), bucket.burst_bytes - bucket.gate_bytes)

    def _free(self, claim: Claim, now: float, least: float) -> float:
        """Return what the bucket has beside what is kept for others; 0 if that is less than `least`."""
        bucket = self._bucket
        kept = 0.0 if self.turns.is_one else self._kept(claim, now)
        # All of a full bucket but a gate may be kept. A rounding error in this sum must not keep it shut for ever.
        wanted, burst = least + kept, bucket.burst_bytes
        if wanted > burst:
            wanted = burst
        available = bucket.available(now)
        if available < wanted:
            overdue = self.turns.give_up_overdue(now)
            bucket.set_apart(overdue)
            available = bucket.available(now)
            if not overdue or available < wanted:
                return 0.0
        free = available - kept
        return free if free > least else least

    def seconds_until_turn(self, claim: Claim, now: float) -> float:
        bucket = self._bucket
        gates = 1 if self.turns.yields(claim) else 1 + self.turns.rank(claim, now)
        wanted_bytes = max(gates * bucket.gate_bytes, bucket.gate_bytes + self._kept(claim, now))
        until_open = bucket.seconds_until(wanted_bytes, now)
        return max(until_open, claim.rests_seconds(now))

    def has_spare(self, now: float) -> bool:
        bucket = self._bucket
        return bucket.holds(bucket.gate_bytes + bucket.spared_bytes, now)

    def begin(self, claim: Claim, size: int, now: float) -> None:
        """What was granted is reserved already."""

    def settle(self, claim: Claim, *, reserved: int, used: int, now: float) -> None:
        """What was granted is repaid to the last byte. In-sync traffic is charged too, but a burst of it is forgotten
        after KIP-73's window, as it is by the broker: it must not freeze catch-up for minutes."""
        if reserved:
            expected = claim.settle(reserved=reserved, used=used, now=now)
            self._bucket.settle(reserved=reserved, used=used, now=now, apart=reserved - expected)
        else:
            self._bucket.charge(used, now, most_debt_seconds=self._window_seconds)

    def must_discard(self, admitted_at: float, now: float) -> bool:
        """Only when the quota fell meanwhile and the debt would be more than a burst of the new one."""
        bucket = self._bucket
        return admitted_at < self._lowered_at and bucket.available(now) < -bucket.burst_bytes


def limits(wishes: Iterable[Wish]) -> list[int]:
    """Return what everybody would like at most."""
    return list(map(_LIMIT, wishes))


def share(wishes: Sequence[Wish], available: float, *, is_ample: bool = True) -> list[int]:
    """Hand out `available` bytes in order, to the first `MOST_SHARED` if there is not enough for everybody: the first
    gets what it needs even if that is more (KIP-74). What is left when everybody has what it is likely to bring is
    handed out in order again.

    Unless there `is_ample`, nobody gets more than can be used well, and the rest stays.
    """
    if is_ample and (len(wishes) <= FIRST_ADDED or _may_fit(wishes, available)):
        most = limits(wishes)
        if sum(most) <= available:
            return most
    shared = wishes[:MOST_SHARED]
    expected = (wish.expected(available, is_ample=is_ample) for wish in shared)
    grants, left = _first_of(expected, available)
    if len(grants) < len(shared):
        wish = shared[len(grants)]
        size = wish.expected(available, is_ample=is_ample)
        need = min(wish.need_bytes, size)
        if not grants or left >= need:
            grants.append(wish.whole(min(size, max(need, left)), is_ample=is_ample))
        return grants
    most_of_each = (wish.most(available, is_ample=is_ample) for wish in shared)
    more, left = _first_of(map(sub, most_of_each, grants), left)
    if len(more) < len(grants):
        granted = grants[len(more)]
        more.append(max(shared[len(more)].whole(granted + left, is_ample=is_ample) - granted, 0))
    return [*map(add, grants, more), *grants[len(more) :]]


def _may_fit(wishes: Sequence[Wish], available: float) -> bool:
    """Whether there are bytes for all that the first would like. Of thousands of replicas that are behind, a gate's
    worth is enough for the first few: more are added up only where there is enough for those."""
    return all(sum(map(_LIMIT, wishes[:most])) <= available for most in (FIRST_ADDED, MOST_SHARED))


def _first_of(sizes: Iterable[int], available: float) -> tuple[list[int], float]:
    """Return so many of the first `sizes` as there are bytes for, and the bytes that remain."""
    sums = list(takewhile(float(available).__ge__, accumulate(sizes)))
    return list(map(sub, sums, [0, *sums])), available - (sums[-1] if sums else 0)


class Kip73Budget:
    """ReplicationQuotaManager's arithmetic: over quota when SimpleRate exceeds the bound, strictly."""

    def __init__(self, *, bytes_per_second: float, samples: int, sample_seconds: float) -> None:
        self.turns = Turns()
        self._quota = bytes_per_second
        self._rate = SimpleRate(samples=samples, sample_seconds=sample_seconds)

    @property
    def burst_bytes(self) -> float:
        return math.inf

    def change_rate(self, bytes_per_second: float, now: float) -> None:
        """Swap the bound; the samples survive, as they do in the broker."""
        del now
        self._quota = bytes_per_second

    def change_gate(self, gate_seconds: float, now: float) -> None:
        """The broker's arithmetic knows no portions."""

    def is_exceeded(self, now: float) -> bool:
        return self._rate.measure(now) > self._quota

    def may_admit(self, claim: Claim, now: float, *, rides: bool = False) -> bool:
        del rides
        self.turns.ask(claim, now)
        return not self.is_exceeded(now)

    def admit(self, claim: Claim, wishes: Sequence[Wish], now: float, *, rides: bool = False) -> list[int]:
        return limits(wishes) if self.may_admit(claim, now, rides=rides) else []

    def room(self, claim: Claim, now: float, *, rides: bool = False) -> float:
        return math.inf if self.may_admit(claim, now, rides=rides) else 0.0

    def is_ample(self, claim: Claim, now: float) -> bool:
        """It saves nothing up."""
        del claim, now
        return True

    def take(self, claim: Claim, granted: int, now: float) -> None:
        """The broker's arithmetic reserves nothing."""

    def seconds_until_turn(self, claim: Claim, now: float) -> float:
        del claim
        return self._rate.seconds_until(self._quota, now)

    def has_spare(self, now: float) -> bool:
        """It saves nothing up: all or nothing is let through, whoever it is for."""
        del now
        return True

    def begin(self, claim: Claim, size: int, now: float) -> None:
        """A leader records an answer before it sends it (KafkaApis). So of two fetches that were admitted at once, the
        second is over quota when its answer begins, however long the first one's answer is on its way."""
        claim.begun_bytes += size
        self._rate.record(size, now)

    def settle(self, claim: Claim, *, reserved: int, used: int, now: float) -> None:
        """What was counted when it began is not counted again. Answers without records are not recorded: they would
        keep the window warm and let a burst through."""
        del reserved
        if used:
            claim.attained_bytes += used
            begun = min(used, claim.begun_bytes)
            claim.begun_bytes -= begun
            if used > begun:
                self._rate.record(used - begun, now)

    def must_discard(self, admitted_at: float, now: float) -> bool:
        """The broker evaluates its quota again when it answers; so does this."""
        del admitted_at
        return self.is_exceeded(now)

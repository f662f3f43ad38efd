"""The nodes of the budget tree: how many throttled bytes may move now under one rate, and who may ask for them.

The role's quota is the root; the rates of racks, peers and topics inside it are nodes of the same kind. All connections
that a rate concerns share its node. Two policies, one interface. `StrictBudget` asks only for what the budget allows,
so the rate holds every second; `Kip73Budget` is the broker's own arithmetic, all or nothing by SimpleRate. Pure: time
is an argument, in seconds; nothing here knows a partition or a frame.

Invariant: every reservation is settled exactly once, by the answer or by the connection's end.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .simple_rate import QUOTA_WINDOW_NUM, QUOTA_WINDOW_SIZE_SECONDS, SimpleRate
from .token_bucket import TokenBucket
from .turns import ROLE, BudgetNode

if TYPE_CHECKING:
    from .turns import Claim


class StrictBudget(BudgetNode):
    """Token bucket with debt and turns: a grant is a lowered partition_max_bytes."""

    def __init__(
        self,
        *,
        bytes_per_second: float,
        gate_seconds: float,
        burst_seconds: float,
        samples: int = QUOTA_WINDOW_NUM,
        sample_seconds: float = QUOTA_WINDOW_SIZE_SECONDS,
        now: float,
        entity: tuple[str, str] = ROLE,
    ) -> None:
        super().__init__(bytes_per_second, samples, sample_seconds, entity)
        self._lowered_at = -math.inf
        self._window_seconds = samples * sample_seconds
        self._bucket = TokenBucket(
            rate=bytes_per_second, gate_seconds=gate_seconds, burst_seconds=burst_seconds, now=now
        )
        self.burst_bytes = self._bucket.burst_bytes

    def change_rate(self, bytes_per_second: float, now: float) -> None:
        if bytes_per_second < self.bytes_per_second:
            self._lowered_at = now
            self.turns.reset_service()
        if bytes_per_second != self.bytes_per_second:
            self.bytes_per_second = bytes_per_second
            self._bucket.change_rate(bytes_per_second, now)
            self.burst_bytes = self._bucket.burst_bytes

    def change_gate(self, gate_seconds: float, now: float) -> None:
        self._bucket.change_gate(gate_seconds, now)
        self.burst_bytes = self._bucket.burst_bytes

    def state(self, now: float) -> float | None:
        available = self._bucket.available(now)
        return None if math.isinf(available) else available

    def restore(self, state: float | None, now: float) -> None:
        if state is not None:
            self._bucket.begin_with(state, now)

    def is_ample(self, claim: Claim, now: float) -> bool:
        bucket = self._bucket
        if math.isinf(bucket.rate):
            return True
        return bucket.available(now) + 2 * bucket.rate * claim.fetcher.absence_seconds > bucket.burst_bytes

    def room(self, claim: Claim, now: float, *, rides: bool = False) -> float:
        bucket = self._bucket
        self.turns.ask(claim, now, max_deficit=bucket.burst_bytes)
        if math.isinf(bucket.rate):
            return math.inf
        if not bucket.rate or claim.fetcher.rests_until > now:
            return 0.0
        least = bucket.piece_bytes if rides else bucket.gate_bytes
        kept = 0.0 if self.turns.is_one else self._kept(claim, now)
        # All of a full bucket but a gate may be kept. A rounding error in this sum must not keep it shut for ever.
        wanted, burst = least + kept, bucket.burst_bytes
        if wanted > burst:
            wanted = burst
        available = bucket.available(now)
        if available < wanted:
            overdue = self.turns.give_up_overdue(now)
            bucket.exclude_from_burst(overdue)
            available = bucket.available(now)
            if not overdue or available < wanted:
                return 0.0
        if not self.turns.is_one and self._goes_later(claim, now):
            return 0.0
        free = max(available - kept, least)
        return min(free, self._max_bytes_beside_in_sync(claim)) if rides else free

    def _goes_later(self, claim: Claim, now: float) -> bool:
        # `room` has kept `spared_bytes` for connections of greater priority. What is left beside that they cannot use,
        # so this connection need not wait for them.
        of_equals = self.turns.has_priorities and self._bucket.spared_bytes > 0 and self.turns.yields(claim)
        return self.turns.ahead_of(claim, now, of_equals=of_equals) > 0

    def _max_bytes_beside_in_sync(self, claim: Claim) -> float:
        """Return as many bytes as the bucket gains until this connection is back, but at least half a gate and at most
        a gate: a record with acks=all that comes behind a whole gate's worth of catch-up in the same answer would have
        to wait for all of that. When it was always half a gate, two connections that are 130 ms away had half a gate
        each in a round trip, and a third of the rate was unused."""
        bucket = self._bucket
        return max(bucket.piece_bytes, min(bucket.rate * claim.fetcher.absence_seconds, bucket.gate_bytes))

    def reserve(self, claim: Claim, granted: int, now: float) -> None:
        del now
        self._bucket.reserve(granted, beside_burst=granted - self.turns.serve(claim, granted))

    def _kept(self, claim: Claim, now: float) -> float:
        """Return how many bytes stay in the bucket for connections that have had less.

        It is at most what the bucket holds beyond a gate: so the bucket opens for this connection when it is full at
        the latest, and nothing of the rate is lost.
        """
        bucket = self._bucket
        if self.turns.yields(claim):
            return bucket.spared_bytes
        return min(self.turns.kept_from(claim, bucket.rate, now), bucket.burst_bytes - bucket.gate_bytes)

    def seconds_until_turn(self, claim: Claim, now: float) -> float:
        bucket = self._bucket
        gates = 1 if self.turns.yields(claim) else 1 + self.turns.rank(claim, now)
        wanted_bytes = max(gates * bucket.gate_bytes, bucket.gate_bytes + self._kept(claim, now))
        until_open = bucket.seconds_until(wanted_bytes, now)
        return max(until_open, claim.fetcher.rest_seconds(now))

    def is_shut(self, now: float, *, rides: bool = False) -> bool:
        bucket = self._bucket
        return not bucket.holds(bucket.piece_bytes if rides else bucket.gate_bytes, now)

    def has_spare(self, now: float) -> bool:
        bucket = self._bucket
        return bucket.holds(bucket.gate_bytes + bucket.spared_bytes, now)

    def settle(self, claim: Claim, *, reserved: int, used: int, now: float) -> None:
        """Repay what was granted to the last byte.

        In-sync traffic is charged too, but a burst of it is forgotten after KIP-73's window, as it is by the broker: it
        must not freeze catch-up for minutes.
        """
        if reserved:
            expected = claim.settle(reserved, used)
            self._bucket.settle(reserved=reserved, used=used, now=now, beside_burst=reserved - expected)
        else:
            self._bucket.charge(used, now, most_debt_seconds=self._window_seconds)

    def must_discard(self, admitted_at: float, now: float) -> bool:
        """Return true only when the quota fell meanwhile and the debt would be more than a burst of the new one."""
        bucket = self._bucket
        return admitted_at < self._lowered_at and bucket.available(now) < -bucket.burst_bytes


class Kip73Budget(BudgetNode):
    """ReplicationQuotaManager's arithmetic: over quota when SimpleRate exceeds the bound, strictly."""

    def __init__(
        self,
        *,
        bytes_per_second: float,
        samples: int = QUOTA_WINDOW_NUM,
        sample_seconds: float = QUOTA_WINDOW_SIZE_SECONDS,
        entity: tuple[str, str] = ROLE,
    ) -> None:
        super().__init__(bytes_per_second, samples, sample_seconds, entity)
        self._charged = SimpleRate(samples=samples, sample_seconds=sample_seconds)
        """The rate of the bytes that count against the quota, from when their records begin to go on; bytes that are
        only observed are not in it."""

    def change_rate(self, bytes_per_second: float, now: float) -> None:
        """Swap the bound; the samples survive, as they do in the broker."""
        del now
        self.bytes_per_second = bytes_per_second

    def is_exceeded(self, now: float) -> bool:
        return self._charged.measure(now) > self.bytes_per_second

    def room(self, claim: Claim, now: float, *, rides: bool = False) -> float:
        del rides
        self.turns.ask(claim, now)
        return 0.0 if self.is_exceeded(now) else math.inf

    def is_ample(self, claim: Claim, now: float) -> bool:
        """Return true: the policy saves nothing up."""
        del claim, now
        return True

    def reserve(self, claim: Claim, granted: int, now: float) -> None:
        """Reserve nothing, as the broker does not either."""

    def seconds_until_turn(self, claim: Claim, now: float) -> float:
        del claim
        return self._charged.seconds_until(self.bytes_per_second, now)

    def is_shut(self, now: float, *, rides: bool = False) -> bool:
        del rides
        return self.is_exceeded(now)

    def has_spare(self, now: float) -> bool:
        """Return true: all or nothing is let through, for any connection."""
        del now
        return True

    def charge_on_send(self, claim: Claim, size: int, now: float) -> None:
        """Record the answer before it is sent, as a leader does (KafkaApis).

        So of two fetches that were admitted at once, the second is over quota when its answer begins, however long the
        first one's answer is on its way.
        """
        claim.charged_early_bytes += size
        self._charged.record(size, now)

    def settle(self, claim: Claim, *, reserved: int, used: int, now: float) -> None:
        """Record what was not counted when it began.

        Answers without records are not recorded: they would keep the window warm and let a burst through.
        """
        del reserved
        if used:
            claim.attained_service += used
            early = min(used, claim.charged_early_bytes)
            claim.charged_early_bytes -= early
            if used > early:
                self._charged.record(used - early, now)

    def must_discard(self, admitted_at: float, now: float) -> bool:
        """Evaluate the quota again, as the broker does when it answers."""
        del admitted_at
        return self.is_exceeded(now)

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

from .shares import ROLE, BudgetNode
from .simple_rate import QUOTA_WINDOW_NUM, QUOTA_WINDOW_SIZE_SECONDS, SimpleRate
from .token_bucket import TokenBucket

if TYPE_CHECKING:
    from .shares import Claim

DIVIDE_SECONDS = 0.001
"""The time for which what came in is not divided again: that costs by the number of connections."""
TOLERANCE = 1.0
"""Bytes that may be missing: sums of credits are not exact."""


class StrictBudget(BudgetNode):
    """Token bucket with debt and shares: a grant is a lowered partition_max_bytes."""

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
        self._divided_at = -math.inf
        self._window_seconds = samples * sample_seconds
        self._bucket = TokenBucket(
            rate=bytes_per_second, gate_seconds=gate_seconds, burst_seconds=burst_seconds, now=now
        )
        self._follow_bucket()

    def change_rate(self, bytes_per_second: float, now: float) -> None:
        if bytes_per_second < self.bytes_per_second:
            self._lowered_at = now
            self.shares.reset()
        if bytes_per_second != self.bytes_per_second:
            self.bytes_per_second = bytes_per_second
            self._bucket.change_rate(bytes_per_second, now)
            self._follow_bucket()

    def change_gate(self, gate_seconds: float, now: float) -> None:
        self._bucket.change_gate(gate_seconds, now)
        self._follow_bucket()

    def _follow_bucket(self) -> None:
        self.gate_bytes, self.burst_bytes = self._bucket.gate_bytes, self._bucket.burst_bytes

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

    def room(self, claim: Claim, now: float, *, beside_in_sync: bool = False, most: float = math.inf) -> float:
        bucket = self._bucket
        claim.wants = True
        if math.isinf(bucket.rate):
            return math.inf
        if not bucket.rate or claim.fetcher.rests_until > now:
            return 0.0
        if bucket.sharing != self.shares.count:
            bucket.share_gate(self.shares.count)
            self._follow_bucket()
        gate = bucket.piece_bytes if beside_in_sync else bucket.gate_bytes
        least = gate if gate < most else most
        available = bucket.available(now)
        if available < least and self._give_up_overdue(now):
            available = bucket.available(now)
        if available < least:
            return 0.0
        free = available
        if not self.shares.is_one:
            before, kept = self._kept(claim, available, now)
            if available - before < least - TOLERANCE and claim.credit < least:
                return 0.0
            free = available - kept
            if not claim.fetcher.priority:  # while much of the burst is in flight nobody else can ask for anything
                free = min(free, bucket.gate_bytes + max(claim.credit, 0.0))
            free = max(free, least)
        return min(free, self._max_bytes_beside_in_sync(claim)) if beside_in_sync else free

    def _kept(self, claim: Claim, available: float, now: float) -> tuple[float, float]:
        """Return how many bytes stay in the bucket for connections that go before this one, and for all others: while
        it is full, at most what it holds beyond a gate, so that it opens for this connection, and nothing is lost."""
        bucket, shares = self._bucket, self.shares
        most = bucket.burst_bytes - bucket.gate_bytes
        if not 0 <= now - self._divided_at < DIVIDE_SECONDS:
            self._divided_at = now
            shares.divide(available - bucket.gate_bytes, self._max_credit(), now)
        before, kept = shares.kept_from(claim, bucket.rate, now)
        if available < bucket.burst_bytes - TOLERANCE:
            return before, kept
        return min(before, most), min(kept, most)

    def _max_credit(self) -> float:
        """Return the most credit of one connection. One whose line is slow must not hold so much that the others have
        too little for their way there and back."""
        bucket = self._bucket
        part = min(bucket.burst_bytes - bucket.gate_bytes, 2 * bucket.burst_bytes / self.shares.count)
        return max(part, bucket.gate_bytes)

    def _give_up_overdue(self, now: float) -> bool:
        """Let the bucket fill up in spite of what was granted and is overdue by now; return whether anything was."""
        overdue = self.shares.give_up_overdue(now)
        self._bucket.exclude_from_burst(overdue)
        return overdue > 0

    def _max_bytes_beside_in_sync(self, claim: Claim) -> float:
        """Return as many bytes as the bucket gains until this connection is back, but at least half a gate and at most
        a gate: a record with acks=all that comes behind a whole gate's worth of catch-up in the same answer would have
        to wait for all of that. When it was always half a gate, two connections that are 130 ms away had half a gate
        each in a round trip, and a third of the rate was unused."""
        bucket = self._bucket
        return max(bucket.piece_bytes, min(bucket.rate * claim.fetcher.absence_seconds, bucket.gate_bytes))

    def reserve(self, claim: Claim, granted: int, now: float) -> None:
        del now
        fetcher = claim.fetcher
        expected_bytes = fetcher.expected_bytes  # min() and max() cost 0.1 µs each here, and every fetch pays
        reserved = granted if granted < expected_bytes else expected_bytes
        claim.reserved_bytes += reserved
        expected = reserved if fetcher.is_trusted else 0.0
        claim.expected_bytes += expected
        self._bucket.reserve(reserved, beside_burst=reserved - expected)
        if not self.shares.is_one:
            claim.credit -= reserved

    def seconds_until_turn(self, claim: Claim, now: float, *, most: float = math.inf) -> float:
        bucket, rate = self._bucket, self.bytes_per_second
        wanted = least = min(bucket.gate_bytes, most)
        seconds = claim.fetcher.rest_seconds(now)
        if not self.shares.is_one and rate and not math.isinf(rate):
            available = bucket.available(now)
            missing = least + self._kept(claim, available, now)[0] - available
            if missing > 0:
                inflow = self.shares.inflow_until(claim, missing, least, self._max_credit(), now)
                inflow = max(inflow, least - available)
                wanted = min(available + inflow, bucket.burst_bytes)
                seconds = max(seconds, self.shares.inflow_until_look(claim, least, bucket.gate_bytes, now) / rate)
        return max(bucket.seconds_until(wanted, now), seconds)

    def is_shut(self, now: float, *, beside_in_sync: bool = False) -> bool:
        bucket = self._bucket
        return not bucket.holds(bucket.piece_bytes if beside_in_sync else bucket.gate_bytes, now)

    def has_spare(self, now: float) -> bool:
        bucket = self._bucket
        return bucket.holds(bucket.gate_bytes + bucket.spared_bytes, now)

    def settle(self, claim: Claim, *, reserved: int, used: int, now: float) -> None:
        """Charge the bytes that came, and give the rest of the grant back.

        In-sync traffic is charged too, but a burst of it is forgotten after KIP-73's window, as it is by the broker: it
        must not freeze catch-up for minutes.
        """
        if reserved:
            given = reserved if reserved < claim.reserved_bytes else claim.reserved_bytes
            claim.reserved_bytes -= given
            expected = given if given < claim.expected_bytes else claim.expected_bytes
            claim.expected_bytes -= expected
            self._bucket.settle(reserved=given, used=used, now=now, beside_burst=given - expected)
            if not self.shares.is_one:
                claim.credit += given - used
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

    def room(self, claim: Claim, now: float, *, beside_in_sync: bool = False, most: float = math.inf) -> float:
        del beside_in_sync, most
        claim.wants = True
        return 0.0 if self.is_exceeded(now) else math.inf

    def is_ample(self, claim: Claim, now: float) -> bool:
        """Return true: the policy saves nothing up."""
        del claim, now
        return True

    def reserve(self, claim: Claim, granted: int, now: float) -> None:
        """Reserve nothing, as the broker does not either."""

    def seconds_until_turn(self, claim: Claim, now: float, *, most: float = math.inf) -> float:
        del claim, most
        return self._charged.seconds_until(self.bytes_per_second, now)

    def is_shut(self, now: float, *, beside_in_sync: bool = False) -> bool:
        del beside_in_sync
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
            early = min(used, claim.charged_early_bytes)
            claim.charged_early_bytes -= early
            if used > early:
                self._charged.record(used - early, now)

    def must_discard(self, admitted_at: float, now: float) -> bool:
        """Evaluate the quota again, as the broker does when it answers."""
        del admitted_at
        return self.is_exceeded(now)

"""The rate of everything that leaves through the ingress, for clients and followers together (``[listener] rate``).

    replication in sync, and what nobody can tell   never delayed, charged
    responses to consumers                          charged as they leave; told and muted while all of this is more than
                                                    the rate, or than 0.9 of it while catch-up wants bytes
    catch-up                                        what is left, at once: the node is above the leader role's budget,
                                                    and above those of consumers with `catch_up_only`

The relay counts what it writes, however it does so (spliced, encrypted, not understood), and what of it is a response
to a consumer. Whenever bytes are asked for, the counters tell what has left since: so a response that nobody reads
costs as much of it as has left, the byte path does nothing else for this node, and no task does either. Requests come
in by the other direction of the link and do not count.

Pure: time is an argument. Invariant: over any span of t seconds, catch-up and responses to consumers are at most
rate * (t + burst), and one response of each connection and a first batch of each follower (KIP-74).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from admission.budget import StrictBudget
from admission.token_bucket import TokenBucket

from .budgets import MIN_LARGEST_BYTES

if TYPE_CHECKING:
    from admission.shares import Claim

    from ..config.settings import QuotaSettings
    from ..statistics.counters import RoleStatistics

LISTENER = ("listener", "")
PART_OF_BURST = 1 / 2
"""The part of proxy.toml's gate and burst that each kind has. Catch-up may have used its burst just before consumers
use theirs: together they are the burst."""
MAX_DEBT_SECONDS = 1.0
"""The most debt that traffic causes which is never delayed: catch-up has what it leaves after a second at the latest.
Less would forgive consumers that are sent a second's worth at once, and catch-up would come on top of that."""
CATCH_UP_SHARE = 1 / 10
"""The share of the rate that consumers leave to catch-up that wants bytes: without it, one move had none for as long as
three consumers had a backlog."""
MIN_SHARE = 1 / 20
"""The share of the rate at which consumers are paced where replication in sync alone takes all of it."""
RESPONSE_SECONDS = 0.25
"""The seconds of a connection's share that one response brings at most while the rate is not kept. A connection that
is muted for no longer than the debt lasts has more than its share if it is sent more at once: 2.5 times as much as
others with responses of a second, 1.5 times with this."""
SHARE_SECONDS = 1.0
"""Seconds between two counts of the connections that share the rate."""


class UplinkBudget(StrictBudget):
    """The root of the budget tree while a rate is set: a bucket for everything, of which catch-up is granted what is
    left, and one for all that goes before catch-up, which mutes consumers while it is in debt."""

    def __init__(
        self, settings: QuotaSettings, statistics: RoleStatistics, bytes_per_second: float, now: float
    ) -> None:
        """Begin with a full bucket. `statistics`: the ingress's, where the relay counts the bytes it writes."""
        burst_seconds = settings.burst_seconds * PART_OF_BURST
        super().__init__(
            bytes_per_second=bytes_per_second,
            gate_seconds=settings.gate_seconds * PART_OF_BURST,
            burst_seconds=burst_seconds,
            samples=1,
            sample_seconds=MAX_DEBT_SECONDS,
            now=now,
            entity=LISTENER,
        )
        self._before_catch_up = TokenBucket(
            rate=bytes_per_second, gate_seconds=burst_seconds, burst_seconds=burst_seconds, now=now
        )
        self._catch_up_asked_at = -math.inf
        self._statistics = statistics
        self.mutes = True
        """True if consumers are muted for the bytes they are sent. Otherwise the debt that they make is bounded as that
        of replication in sync is."""
        self.client_bytes = 0
        """Bytes of responses that have left for consumers while there was a rate."""
        self._charged_client_bytes = 0
        self._other_bytes = self._bytes_of_others()
        """Bytes that left and were charged by the relay's counters."""
        self._undelayed_bytes = 0.0
        """Bytes of replication in sync, and of unknown traffic, since `_counted_at`."""
        self._undelayed_rate = 0.0
        self._counted_at = now
        self._connections: set[int] = set()
        """Connections of consumers for which something has left since then."""
        self._connections_before = 1

    @property
    def is_set(self) -> bool:
        return not math.isinf(self.bytes_per_second)

    def change_rate(self, bytes_per_second: float, now: float) -> None:
        if not self.is_set:
            self._other_bytes = self._bytes_of_others()  # bytes that left while nothing was bounded
        super().change_rate(bytes_per_second, now)
        self._before_catch_up.change_rate(bytes_per_second, now)

    def state(self, now: float) -> float | None:
        self._charge_what_left(now)
        return super().state(now)

    def room(self, claim: Claim, now: float, *, beside_in_sync: bool = False, most: float = math.inf) -> float:
        self._charge_what_left(now)
        self._catch_up_asked_at = now
        return super().room(claim, now, beside_in_sync=beside_in_sync, most=most)

    def settle(self, claim: Claim, *, reserved: int, used: int, now: float) -> None:
        self._charge_what_left(now)
        if not reserved:
            self._undelayed_bytes += used
            self._before_catch_up.charge(used, now, most_debt_seconds=MAX_DEBT_SECONDS)
        super().settle(claim, reserved=reserved, used=used, now=now)

    def count_client(self, connection: object, size: int) -> None:
        """Count bytes of a response that have left for a consumer; `connection` tells how many share the rate."""
        self.client_bytes += size
        self._connections.add(id(connection))

    def throttle_seconds(
        self, now: float, *, size: float = math.inf, since: float = math.inf, unsent: float = 0.0
    ) -> float:
        """Return for how long a connection is to be muted that has been sent `size` bytes `since` a time: until the
        debt is paid, but no longer than its equal share of the rate takes to bring as much. So connections that use
        less than their share hardly wait, whatever others use. The more debt there is, the smaller is the share.
        `unsent`: bytes that count for this question alone."""
        left = self._left_for_clients(now) - unsent
        if left >= 0:
            return 0.0
        debt_seconds = -left / self.bytes_per_second
        return min(debt_seconds, size / self._equal_share() * (1 + debt_seconds) - max(now - since, 0.0))

    def largest_response_bytes(self, now: float) -> float:
        """Return the most that a consumer is to be sent at once; inf while the rate is kept."""
        if self._left_for_clients(now) >= 0:
            return math.inf
        return max(self._equal_share() * RESPONSE_SECONDS, MIN_LARGEST_BYTES)

    def _left_for_clients(self, now: float) -> float:
        self._charge_what_left(now)
        wants = now - self._catch_up_asked_at <= MAX_DEBT_SECONDS
        rate = self.bytes_per_second * (1 - CATCH_UP_SHARE if wants else 1)
        if rate != self._before_catch_up.rate:
            self._before_catch_up.change_rate(rate, now)
        return self._before_catch_up.available(now)

    def _count_anew(self, now: float) -> None:
        self._undelayed_rate = self._undelayed_bytes / (now - self._counted_at)
        self._connections_before = len(self._connections)
        self._undelayed_bytes, self._connections, self._counted_at = 0.0, set(), now

    def _equal_share(self) -> float:
        """Return the bytes per second that replication leaves to each connection."""
        left = max(self.bytes_per_second - self._undelayed_rate, self.bytes_per_second * MIN_SHARE)
        return left / max(self._connections_before, len(self._connections), 1)

    def _charge_what_left(self, now: float) -> None:
        """Charge the bytes that left since the last time. Bytes that were granted count as charged from the grant on:
        how many of them have come is known once they are settled."""
        if now - self._counted_at >= SHARE_SECONDS:
            self._count_anew(now)
        to_clients, self._charged_client_bytes = self.client_bytes - self._charged_client_bytes, self.client_bytes
        if to_clients:
            self._charge(to_clients, now, math.inf if self.mutes else MAX_DEBT_SECONDS)
        total = self._bytes_of_others()
        size = total - self._other_bytes
        if size > 0:
            self._other_bytes = total
            self._undelayed_bytes += size
            self._charge(size, now, MAX_DEBT_SECONDS)

    def _charge(self, size: float, now: float, most_debt_seconds: float) -> None:
        for bucket in (self._bucket, self._before_catch_up):
            bucket.charge_evenly(size, now, most_debt_seconds=most_debt_seconds)

    def _bytes_of_others(self) -> float:
        charged = self.passed_bytes + self.client_bytes + self._bucket.reserved_bytes
        return self._statistics.relayed_response_bytes - charged

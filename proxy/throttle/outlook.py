"""What a forwarded Fetch request makes the sidecar do with its response.

Built by `link` when the request is decided, carried with the request until its response comes, asked by the
relay entry by entry. Pure.

Invariants: a full response carries exactly the partitions that the follower asked for (what was omitted is
replayed); an entry with an error is never altered; every grant is settled once, whatever happens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.fetch_response import ReplayedEntry

    from .replica import Replica
    from .role_throttle import RoleThrottle
    from .turns import Claim

PartitionKey = tuple[str, int]


@dataclass(slots=True)
class Outlook:
    """`watched` are the throttled partitions asked for, `withhold` those that were behind, `grants` what was
    reserved for them, `replays` the entries to append for what was omitted."""

    throttle: RoleThrottle
    claim: Claim
    version: int
    admitted_at: float
    watched: dict[PartitionKey, Replica] = field(default_factory=dict)
    withhold: set[PartitionKey] = field(default_factory=set)
    grants: dict[PartitionKey, int] = field(default_factory=dict)
    observed: set[PartitionKey] = field(default_factory=set)
    """Observe mode: what enforcing would have omitted."""
    first: PartitionKey | None = None
    """Of those that were behind the one that is asked for first: KIP-74 owes it at least one batch."""
    replays: list[ReplayedEntry] = field(default_factory=list)

    def must_discard(self, now: float) -> bool:
        """Tell whether the records of `withhold` are over quota by now, so that they must be discarded on the way."""
        throttle = self.throttle
        return bool(self.withhold) and throttle.enforce and throttle.budget.must_discard(self.admitted_at, now)

    def entry(
        self, key: PartitionKey, *, error: int, high_watermark: int, log_start_offset: int, now: float
    ) -> Replica | None:
        """Take the fixed part of a response's entry; return its replica if it is a throttled one without error."""
        replica = self.watched.get(key)
        if replica is None:
            return None
        if error:
            replica.forget()
            return None
        self.throttle.progressed(replica, high_watermark, now)
        replica.answered(high_watermark=high_watermark, log_start_offset=log_start_offset)
        return replica

    def forwarded(
        self, key: PartitionKey, replica: Replica, *, entry_bytes: int, record_bytes: int, now: float
    ) -> None:
        """The records of an entry go on to the follower: account for them."""
        if record_bytes <= 0:
            return
        granted = self.grants.pop(key, 0)
        if granted:
            replica.served = self.throttle.next_turn()
        replica.delivered(record_bytes, now)
        self.throttle.account(
            self.claim,
            reserved=granted,
            used=self.throttle.accounted(entry_bytes=entry_bytes, record_bytes=record_bytes),
            in_sync=key not in self.withhold,
            observed=key in self.observed,
            now=now,
        )

    def discarded(self, key: PartitionKey, *, high_watermark: int, log_start_offset: int, record_bytes: int) -> None:
        """The records of an entry are over quota and do not go on; everything else of it does."""
        self.watched[key].answered(high_watermark=high_watermark, log_start_offset=log_start_offset)
        statistics = self.throttle.statistics
        statistics.substituted_partitions += 1
        statistics.withheld_bytes += record_bytes

    def finish(self, now: float) -> None:
        """The response is through, or will never come: give back what was not used."""
        if self.first in self.grants:
            self.watched[self.first].stalled(self.throttle.next_turn())
        for granted in self.grants.values():
            self.throttle.budget.settle(self.claim, reserved=granted, used=0, now=now)
        self.grants.clear()

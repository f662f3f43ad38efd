"""Consumers whose quota is for catching up alone (``catch_up_only``): what they read at the tail is free.

A consumer's connection is a `Link` like a follower's, of a throttle whose budget is its quota and whose one list is
every partition. "In sync" is "at the tail" here, and three things differ: how that is recognised, that it is not
charged, and whose Fetches are decided.

A partition is at the tail once an answer has brought it to its end. It is behind again when its end is further away
than one fetch brings: more than `partition_max_bytes`, by the size of the messages so far, or because an answer that
was about as large as that did not bring it there. While it is behind, it stays behind up to the end itself: were the
last megabyte of each partition free, 200 partitions that catch up side by side would end with 200 free megabytes.

Pure. Invariants: the end is one that this connection forwarded, in this leader epoch; what is unknown is new, of which
little is asked for, unless it was at the tail before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.fetch.tables import UNKNOWN_OFFSET

from ..quotas.rules import Quotas, RoleQuota
from ..roles import Role
from ..statistics.counters import RoleStatistics
from ..throttle.link import Link
from ..throttle.pending_fetch import PendingFetch
from ..throttle.replica import BEHIND, IN_SYNC, NEW, TRUNCATED, Replica
from ..throttle.role_throttle import RoleThrottle

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable

    from admission.budget_path import BudgetPath
    from admission.shares import BudgetNode
    from protocol.fetch.batches import BatchWalk
    from protocol.fetch.walker import RequestEntry, ResponseEntry
    from protocol.wire.framing import Bytes

    from ..config.settings import QuotaSettings
    from ..throttle.replica import Standing
    from ..throttle.replicas import ReplicaCountLimit


class ConsumedPartition(Replica):
    """A partition of a consumer that reads everything up to the high watermark."""

    __slots__ = ()

    @property
    def end_offset(self) -> int:
        """The offset up to which this consumer can read."""
        return self.high_watermark

    @property
    def lag(self) -> int:
        end = self.end_offset
        return max(end - self.fetch_offset, 0) if end != UNKNOWN_OFFSET else 0

    def asked(self, entry: RequestEntry, *, returns: bool = False) -> int:
        """Take the consumer's next request for this partition, and classify it. Its offset may go anywhere: consumers
        seek."""
        messages, was_at_tail, brought = (
            entry.fetch_offset - self.fetch_offset,
            self.is_at_tail,
            self._unconfirmed_bytes,
        )
        gained = messages if messages > 0 and self.end_offset > self.fetch_offset else 0
        if returns:
            self.replayable = False
        if messages > 0:
            self._learn_message_size(messages)
        is_new_epoch = entry.current_leader_epoch != self.leader_epoch
        self._begin(entry)
        self.standing = self._stands(was_at_tail, one_fetch_brings=2 * brought < self.limit_bytes)
        if is_new_epoch:
            is_at_tail = self.is_at_tail
            self.forget()
            self.standing = self._stands(is_at_tail)
        return gained

    def asked_again(self) -> bool:
        stood = self.standing
        self.standing = self._stands(self.is_at_tail and self.end_offset != UNKNOWN_OFFSET)
        self._delivered = False
        return self.standing is not stood

    def _stands(self, was_at_tail: bool, *, one_fetch_brings: bool = True) -> Standing:
        end = self.end_offset
        if end == UNKNOWN_OFFSET:
            return TRUNCATED if was_at_tail else NEW
        if self.fetch_offset >= end:
            return IN_SYNC
        if was_at_tail and one_fetch_brings and self.lag * self.bytes_per_message <= self.limit_bytes:
            return IN_SYNC
        return BEHIND


class CommittedPartition(ConsumedPartition):
    """A partition of a consumer that reads committed transactions alone (``isolation.level=read_committed``)."""

    __slots__ = ()

    @property
    def end_offset(self) -> int:
        stable = self.last_stable_offset
        return self.high_watermark if stable == UNKNOWN_OFFSET else stable


class PendingConsumerFetch(PendingFetch):
    """A consumer's Fetch that goes on: what it brings of partitions at the tail is counted as free."""

    throttle: CatchUpThrottle

    def forwards(
        self,
        entries: Collection[ResponseEntry],
        buffer: Bytes,
        end: int,
        now: float,
        batches: BatchWalk | None = None,
    ) -> None:
        known, changed = self.replicas.known, self.replicas.changed
        for topic, partition, error_code, _, stable_offset, *_ in entries:
            replica = known.get((topic, partition))
            if replica is not None and not error_code and stable_offset != replica.last_stable_offset:
                replica.last_stable_offset = stable_offset
                changed[replica.key] = None
        super().forwards(entries, buffer, end, now, batches)

    def charge_on_send(self, entries: Collection[ResponseEntry], now: float) -> None:
        known = self.replicas.known
        super().charge_on_send([each for each in entries if not self._is_free(known.get((each[0], each[1])))], now)

    def _account(self, brought: list[tuple[Replica, int, int, int]], now: float) -> None:
        charged = [each for each in brought if not self._is_free(each[0])]
        if len(charged) < len(brought):
            free = 0
            for replica, size, entry_at, records_at in brought:
                if self._is_free(replica):
                    replica.delivered(size, now)
                    free += size + records_at - entry_at
            self.throttle.count_free(free, now)
            if self.throttle.paces:
                self.replicas.timings.records_go_on(now, in_sync=True)
        if charged:
            super()._account(charged, now)

    def _is_free(self, replica: Replica | None) -> bool:
        return replica is not None and replica.is_at_tail and replica.key not in self.grants


class ConsumerLink(Link):
    """One connection of a consumer, which never goes on with its fetch session on another one."""

    def close(self) -> None:
        super().close()
        sessions = self.throttle.sessions
        for known in sessions.at(self.translator.leader):
            if known.user is self.translator:
                sessions.end(known)


class CatchUpThrottle(RoleThrottle):
    """The throttle of the consumers of one entity.

    `quotas`: those in force, of which the listener's rate and the mode count here too. `counted` is called with bytes
    that passed: those at the tail, and those that count against the quota. `above`: the budget of the listener.
    """

    def __init__(
        self,
        settings: QuotaSettings,
        bytes_per_second: float,
        quotas: Quotas,
        now: float,
        *,
        counted: Callable[[int, int, float], None],
        remembered: ReplicaCountLimit | None = None,
        above: BudgetNode | None = None,
    ) -> None:
        self._counted = counted
        self._given = _of_every_topic(bytes_per_second, quotas)
        super().__init__(
            Role.LEADER, settings, quotas=self._given, statistics=RoleStatistics(), now=now, remembered=remembered,
            above=above,
        )  # fmt: skip

    def change(self, bytes_per_second: float, quotas: Quotas, now: float) -> None:
        """Put another rate or other quotas in force."""
        given = _of_every_topic(bytes_per_second, quotas)
        if given != self._given:
            self._given = given
            self.apply(given, now)

    def lift(self, now: float) -> None:
        """Bound nothing any more. Fetch sessions that were begun here are refused from now on, and begin anew."""
        self.apply(Quotas(), now)

    def debt_seconds(self, now: float) -> float:
        """Return for how long nothing is to be granted because of what was used; 0: the entity is not over its
        quota."""
        left = self.budget.state(now)
        return 0.0 if left is None else max(-left / self.budget.bytes_per_second, 0.0)

    def begin_with_debt(self, seconds: float, now: float) -> None:
        """Begin over quota, as `debt_seconds` has it."""
        self.budget.restore(-seconds * self.budget.bytes_per_second, now)

    def decides(self, replica_id: int) -> bool:
        return replica_id < 0

    def link(self, peer: str, *, leader: Hashable, reads_committed: bool = False) -> Link:
        """Return a link for one connection of a consumer. What is behind is never asked for all at once: the tail
        would wait while the broker looks into hundreds of logs for one answer."""
        partition = CommittedPartition if reads_committed else ConsumedPartition
        link = ConsumerLink(self, peer, leader=leader, replica=partition, pending=PendingConsumerFetch)
        link.refresh_no_lag()
        return link

    def account(self, path: BudgetPath, now: float, in_sync: int, catching_up: int, **paid: Any) -> None:
        """Count bytes that are not free: all of them are of partitions behind, or new."""
        super().account(path, now, 0, in_sync + catching_up, **paid)
        self._counted(0, in_sync + catching_up, now)

    def count_free(self, size: int, now: float) -> None:
        """Count bytes of partitions at the tail."""
        self._counted(size, 0, now)


def _of_every_topic(bytes_per_second: float, quotas: Quotas) -> Quotas:
    listener = quotas.listener_bytes_per_second
    quota = RoleQuota.of_every_topic(bytes_per_second)
    return Quotas(leader=quota, enforce=quotas.enforce, listener_bytes_per_second=listener)

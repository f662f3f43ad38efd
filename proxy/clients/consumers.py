"""Consumers whose quota is for catching up alone (``catch_up_only``): bytes read at the tail are free.

A consumer's connection is a `Link` like a follower's, of a throttle whose budget is its quota and whose one list is
every partition. Its policy has the differences. "In sync" is "at the tail" here: recognised otherwise, and not charged.

A partition is at the tail once an answer has brought it to its end. It is behind again when its end is further away
than one fetch brings: more than `partition_max_bytes`, by the size of the messages so far, or because an answer that
was about as large as that did not bring it there. While it is behind, it stays behind up to the end itself: were the
last megabyte of each partition free, 200 partitions that catch up side by side would end with 200 free megabytes. Of a
consumer that has stood still nothing is known to be at the tail until an answer has told how much was written.

Pure. Invariants: the end is one that this connection forwarded, in this leader epoch; what is unknown is new, of which
little is asked for, unless it was at the tail before.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from protocol.fetch.tables import UNKNOWN_OFFSET

from ..quotas.rules import Quotas, RoleQuota
from ..roles import Role
from ..statistics.counters import RoleStatistics
from ..throttle.link import Link
from ..throttle.replica import BEHIND, IN_SYNC, NEW, TRUNCATED, LinkPolicy
from ..throttle.role_throttle import RoleThrottle

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from admission.shares import BudgetNode
    from protocol.fetch.walker import RequestEntry

    from ..config.settings import QuotaSettings
    from ..throttle.replica import Replica, Standing
    from ..throttle.replicas import ReplicaCountLimit

TAIL_SECONDS = 1.0
"""How long after an answer a consumer's next request finds what was at the tail there still. One that stood still for
some seconds while 40 partitions were written to had 40 MB at once beyond its quota of 2 MB/s."""

End: TypeAlias = "Callable[[Replica], int]"
"""Returns the offset up to which a consumer can read."""
end_offset: End = attrgetter("high_watermark")


def stable_end_offset(replica: Replica) -> int:
    """Return the end for a consumer that reads committed transactions alone (``isolation.level=read_committed``)."""
    stable = replica.last_stable_offset
    return replica.high_watermark if stable == UNKNOWN_OFFSET else stable


def asked(end: End, replica: Replica, entry: RequestEntry, *, returns: bool = False) -> int:
    """Take the consumer's next request for a partition, and classify it. Its offset may go anywhere: consumers seek."""
    messages, was_at_tail = entry.fetch_offset - replica.fetch_offset, replica.is_at_tail
    one_fetch_brings = 2 * replica.unconfirmed_bytes < replica.limit_bytes
    if returns:
        replica.replayable = False
    if messages > 0:
        replica.learn_message_size(messages)
    is_new_epoch = entry.current_leader_epoch != replica.leader_epoch
    replica.begin(entry)
    replica.standing = _standing(end, replica, was_at_tail, one_fetch_brings=one_fetch_brings)
    if is_new_epoch:
        is_at_tail = replica.is_at_tail
        replica.forget()
        replica.standing = _standing(end, replica, is_at_tail)
    return 0


def asked_again(end: End, replicas: Sequence[Replica]) -> list[Replica]:
    """Classify partitions anew that are asked for as before; return those whose standing has changed."""
    moved = []
    for replica in replicas:
        stood = replica.standing
        replica.standing = _standing(end, replica, replica.is_at_tail and end(replica) != UNKNOWN_OFFSET)
        if replica.standing is not stood:
            moved.append(replica)
    return moved


def _standing(end: End, replica: Replica, was_at_tail: bool, *, one_fetch_brings: bool = True) -> Standing:
    lag = end(replica) - replica.fetch_offset
    if end(replica) == UNKNOWN_OFFSET:
        return TRUNCATED if was_at_tail else NEW
    if lag <= 0 or (was_at_tail and one_fetch_brings and lag * replica.bytes_per_message <= replica.limit_bytes):
        return IN_SYNC
    return BEHIND


class CatchUp:
    """The throttle of the consumers of an entity.

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
        self.throttle = RoleThrottle(
            Role.LEADER, settings, quotas=self._given, statistics=RoleStatistics(), now=now, remembered=remembered,
            above=above,
        )  # fmt: skip

    def change(self, bytes_per_second: float, quotas: Quotas, now: float) -> None:
        """Put another rate or other quotas in force."""
        given = _of_every_topic(bytes_per_second, quotas)
        if given != self._given:
            self._given = given
            self.throttle.apply(given, now)

    def lift(self, now: float) -> None:
        """Bound nothing any more. Fetch sessions that were begun here are refused from now on, and begin anew."""
        self.throttle.apply(Quotas(), now)

    def debt_seconds(self, now: float) -> float:
        """Return the seconds for which nothing is to be granted because of earlier use; 0: the entity is not over its
        quota."""
        budget = self.throttle.budget
        left = budget.state(now)
        return 0.0 if left is None else max(-left / budget.bytes_per_second, 0.0)

    def begin_with_debt(self, seconds: float, now: float) -> None:
        """Begin over quota, as `debt_seconds` has it."""
        self.throttle.budget.restore(-seconds * self.throttle.budget.bytes_per_second, now)

    def link(self, peer: str, *, leader: Hashable, reads_committed: bool = False) -> Link:
        """Return a link for a connection of a consumer. Partitions behind are never asked for all at once: the tail
        would wait while the broker looks into hundreds of logs for an answer."""
        end = stable_end_offset if reads_committed else end_offset
        ask, again = partial(asked, end), partial(asked_again, end)
        policy = LinkPolicy(
            of_consumers=True, asked=ask, asked_again=again, count=self._counted, tail_seconds=TAIL_SECONDS
        )
        return Link(self.throttle, peer, leader=leader, policy=policy)


def _of_every_topic(bytes_per_second: float, quotas: Quotas) -> Quotas:
    listener = quotas.listener_bytes_per_second
    quota = RoleQuota.of_every_topic(bytes_per_second)
    return Quotas(leader=quota, enforce=quotas.enforce, listener_bytes_per_second=listener)

"""What a forwarded Fetch request makes the sidecar do with its response.

Built by `link` when the request is decided, carried with the request until its response comes, told by the relay what
comes, as it comes. Pure.

Invariants: a full response carries exactly the partitions that the follower asked for (what was omitted is
replayed); an entry with an error is never altered; every grant is settled once, whatever happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.fetch.response import first_batch_size
from protocol.pacing import paced

from ..roles import Role
from .replica import Standing
from .role_throttle import Usage

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence, Set

    from admission.turns import Claim
    from protocol.fetch.request import Asked
    from protocol.fetch.response import ReplayedEntry
    from protocol.fetch.walker import ResponseEntry
    from protocol.session.requests import PartitionKey
    from protocol.session.translator import Translation
    from protocol.wire.buffers import Bytes

    from .replica import Replica
    from .replicas import Replicas
    from .role_throttle import RoleThrottle
    from .witness import Witness


class Outlook:
    """`grants` are the bytes reserved for partitions that were asked for, `replays` the entries to append for those
    that were not. `witness` tells the journal, if one is kept."""

    def __init__(
        self,
        throttle: RoleThrottle,
        claim: Claim,
        replicas: Replicas,
        *,
        version: int,
        admitted_at: float,
        witness: Witness | None = None,
    ) -> None:
        self.throttle = throttle
        self.claim = claim
        self.replicas = replicas
        self.version = version
        self.admitted_at = admitted_at
        self.witness = witness
        self.grants: dict[PartitionKey, int] = {}

    # What few fetches have stands at the class: one of these is made for every fetch.
    observed: Set[PartitionKey] = frozenset()
    """Observe mode: what enforcing would have omitted."""
    first: PartitionKey | None = None
    """Of those that were behind the one that is asked for first: KIP-74 owes it at least one batch."""
    replays: Sequence[ReplayedEntry] = ()
    confirms: Set[PartitionKey] = frozenset()
    """Of those that are behind, what was asked for without a grant, because nothing can be replayed for it: what the
    leader says of it goes on, its records do not."""
    brought_nothing = False
    """The answer is through, and `first` had no records in it."""
    is_timed = False
    """What was granted has begun to come."""
    catches_up = False
    """Some that are behind were asked for."""
    translation: Translation[Asked] | None = None
    """Of the request within its fetch session, v7+."""

    def answered(self, error_code: int, session_id: int) -> None:
        """The head of the leader's answer has come and is about to go on."""
        if self.translation is not None:
            self.translation.answered(error_code, session_id)

    def teaches(self) -> int | None:
        """A number by which an answer without records tells nothing new if an equal one was the last, and it is still
        the same; None: every entry must be looked at."""
        return None if self.witness is not None or self.translation is not None else self.replicas.generation

    def must_discard(self, now: float) -> bool:
        """Tell whether records of replicas that are behind are over quota, so that they must be discarded."""
        throttle = self.throttle
        if self.catches_up and throttle.enforce and throttle.budget.must_discard(self.admitted_at, now):
            self.confirms = self.replicas.behind.keys()
        return bool(self.confirms)

    def withholds(self, entry: ResponseEntry) -> bool:
        """Tell whether the records of this entry are among those that must be discarded."""
        key = (entry.topic, entry.partition)
        return not entry.error_code and entry.records_size > 0 and key in self.confirms

    def forwards(self, entries: Collection[ResponseEntry], buffer: Bytes, end: int, now: float) -> None:
        """Take entries that go on to the follower as they are: learn from them, account for their records.

        Their positions are in `buffer`, of which nothing beyond `end` has been read. What is not throttled costs a
        lookup: this is called with every entry of every response that may hold a throttled one. What is accounted for
        is what Kafka records: a follower its record bytes, a leader the entry's bytes on the wire (KIP-73).
        """
        if self.witness is not None:
            self.witness.forwarded(entries, now)
        known = self.replicas.known
        expects = None if self.translation is None else self.translation.expects
        brought: list[tuple[Replica, int, int, int]] = []
        for (
            topic, partition, error_code, high_watermark, log_start_offset, entry_at, records_at, size,
        ) in paced(entries):  # fmt: skip
            key = (topic, partition)
            if expects is not None:
                expects(key)
            replica = known.get(key)
            if replica is None:
                continue
            if error_code:
                self.replicas.forget(key)
                continue
            if high_watermark != replica.high_watermark:
                self._learn(key, replica, high_watermark, now)
            replica.log_start_offset = log_start_offset
            replica.replayable = True
            if size > 0:
                brought.append((replica, size, entry_at, records_at))
        if brought:
            _look_at_batches(brought, buffer, end)
            self._account(brought, now)

    def _account(self, brought: list[tuple[Replica, int, int, int]], now: float) -> None:
        """Account for records that go on: whose, how many bytes, where the entry begins and where they do."""
        changed, grants, observed = self.replicas.changed, self.grants, self.observed
        leads, enforce, behind = self.throttle.role is Role.LEADER, self.throttle.enforce, Standing.BEHIND
        in_sync = catching_up = reserved = taken = ungranted = withheld = turn = 0
        try:
            for replica, size, entry_at, records_at in paced(brought):
                key = replica.key
                changed[key] = None
                replica.delivered(size, now)
                used = size + records_at - entry_at if leads else size
                if replica.standing is behind:
                    catching_up += used
                else:
                    in_sync += used
                granted = grants.pop(key, 0)
                if granted:
                    turn = replica.served = turn or self.throttle.next_turn()
                    replica.used(size, granted)
                    reserved += granted
                    # In observe mode more may come than was granted, since nothing was asked to be less.
                    taken += used if enforce else min(used, granted)
                elif key in observed:
                    withheld += used
                else:
                    ungranted += used
        finally:  # if the connection ends meanwhile, what has been looked at counts
            usage = Usage(
                in_sync, catching_up, reserved=reserved, granted=taken, ungranted=ungranted, observed=withheld
            )
            self.throttle.account(self.claim, usage, now)
        if reserved and not self.is_timed:
            self.is_timed = True
            self.throttle.timings.answered(now - self.admitted_at)
        elif in_sync and not catching_up:
            self.replicas.appends_since = now

    def discards(self, entry: ResponseEntry, now: float) -> None:
        """The records of this entry are over quota and do not go on; everything else of it does."""
        key = (entry.topic, entry.partition)
        if self.witness is not None:
            self.witness.withheld((key,), now)
        replica = self.replicas.known.get(key)
        # A follower that does not wait for its answers may have stopped asking for the partition since.
        if replica is not None:
            self._learn(key, replica, entry.high_watermark, now)
            replica.answered(high_watermark=entry.high_watermark, log_start_offset=entry.log_start_offset)
        statistics = self.throttle.statistics
        statistics.substituted_partitions += 1
        statistics.withheld_bytes += entry.records_size

    def finish(self, now: float) -> None:
        """The response is through: give back what was not used."""
        whole_session = self.translation is not None
        self.brought_nothing = self.first in self.grants
        if not self.grants:
            return
        for key in paced(self.grants):
            replica = self.replicas.known.get(key)
            if replica is not None:
                replica.unused()
                if key == self.first or whole_session:
                    replica.stalled(self.throttle.next_turn(), needs_more=whole_session)
        self._give_back(now)

    def lost(self, now: float) -> None:
        """There will be no response, or not all of it came, or it was not understood."""
        if self.translation is not None:
            self.translation.lost()
        self._give_back(now)

    def _give_back(self, now: float) -> None:
        for key in paced(tuple(self.grants)):
            self.throttle.budget.settle(self.claim, reserved=self.grants.pop(key), used=0, now=now)

    def _learn(self, key: PartitionKey, replica: Replica, high_watermark: int, now: float) -> None:
        """Another high watermark than before; by the next request the replica may stand otherwise."""
        self.replicas.progressed(replica, high_watermark, now)
        replica.high_watermark = high_watermark
        self.replicas.changed[key] = None


def _look_at_batches(brought: list[tuple[Replica, int, int, int]], buffer: Bytes, end: int) -> None:
    """Learn how large the batches of those are that are not in sync: none is larger than what is known to be."""
    for replica, size, _, records_at in paced(brought):
        if size > replica.largest_batch_bytes and replica.standing is not Standing.IN_SYNC:
            replica.saw_batch(first_batch_size(buffer, records_at, end))

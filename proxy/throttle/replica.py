"""One throttled replica as one connection knows it: where it fetches, what was forwarded to it, whether it is in sync.

"In sync" is KIP-73's rule, seen from outside the broker: fetch_offset >= the high watermark that this connection
forwarded last for this partition. What is unknown counts as in sync, otherwise idle members of the ISR would be
cut off (KAFKA-4313). Pure: knows what to ask of a budget, not how much there is; no frame or socket.

A follower may leave a partition out of some requests, because it throttles it, natively or by a sidecar of its own.
What was known of the partition then still tells whether it is behind, but is not replayed until the leader has
confirmed it: the partition may have had another leader in between.

Invariants: `high_watermark` and `log_start_offset` are values this connection forwarded in this leader epoch,
never invented; they are forgotten as soon as that could be wrong, and replayed only while `replayable`.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from admission.wishes import Wish
from protocol.fetch.response import ReplayedEntry
from protocol.fetch.tables import UNKNOWN_OFFSET
from protocol.fetch.walker import RequestEntry

from ..statistics.display_rate import FOLD_SECONDS, DisplayRate
from .batch_sizes import BatchSizes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from protocol.fetch.batches import BatchWalk
    from protocol.session.requests import PartitionKey

MIN_NEED_BYTES = 64 * 1024
"""The smallest grant, until larger batches are seen: four producer batches of the default size."""
FIRST_CONTACT_BYTES = 1
"""The partition_max_bytes for a replica that must be asked for though the budget allows it nothing, because there is no
high watermark to answer it with: one batch of the first such partition comes (KIP-74's at least one message), of the
others only the high watermark. 0 would make a leader answer at once (1400 fetches a second, measured)."""
MIN_LIKELY_BYTES = 16 * 1024
"""The least that an answer is expected to bring: an ordinary batch."""
_MIN_HALF, _INF = MIN_LIKELY_BYTES // 2, math.inf
SEEN_EMPTY = 4
"""The number of grants in vain after which one that brings little is granted more than it brought: its next batch may
be larger. Before, its leader's sidecar has probably left it out: while each was granted all that was there the moment
one of them brought nothing, a connection with a topic that its leader throttles had 0.27 of its share."""
MAX_WEIGHED_BYTES = 64 * 2**20
"""The most bytes from which the average size of a message is worked out; older ones count half, then a quarter, and so
on, since messages may become larger or smaller."""


class Standing(enum.Enum):
    """The position of a replica when it asks to fetch, as far as the sidecar knows."""

    NEW = "no high watermark yet on this connection"
    TRUNCATED = (
        "fetch_offset went back, or the leader epoch changed while the replica was in sync: it may be a member of the "
        "ISR, and acks=all would wait for it"
    )
    IN_SYNC = "fetch_offset >= high watermark"
    BEHIND = "fetch_offset < high watermark: catching up"


# A member costs ten times a global's look-up (Python 3.11), and these are looked up for every partition of a fetch.
NEW, TRUNCATED, IN_SYNC, BEHIND = Standing.NEW, Standing.TRUNCATED, Standing.IN_SYNC, Standing.BEHIND


class ReplicaState(NamedTuple):
    """A replica as a value, from which another process goes on. A message between processes: its order is their
    protocol."""

    topic: Any
    """The topic's name, or since v13 its id: str or bytes. msgspec cannot tell the two apart in a union."""
    partition: int
    fetch_offset: int
    leader_epoch: int
    limit_bytes: int
    high_watermark: int
    log_start_offset: int
    standing: str
    largest_batch_bytes: int
    served: int
    """0: whose turn it is begins anew. A version that numbered turns went on from these numbers, and counted from 1."""
    empty_grants: int
    need_bytes: int
    replayable: bool
    delivered: bool
    likely_bytes: float | None
    """The bytes that the next answer is expected to bring; None: as many as `limit_bytes`."""
    is_changed: bool = False
    """True if an answer has brought news of it, by which its next request classifies it."""
    missing_seconds: float | None = None
    """The time for which the follower has not asked for it; None: it asks for it."""


class Replica(DisplayRate):
    """State per (topic, partition) on one connection. It is the rate of its own bytes: as an object beside it that took
    40 bytes more."""

    __slots__ = (
        "_delivered", "_likely_bytes", "_moved_bytes", "_moved_messages", "_need_bytes", "_replay", "asked_in",
        "batches", "empty_grants", "error_code", "fetch_offset", "high_watermark", "key", "last_stable_offset",
        "leader_asked_at", "leader_epoch", "limit_bytes", "log_start_offset", "placed_at", "replayable",
        "served", "standing", "unconfirmed_bytes", "wish",
    )  # fmt: skip

    def __init__(self, entry: RequestEntry, now: float) -> None:
        super().__init__(now)
        self.key: PartitionKey = (entry.topic, entry.partition)
        self.fetch_offset = entry.fetch_offset
        self.leader_epoch = entry.current_leader_epoch
        self.limit_bytes = entry.partition_max_bytes
        self.high_watermark = UNKNOWN_OFFSET
        self.last_stable_offset = UNKNOWN_OFFSET
        """The last stable offset as forwarded last; kept for consumers alone, since followers do not look at it."""
        self.log_start_offset = UNKNOWN_OFFSET
        self.standing = NEW
        self.error_code = 0
        """The error that the leader has answered with since it told a high watermark last; 0: none."""
        self.batches = BatchSizes()
        self.served: float = 0
        """The bytes that it counts as served for (`ServiceOrder.serve`)."""
        self.placed_at: float = 0
        self.empty_grants = 0
        """The number of its grants in a row that brought no records."""
        self._need_bytes = 0
        self.asked_in = 0
        """The number, among its connection's requests, of the last one that listed it."""
        self.replayable = False
        """True if the sidecar may answer for the leader with the values forwarded last."""
        self.leader_asked_at = now
        """The time at which a request from which other replicas were left out last asked the leader for this one."""
        self._delivered = False
        self._moved_bytes = self._moved_messages = self.unconfirmed_bytes = 0
        self._likely_bytes = math.inf
        self._replay: ReplayedEntry | None = None
        self._wishes()

    def state(self) -> ReplicaState:
        likely = self._likely_bytes
        return ReplicaState(
            *self.key,
            self.fetch_offset,
            self.leader_epoch,
            self.limit_bytes,
            self.high_watermark,
            self.log_start_offset,
            self.standing.name,
            self.batches.seen,
            0,
            self.empty_grants,
            self._need_bytes,
            self.replayable,
            self._delivered,
            None if math.isinf(likely) else likely,
        )

    @classmethod
    def from_state(cls, state: ReplicaState, now: float) -> Replica:
        nowhere = (0, 0)  # the frame that its entry is in stayed with the other process
        replica = cls(
            RequestEntry(
                state.topic, state.partition, state.leader_epoch, state.fetch_offset, state.limit_bytes, *nowhere
            ),
            now,
        )
        replica.high_watermark = state.high_watermark
        replica.log_start_offset = state.log_start_offset
        replica.standing = Standing[state.standing]
        replica.batches.saw_first(state.largest_batch_bytes)
        replica.empty_grants = state.empty_grants
        replica._need_bytes = state.need_bytes
        replica.replayable = state.replayable
        replica._delivered = state.delivered
        replica._likely_bytes = math.inf if state.likely_bytes is None else state.likely_bytes
        replica._wishes()
        return replica

    @property
    def is_behind(self) -> bool:
        return self.standing is BEHIND

    @property
    def is_at_tail(self) -> bool:
        return self.standing is IN_SYNC or self.standing is TRUNCATED

    @property
    def lag(self) -> int:
        """Messages between fetch_offset and the last high watermark; 0 while that is unknown."""
        return max(self.high_watermark - self.fetch_offset, 0) if self.high_watermark != UNKNOWN_OFFSET else 0

    @property
    def bytes_per_message(self) -> float:
        """Record bytes per offset that the follower advanced, as measured; 0 while that is unknown."""
        return self._moved_bytes / self._moved_messages if self._moved_messages else 0.0

    @property
    def need_bytes(self) -> int:
        """The smallest partition_max_bytes worth sending: below the size of its next batch a partition answers with no
        records."""
        return max(self.batches.first if self.batches.seen else MIN_NEED_BYTES, self._need_bytes)

    @property
    def stalls(self) -> bool:
        """True if its last grants brought no records, so its leader throttles it, natively or by a sidecar of its
        own."""
        return self.empty_grants > 1

    def asked(self, entry: RequestEntry, *, returns: bool = False) -> int:
        """Record the follower's next request for this partition, and classify it by what was known before. Return by
        how many messages its lag has shrunk.

        `returns`: the request before left it out.
        """
        messages = entry.fetch_offset - self.fetch_offset
        gained = messages if self.high_watermark > self.fetch_offset else 0
        if returns:
            self.replayable = False
        new_epoch = entry.current_leader_epoch != self.leader_epoch
        # A replica that was behind is in no ISR, whatever the epoch. Taken for truncated, each would be sent a whole
        # partition_max_bytes at once after a restart of the leader.
        if messages < 0 or (new_epoch and self.standing in (IN_SYNC, TRUNCATED)):
            self.forget()
            self.standing = TRUNCATED
        elif new_epoch or (messages > 0 and not self._delivered):
            self.forget()
        else:
            known = self.high_watermark
            self.standing = NEW if known == UNKNOWN_OFFSET else BEHIND if entry.fetch_offset < known else IN_SYNC
            if messages:
                self.learn_message_size(messages)
        self.begin(entry)
        return gained

    def learn_message_size(self, messages: int) -> None:
        """Take by how many messages the offset moved on with what was delivered since the last request."""
        if self.unconfirmed_bytes:
            self._moved_bytes += self.unconfirmed_bytes
            self._moved_messages += messages
            if self._moved_bytes > MAX_WEIGHED_BYTES and self._moved_messages > 1:
                self._moved_bytes //= 2
                self._moved_messages //= 2

    def begin(self, entry: RequestEntry) -> None:
        """Take the values of the request, once the replica is classified."""
        self.unconfirmed_bytes = 0
        self.fetch_offset = entry.fetch_offset
        self.leader_epoch = entry.current_leader_epoch
        if entry.partition_max_bytes != self.limit_bytes:
            self.limit_bytes = entry.partition_max_bytes
            self._wishes()
        self._delivered = False

    @staticmethod
    def asked_again(replicas: Sequence[Replica]) -> list[Replica]:
        """Record that the follower wants the same of these partitions as before; return those whose standing has
        changed."""
        moved: list[Replica] = []
        for replica in replicas:
            known = replica.high_watermark
            standing = NEW if known == UNKNOWN_OFFSET else BEHIND if replica.fetch_offset < known else IN_SYNC
            replica._delivered = False
            if standing is not replica.standing:
                replica.standing = standing
                moved.append(replica)
        return moved

    def answered(self, *, high_watermark: int, log_start_offset: int) -> None:
        """Record the leader's values of an entry without error, as they are forwarded."""
        self.high_watermark = high_watermark
        self.log_start_offset = log_start_offset
        self.replayable = True

    def delivered(self, size: int, granted: int, now: float) -> None:
        """Note that `size` > 0 record bytes are forwarded, so the next fetch_offset may move on; `granted` are those of
        its grant, 0 without one. Less than half of a grant was probably all there is for now."""
        self._delivered = True
        self.unconfirmed_bytes += size
        if now - self.updated >= FOLD_SECONDS:
            self.fold(now)
        self.added += size
        if self.empty_grants or self._need_bytes or self.batches.next:
            self.empty_grants = self._need_bytes = self.batches.next = 0
            self._wishes()
        if not granted:
            return
        likely = self._likely_bytes
        if 2 * size < granted:
            most = size
        elif likely == _INF:
            return
        else:
            most = granted
        if most < _MIN_HALF:
            most = _MIN_HALF
        if not most < likely <= 2 * most:  # it is the power of two above `most`, or inf
            power = 1 << most.bit_length()
            likely = math.inf if power >= self.limit_bytes else power
            if likely != self._likely_bytes:
                self._likely_bytes = likely
                self._wishes()

    def unused(self) -> None:
        """Note that a grant brought no records, perhaps because it was too small."""
        if self._likely_bytes != math.inf:
            self._likely_bytes = math.inf
            self._wishes()

    def stalled(self, *, needs_more: bool) -> None:
        """Note that a grant that could have brought records brought none.

        `needs_more`: its next batch may be larger than the grant, so the next grant is larger. Only the partition that
        a leader reads first may exceed its limit (KIP-74), and within a fetch session the leader chooses which it is.
        That leaves nothing for others, so the more in vain, the seldomer: after 1, 2, 4, 8 grants.
        """
        self.empty_grants = count = self.empty_grants + 1
        if needs_more:
            least = max(self.batches.first, MIN_NEED_BYTES)
            is_due = not count & (count - 1)
            self._need_bytes = min(least << count.bit_length(), max(self.limit_bytes, least)) if is_due else 0
        self._wishes()

    def saw_batch(self, size: int) -> None:
        """Record the size in bytes of the batch at the front of an answer; 0: it could not be read."""
        if self.batches.saw_first(size):
            self._wishes()

    def saw_batches(self, walk: BatchWalk) -> None:
        """Note that records were cut off where their grant ended."""
        self.batches.saw(walk)
        self._wishes()

    def suppose(self, batch_bytes: int) -> None:
        """Record the size of other partitions' batches, which its own are probably like."""
        if self.batches.suppose(batch_bytes):
            self._wishes()

    def _wishes(self) -> None:
        """Update the wish, which is asked of the budget. A replica that stalls wishes only for as much as shows whether
        records come again, and leaves the rest to others."""
        batches, limit, need = self.batches, max(self.limit_bytes, 0), self.need_bytes
        if self.stalls:
            limit = min(limit, need)
        first = batches.first
        likely = max(self._likely_bytes, first)
        if self._need_bytes:  # the next batch is larger than was believed
            self.wish = Wish(limit, need, max(likely, need) if self.empty_grants >= SEEN_EMPTY else likely)
        else:
            self.wish = Wish(limit, need, likely, math.inf if batches.guesses else first, first, batches.largest)

    def replay(self) -> ReplayedEntry:
        """Return the entry that repeats the values forwarded last."""
        replay, high_watermark, log_start_offset = self._replay, self.high_watermark, self.log_start_offset
        stable = self.last_stable_offset
        if replay is None or replay[2] != high_watermark or replay[3] != log_start_offset or replay[4] != stable:
            replay = self._replay = ReplayedEntry(*self.key, high_watermark, log_start_offset, stable)
        return replay

    def forget(self) -> None:
        """Drop what was forwarded: an error, a truncation or a leader change made it worthless."""
        self.high_watermark = self.log_start_offset = self.last_stable_offset = UNKNOWN_OFFSET
        self.replayable = False
        self.standing = NEW


@dataclass(frozen=True, slots=True)
class LinkPolicy:
    """The rules of a link that differ by its owner. The default is a follower's."""

    of_consumers: bool = False
    """True if its Fetches are a consumer's, which is shown no lag, and goes on with no fetch session over another
    connection."""
    asked: Callable[..., int] = Replica.asked
    asked_again: Callable[[Sequence[Replica]], list[Replica]] = Replica.asked_again
    count: Callable[[int, int, float], None] | None = None
    """Counts bytes of partitions at the tail, which are free, and bytes that were charged; None: all are charged."""
    tail_seconds: float = math.inf
    """The time after an answer for which a partition at its tail is taken to be there still."""

    def decides(self, replica_id: int) -> bool:
        """Return True if a Fetch with this replica id is the link's to decide. A consumer's is -1."""
        return (replica_id < 0) is self.of_consumers


FOLLOWER = LinkPolicy()

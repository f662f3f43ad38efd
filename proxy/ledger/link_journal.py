"""Reports a connection's fetches to the journal's ledger, of every partition, throttled or not.

Pure. Exists only where a journal is kept. Knows offsets and sizes, never records.

Invariant: every entry that is forwarded without an error is recorded once, with what was known at its request: an entry
counts as in sync if its replica was in sync then.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from protocol.fetch.tables import UNKNOWN_OFFSET

from .blocks import Position, Sums, TrafficKey

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from protocol.fetch.walker import RequestEntry, ResponseEntry
    from protocol.session.requests import PartitionKey
    from protocol.wire.topics import Topic

    from ..roles import Role
    from .ledger import Ledger
MAX_SEEN = 20_000
"""The most partitions of a connection that are recorded; entries and omissions of further ones are in no line of the
journal and are counted as dropped."""


_NOT_LEFT_OUT: tuple[str, Sums | None] = ("", None)


class ThrottledReplica(Protocol):
    """The position of a throttled replica, as its link knows it."""

    fetch_offset: int
    high_watermark: int
    log_start_offset: int

    @property
    def is_behind(self) -> bool: ...


class _Seen:
    """The last request of a follower and the last answer of its leader for a partition."""

    __slots__ = ("behind_from", "high_watermark", "keys", "offset")

    def __init__(self) -> None:
        self.offset = UNKNOWN_OFFSET
        self.high_watermark = UNKNOWN_OFFSET
        self.behind_from: int | None = None
        """The log start offset when the journal was last told that the replica is behind; None: the journal was never
        told so, or was told since that the replica has caught up."""
        self.keys: list[TrafficKey | None] = [None] * 4
        """The ledger's keys as made last, at index 2 · throttled + in sync."""


class LinkJournal:
    """Tells of a connection. `peer`: the other broker, by its address until its id is known. `known`: the throttled
    replicas of the connection, as they are at each moment."""

    __slots__ = ("_known", "_ledger", "_left_out", "_left_out_in", "_role", "_seen", "_topic_name", "peer")

    def __init__(
        self,
        ledger: Ledger,
        role: Role,
        peer: str,
        *,
        topic_name: Callable[[Topic], str],
        known: Mapping[PartitionKey, ThrottledReplica],
    ) -> None:
        self.peer = peer
        self._ledger = ledger
        self._role = role.value
        self._topic_name = topic_name
        self._known = known
        self._seen: defaultdict[PartitionKey, _Seen] = defaultdict(_Seen)
        self._left_out: dict[PartitionKey, tuple[str, Sums]] = {}
        """The topic's name and the sums of each replica that was left out since `_left_out_in`: the ledger's block, and
        the name of the other broker."""
        self._left_out_in: tuple[int, str] = (0, peer)

    def asked(self, entries: Collection[RequestEntry], now: float) -> None:
        """Record the offsets that the follower asks for; partitions that it does not name it asks for as before.

        That a replica has caught up is seen from its request: within a fetch session (KIP-227) the answer has no entry
        for a partition without news, and perhaps no later answer has one.
        """
        if self._left_out:  # nothing of a block that has ended is kept by those that have caught up
            self._forget_ended(now)
        all_seen = self._seen
        for topic, partition, _, fetch_offset, _, _, _ in entries:
            if len(all_seen) >= MAX_SEEN and (topic, partition) not in all_seen:
                continue
            seen = all_seen[topic, partition]
            seen.offset = fetch_offset
            if seen.behind_from is not None and UNKNOWN_OFFSET != seen.high_watermark <= fetch_offset:
                self._caught_up((topic, partition), seen, seen.behind_from, now)

    def forwarded(self, entries: Collection[ResponseEntry], now: float) -> None:
        """Record entries that go on to the follower, before the link learns from them."""
        known, all_seen, fetched = self._known, self._seen, self._ledger.fetched
        for (
            topic,
            partition,
            error_code,
            high_watermark,
            _,
            log_start_offset,
            entry_at,
            records_at,
            records_size,
        ) in entries:
            if len(all_seen) >= MAX_SEEN and (topic, partition) not in all_seen:
                self._ledger.dropped += 1
                continue
            seen = all_seen[topic, partition]
            if error_code:
                seen.high_watermark = UNKNOWN_OFFSET
                continue
            replica = known.get((topic, partition))
            if replica is None:
                offset, in_sync = seen.offset, seen.offset >= seen.high_watermark
            else:  # after a hand-over a session's request need not have listed it here
                offset, in_sync = replica.fetch_offset, not replica.is_behind
            seen.high_watermark = high_watermark
            if not in_sync:
                seen.behind_from = log_start_offset
            size = max(records_size, 0)
            fetched(
                self._key(seen, topic, partition, throttled=replica is not None, in_sync=in_sync),
                Position(offset, high_watermark, log_start_offset),
                record_bytes=size,
                wire_bytes=size + records_at - entry_at if size else 0,
                now=now,
            )

    def withheld(self, keys: Collection[PartitionKey], now: float) -> None:
        """Record partitions that the quota kept out of a request, or whose records it kept out of a response."""
        known, all_seen, left_out, ledger = self._known, self._seen, self._left_out, self._ledger
        names: dict[Topic, str] = {}
        slot = self._forget_ended(now)
        for key in keys:
            replica, (named, sums) = known.get(key), left_out.get(key, _NOT_LEFT_OUT)
            if sums is not None and replica is not None:  # mostly it stands where it stood at the fetch before
                name = names.get(key[0])
                if name is None:
                    name = names[key[0]] = self._topic_name(key[0])
                stands = replica.fetch_offset, replica.high_watermark, replica.log_start_offset
                if name == named and sums.omit_again(stands, slot):
                    continue
            if len(all_seen) >= MAX_SEEN and key not in all_seen:
                ledger.dropped += 1
            else:
                self._omit(key, all_seen[key], replica, now)

    def _forget_ended(self, now: float) -> int:
        """Forget the omissions of a block that has ended, and those under another name of the other broker; return the
        second in the present block."""
        block, slot = self._ledger.block_at(now)
        if self._left_out_in != (block, self.peer):
            self._left_out_in = block, self.peer
            self._left_out.clear()
        return slot

    def _omit(self, key: PartitionKey, seen: _Seen, replica: ThrottledReplica | None, now: float) -> None:
        if replica is not None:
            position = Position(replica.fetch_offset, replica.high_watermark, replica.log_start_offset)
            seen.behind_from, seen.high_watermark = replica.log_start_offset, replica.high_watermark
        else:  # no longer asked for, by a follower that does not wait for its answers
            position = Position(seen.offset, seen.high_watermark, UNKNOWN_OFFSET)
        told = self._key(seen, *key, throttled=True, in_sync=False)
        sums = self._ledger.omitted(told, position, now=now)
        if sums is not None:
            self._left_out[key] = told.topic, sums

    def _caught_up(self, key: PartitionKey, seen: _Seen, log_start_offset: int, now: float) -> None:
        seen.behind_from = None
        position = Position(seen.offset, seen.high_watermark, log_start_offset)
        throttled = key in self._known
        self._ledger.stands(self._key(seen, *key, throttled=throttled, in_sync=True), position, now=now)

    def _key(self, seen: _Seen, topic: Topic, partition: int, *, throttled: bool, in_sync: bool) -> TrafficKey:
        """Return the same key as before, unless the name of the topic or of the other broker became known since."""
        name, place = self._topic_name(topic), 2 * throttled + in_sync
        key = seen.keys[place]
        if key is None or key.topic != name or key.peer != self.peer:
            key = seen.keys[place] = TrafficKey(self._role, self.peer, name, partition, throttled, in_sync)
        return key

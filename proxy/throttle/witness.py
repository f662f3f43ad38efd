"""What one connection's fetches bring, told to the journal's ledger: every partition, throttled or not.

Pure. Exists only where a journal is kept. Knows offsets and sizes, never records.

Invariant: every entry that is forwarded without an error is told once, by what was known when it was asked for.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..journal.ledger import Position, TrafficKey
from .replica import UNKNOWN, Standing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.fetch_session import PartitionKey
    from protocol.walker import RequestEntry, ResponseEntry

    from ..journal.ledger import Ledger
    from .replicas import Replicas
    from .role_throttle import RoleThrottle


class Witness:
    """One per connection. `peer` is the other broker, as far as it is known."""

    __slots__ = (
        "_behind",
        "_high_watermarks",
        "_ledger",
        "_offsets",
        "_replicas",
        "_role",
        "_topic_name",
        "peer",
    )

    def __init__(self, ledger: Ledger, throttle: RoleThrottle, replicas: Replicas, peer: str) -> None:
        self.peer = peer
        self._ledger = ledger
        self._role = throttle.role.value
        self._topic_name = throttle.topic_name
        self._replicas = replicas
        self._offsets: dict[PartitionKey, int] = {}
        self._high_watermarks: dict[PartitionKey, int] = {}
        self._behind: dict[PartitionKey, int] = {}
        """Log start offset of who was told to be behind and has not been told to have caught up."""

    def asked(self, entries: Iterable[RequestEntry], now: float) -> None:
        """Take the offsets that the follower asks for; what it does not name it asks for as before.

        That a replica has caught up is told by its request: within a fetch session (KIP-227) there is no entry for it
        in the answer, nor maybe in any later one.
        """
        offsets, behind = self._offsets, self._behind
        for entry in entries:
            key = (entry.topic, entry.partition)
            offsets[key] = entry.fetch_offset
            if key in behind and entry.fetch_offset >= self._high_watermarks.get(key, math.inf):
                self._caught_up(key, now)

    def forwarded(self, entries: Iterable[ResponseEntry], now: float) -> None:
        """These go on to the follower, and nobody has learnt from them yet."""
        known, offsets, high_watermarks = self._replicas.known, self._offsets, self._high_watermarks
        for (
            topic,
            partition,
            error_code,
            high_watermark,
            log_start_offset,
            entry_at,
            records_at,
            records_size,
        ) in entries:
            key = (topic, partition)
            if error_code:
                high_watermarks.pop(key, None)
                continue
            replica = known.get(key)
            offset = offsets.get(key, UNKNOWN)
            if replica is None:
                in_sync = offset >= high_watermarks.get(key, UNKNOWN)
            else:
                in_sync = replica.standing is not Standing.BEHIND
            high_watermarks[key] = high_watermark
            if not in_sync:
                self._behind[key] = log_start_offset
            size = max(records_size, 0)
            self._ledger.fetched(
                self._key(key, throttled=replica is not None, in_sync=in_sync),
                Position(offset, high_watermark, log_start_offset),
                record_bytes=size,
                wire_bytes=size + records_at - entry_at if size else 0,
                now=now,
            )

    def withheld(self, keys: Iterable[PartitionKey], now: float) -> None:
        """The quota kept these out of a fetch, or their records out of a response."""
        known = self._replicas.known
        for key in keys:
            replica = known[key]
            position = Position(replica.fetch_offset, replica.high_watermark, replica.log_start_offset)
            self._behind[key] = replica.log_start_offset
            self._high_watermarks[key] = replica.high_watermark
            self._ledger.omitted(self._key(key, throttled=True, in_sync=False), position, now=now)

    def _caught_up(self, key: PartitionKey, now: float) -> None:
        position = Position(self._offsets[key], self._high_watermarks[key], self._behind.pop(key))
        self._ledger.stands(self._key(key, throttled=key in self._replicas.known, in_sync=True), position, now=now)

    def _key(self, key: PartitionKey, *, throttled: bool, in_sync: bool) -> TrafficKey:
        topic, partition = key
        return TrafficKey(self._role, self.peer, self._topic_name(topic), partition, throttled, in_sync)

"""A broker's sidecar, as far as its journal goes: the sidecar's own ledger and writer, on a clock that may be wrong."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from journal_schema import Kind
from proxy.config.settings import JournalSettings
from proxy.journal.encoding import Origin, event
from proxy.journal.segments import SegmentDirectory, run_name
from proxy.journal.writer import Batch, Writer
from proxy.ledger.blocks import Position, TrafficKey
from proxy.ledger.ledger import Ledger

from .outages import MIB, START

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.ledger.blocks import Block

    from .outages import Replica

ENTRY_BYTES = 18
KEEP_BYTES = 1 << 40
QUEUE_FULL_SECONDS, FINISH_SECONDS = 0.002, 120.0
ROLES = ("leader", "follower")


class Sidecar:
    """One run of it, from `begins` on, a second of the month; all seconds here are of the month."""

    def __init__(self, folder: Path, broker: int, begins: int, quota: int, *, skew: int) -> None:
        self.bytes = dict.fromkeys(ROLES, 0)
        """The truth: record bytes that were told to the journal."""
        self.rows = 0
        self.last = begins
        """The last second that anything was told of."""
        self.begins = begins
        self._first_time = START + begins + skew
        self._ledger = Ledger(0.0)
        run = run_name(self._first_time)
        settings = JournalSettings(folder, 600.0, 16 * MIB, KEEP_BYTES)
        self._writer = Writer(SegmentDirectory(folder, broker=broker, run=run), Origin(broker, f"{run}-gen"), settings)
        self._writer.start()
        self._events = [event(Kind.START, 0, version="0.1.0")]
        self.has_quota(quota, begins, reason="start")

    def has_quota(self, quota: int, second: int, *, reason: str) -> None:
        for role in ROLES:
            self._tell(
                Kind.QUOTA, second, role=role, bytes_per_second=float(quota), policy="strict", enforce=True,
                selection="*", bounds=None, priorities=None, reason=reason,
            )  # fmt: skip

    def forwards(self, role: str, peer: int, one: Replica, size: int, second: int, *, in_sync: bool) -> None:
        position = Position(one.offset, one.high_watermark, 0)
        now = self._now(second)
        wire = size + ENTRY_BYTES if size else 0
        key = _key(role, peer, one, in_sync=in_sync)
        self._ledger.fetched(key, position, record_bytes=size, wire_bytes=wire, now=now)
        self.bytes[role] += size
        self.rows += 1
        self.last = second

    def leaves_out(self, role: str, peer: int, one: Replica, second: int) -> None:
        position = Position(one.offset, one.high_watermark, 0)
        self._ledger.omitted(_key(role, peer, one, in_sync=False), position, now=self._now(second))
        self.rows += 1
        self.last = second

    def loses(self, role: str, peer: int, second: int, seconds: float) -> None:
        """Report that a connection ended in order."""
        self._tell(
            Kind.CONNECTION, second, role=role, peer=str(peer), cause="closed", seconds=seconds,
            replica_fetches=round(10 * seconds), held_seconds=0.0,
        )  # fmt: skip

    def hands_on(self, second: int) -> None:
        """Hand seconds that are over to the writer, as a sidecar does every second."""
        blocks = self._ledger.take_finished(self._now(second) - 0.5)
        if not (blocks or self._events):
            return
        self._give(second, blocks)

    @property
    def lines(self) -> int:
        """Lines in its journal, without those that begin and end a file."""
        return self._writer.statistics.lines

    def stops(self, second: int) -> None:
        self._tell(Kind.STOP, second)
        blocks = self._ledger.cut(self._now(second))
        self._give(second, blocks)
        self._writer.finish(FINISH_SECONDS)
        self._writer.raise_what_ended_it()

    def _give(self, second: int, blocks: list[Block]) -> None:
        """Offer a batch to the writer, again and again while its queue is full."""
        events, self._events = self._events, []
        batch = Batch(second - self.begins, self._first_time, blocks, events)
        while not self._writer.offer(batch):
            time.sleep(QUEUE_FULL_SECONDS)

    def _tell(self, kind: Kind, second: int, **values: str | float | bool | None) -> None:
        self._events.append(event(kind, second - self.begins, **values))
        self.last = max(self.last, second)

    def _now(self, second: int) -> float:
        return second - self.begins + 0.5


def _key(role: str, peer: int, one: Replica, *, in_sync: bool) -> TrafficKey:
    return TrafficKey(role, str(peer), one.topic, one.partition, throttled=True, in_sync=in_sync)

"""The journal's sums per second and partition, kept in memory and handed out in blocks of fifteen seconds.

Pure: `now` is an argument, in seconds of a clock that is never set. Knows no file and no wall clock. A partition costs
two calls per fetch at most, each a dict lookup and some additions; to hand a block out takes as long for 100 000
partitions as for one (`blocks`).

Invariant: every byte reported is in exactly one block, in its second and at its partition; a partition without news is
in no block.
"""

from __future__ import annotations

import math

from journal_schema import LINE_SECONDS

from .blocks import Block, Last, LinkKey, LinkSums, Position, Sums, TrafficKey

MAX_KEYS = 100_000
"""The most keys in one block; each takes about a kilobyte until the block is written."""
MAX_KNOWN = 400_000
"""The most replicas whose last offsets are remembered from block to block."""
IDLE_TICKS = 600
"""A replica's last offsets are forgotten between once and twice this many seconds after its last fetch, and are written
again with its next one."""

_ReplicaKey = tuple[str, str, str, int]
"""A replica: role, peer, topic and partition."""


class Ledger:
    """Tick n is the second that begins n seconds after `origin`."""

    def __init__(self, origin: float) -> None:
        self._origin = origin
        self._block = 0
        """The number of blocks that have ended."""
        self._first = 0
        """The first tick of the block that is being filled."""
        self._slot = 0
        self._ends = origin + 1.0
        """The time at which the second of `_slot` ends."""
        self._sums: dict[TrafficKey, Sums] = {}
        self._links: dict[LinkKey, LinkSums] = {}
        self._known: dict[_ReplicaKey, Last] = {}
        """The last offsets of replicas that were fetched since the last multiple of IDLE_TICKS."""
        self._older: dict[_ReplicaKey, Last] = {}
        """The last offsets of replicas that were fetched in the IDLE_TICKS before that, and not since."""
        self._finished: list[Block] = []
        self.dropped = 0
        """The number of fetches and omissions in no block, because their keys were more than `MAX_KEYS`."""

    def tick_at(self, now: float) -> int:
        return math.floor(now - self._origin)

    def fetched(self, key: TrafficKey, position: Position, *, record_bytes: int, wire_bytes: int, now: float) -> None:
        """Count a forwarded entry of a response; `wire_bytes` counts the whole of it, if it has records."""
        sums = self._at(key, position, now)
        slot, seconds = self._slot, sums.link.seconds
        sums.fetches += 1
        seconds.fetches[slot] += 1
        if record_bytes:
            sums.second_bytes[slot] += record_bytes
            sums.header_bytes += wire_bytes - record_bytes
            seconds.record_bytes[slot] += record_bytes
            seconds.wire_bytes[slot] += wire_bytes
            sums.news(slot)
        elif not key.in_sync or position != sums.position:
            sums.news(slot)
        sums.stands(position)

    def block_at(self, now: float) -> tuple[int, int]:
        """Return the number of the block that is being filled, and the second in it."""
        if now >= self._ends:
            self._turn(now)
        return self._block, self._slot

    def omitted(self, key: TrafficKey, position: Position, *, now: float) -> Sums | None:
        """Count a partition that the quota kept out of a fetch, or its records out of a response. Return its sums, for
        this block alone; None if there is no room for them."""
        sums = self._at(key, position, now)
        slot = self._slot
        sums.omitted += 1
        sums.link.seconds.omitted[slot] += 1
        sums.news(slot)
        sums.stands(position)
        return sums if key in self._sums else None

    def stands(self, key: TrafficKey, position: Position, *, now: float) -> None:
        """Note the position that a replica's request gives without an entry of an answer: it may have caught up."""
        sums = self._at(key, position, now)
        if position != sums.position:
            sums.news(self._slot)
        sums.stands(position)

    def take_finished(self, now: float) -> list[Block]:
        """Return the blocks that are over by `now` and were not returned before."""
        if now >= self._ends:
            self._turn(now)
        finished, self._finished = self._finished, []
        return finished

    def cut(self, now: float) -> list[Block]:
        """Return all blocks, the one that is being filled included; later reports are in another."""
        if now >= self._ends:
            self._turn(now)
        self._end_block()
        self._begin_block(now)
        finished, self._finished = self._finished, []
        return finished

    def cut_before_this_second(self, now: float) -> list[Block]:
        """Return all blocks, as `cut` does, but for one that began in the second of `now`, which goes on.

        Its rest would be in a block of the same tick, and of two lines of a link and a tick readers drop one: they take
        it for the same line, read twice.
        """
        return self.cut(now) if self.tick_at(now) > self._first else self.take_finished(now)

    def _at(self, key: TrafficKey, position: Position, now: float) -> Sums:
        if now >= self._ends:
            self._turn(now)
        sums = self._sums.get(key)
        if sums is None:
            if len(self._sums) >= MAX_KEYS:
                self.dropped += 1
                return Sums(LinkSums(), Last(), begins_at=position)
            sums = self._sums[key] = Sums(self._link_of(key), self._last_of(key[:4]), begins_at=position)
        return sums

    def _link_of(self, key: TrafficKey) -> LinkSums:
        link = LinkKey(key.role, key.peer, key.throttled, key.in_sync)
        sums = self._links.get(link)
        if sums is None:
            sums = self._links[link] = LinkSums()
        return sums

    def _last_of(self, replica: _ReplicaKey) -> Last:
        """Return where the replica stood last, also if that was under another key: in sync instead of behind, or not
        throttled."""
        last = self._known.get(replica)
        if last is None:
            last = self._older.pop(replica, None) or Last()
            if len(self._known) + len(self._older) < MAX_KNOWN:
                self._known[replica] = last
        return last

    def _turn(self, now: float) -> None:
        slot = max(self.tick_at(now) - self._first, self._slot)
        if slot < LINE_SECONDS:
            self._slot = slot
            self._ends = self._origin + self._first + slot + 1
            return
        self._slot = LINE_SECONDS - 1
        self._end_block()
        self._begin_block(now)

    def _begin_block(self, now: float) -> None:
        before, self._first = self._first, max(self.tick_at(now), self._first)
        self._slot = 0
        self._ends = self._origin + self._first + 1
        if (passed := self._first // IDLE_TICKS - before // IDLE_TICKS) > 0:
            self._older, self._known = self._known if passed == 1 else {}, {}

    def _end_block(self) -> None:
        block = Block(self._first, self._slot + 1, self._sums, self._links)
        if block.lines:
            self._finished.append(block)
        self._sums, self._links = {}, {}
        self._block += 1

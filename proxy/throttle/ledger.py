"""What each second brought of each partition: sums in memory, handed out fifteen seconds at a time.

Pure: `now` is an argument, in seconds of a clock that is never set. Knows no file and no wall clock. Two calls per
partition and fetch at most, each a dict lookup and some additions.

Invariant: every byte reported is in exactly one block, in its second and at its partition; a partition without news is
in none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from journal_schema import LINE_SECONDS

MOST_KEYS = 100_000
"""Partitions of which something is told within one block; each costs about a kilobyte until that is written."""
MOST_TOLD = 400_000
"""Partitions whose last offsets are remembered after that."""
IDLE_TICKS = 600
"""After so many seconds without a fetch a partition's last offsets are forgotten, and said again with the next one."""


class TrafficKey(NamedTuple):
    """What is summed up apart."""

    role: str
    peer: str
    topic: str
    partition: int
    throttled: bool
    in_sync: bool


class Link(NamedTuple):
    """What has blocks of its own."""

    role: str
    peer: str
    throttled: bool
    in_sync: bool


class Position(NamedTuple):
    """Where a replica stands; -1 for what is unknown."""

    fetch_offset: int
    high_watermark: int
    log_start_offset: int


class Seconds(NamedTuple):
    """Sums of all partitions, one element per second."""

    record_bytes: list[int]
    wire_bytes: list[int]
    fetches: list[int]
    omitted: list[int]


class Replica(NamedTuple):
    """One partition's part of a block."""

    topic: str
    partition: int
    said: list[bool]
    """Per second: whether there was news."""
    second_bytes: list[int]
    """Record bytes per second."""
    header_bytes: int
    fetches: int
    omitted: int
    before: Position
    """Where it stood before the block; where it began, if that is unknown."""
    position: Position


class Traffic(NamedTuple):
    """The seconds from `tick` on, of one link, as they go to the journal. Replicas in the order of their names."""

    tick: int
    link: Link
    seconds: Seconds
    replicas: list[Replica]


class _Sums:
    __slots__ = (
        "before", "fetches", "header_bytes", "last_slot", "omitted", "position", "said", "second_bytes", "seconds",
    )  # fmt: skip

    def __init__(self, seconds: Seconds, *, before: Position, position: Position | None) -> None:
        self.seconds = seconds
        self.second_bytes = [0] * LINE_SECONDS
        self.said = [False] * LINE_SECONDS
        self.header_bytes = self.fetches = self.omitted = self.last_slot = 0
        self.before = before
        self.position = position


class _Told(NamedTuple):
    position: Position
    tick: int


class Ledger:
    """Tick n is the second that begins n seconds after `origin`."""

    def __init__(self, origin: float) -> None:
        self._origin = origin
        self._first = 0
        """Tick of the block that is being filled."""
        self._slot = 0
        self._ends = origin + 1.0
        """The second of `_slot`."""
        self._sums: dict[TrafficKey, _Sums] = {}
        self._links: dict[Link, Seconds] = {}
        self._told: dict[tuple[str, str, str, int], _Told] = {}
        self._finished: list[Traffic] = []
        self.dropped = 0
        """Fetches and omissions of partitions beyond `MOST_KEYS`, of which nothing is told."""

    def tick_at(self, now: float) -> int:
        return math.floor(now - self._origin)

    def fetched(self, key: TrafficKey, position: Position, *, record_bytes: int, wire_bytes: int, now: float) -> None:
        """An entry of a response is forwarded; `wire_bytes` counts the whole of it, if it has records."""
        sums = self._at(key, position, now)
        slot, seconds = self._slot, sums.seconds
        sums.fetches += 1
        seconds.fetches[slot] += 1
        if record_bytes:
            sums.second_bytes[slot] += record_bytes
            sums.header_bytes += wire_bytes - record_bytes
            seconds.record_bytes[slot] += record_bytes
            seconds.wire_bytes[slot] += wire_bytes
            sums.said[slot] = True
        elif not key.in_sync or position != sums.position:
            sums.said[slot] = True
        sums.position = position
        sums.last_slot = slot

    def omitted(self, key: TrafficKey, position: Position, *, now: float) -> None:
        """The quota kept a partition out of a fetch, or its records out of a response."""
        sums = self._at(key, position, now)
        slot = self._slot
        sums.omitted += 1
        sums.seconds.omitted[slot] += 1
        sums.said[slot] = True
        sums.position = position
        sums.last_slot = slot

    def stands(self, key: TrafficKey, position: Position, *, now: float) -> None:
        """A replica says where it is: it may have caught up, and there is no entry to tell it by."""
        sums = self._at(key, position, now)
        if position != sums.position:
            sums.said[self._slot] = True
        sums.position = position
        sums.last_slot = self._slot

    def take_finished(self, now: float) -> list[Traffic]:
        """Return the blocks that are over by `now` and were not returned before."""
        if now >= self._ends:
            self._turn(now)
        finished, self._finished = self._finished, []
        return finished

    def cut(self, now: float) -> list[Traffic]:
        """Return all that is left, also of the second that has only begun; what comes is in another block."""
        if now >= self._ends:
            self._turn(now)
        self._end_block()
        self._begin_block(now)
        finished, self._finished = self._finished, []
        return finished

    def _at(self, key: TrafficKey, position: Position, now: float) -> _Sums:
        if now >= self._ends:
            self._turn(now)
        sums = self._sums.get(key)
        if sums is None:
            if len(self._sums) >= MOST_KEYS:
                self.dropped += 1
                return _Sums(_no_seconds(), before=position, position=position)
            last = self._last_position(key)
            sums = self._sums[key] = _Sums(self._seconds_of(key), before=last or position, position=last)
        return sums

    def _seconds_of(self, key: TrafficKey) -> Seconds:
        link = Link(key.role, key.peer, key.throttled, key.in_sync)
        seconds = self._links.get(link)
        if seconds is None:
            seconds = self._links[link] = _no_seconds()
        return seconds

    def _last_position(self, key: TrafficKey) -> Position | None:
        """Where the replica stood last: maybe in this block, when it was in sync, behind, or selected otherwise."""
        here = [
            sums
            for throttled in (False, True)
            for in_sync in (False, True)
            if (sums := self._sums.get(key._replace(throttled=throttled, in_sync=in_sync))) is not None
        ]
        if here:
            return max(here, key=lambda sums: sums.last_slot).position
        told = self._told.get(key[:4])
        return None if told is None else told.position

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
        if before // IDLE_TICKS != self._first // IDLE_TICKS:
            self._told = {key: last for key, last in self._told.items() if self._first - last.tick <= IDLE_TICKS}

    def _end_block(self) -> None:
        count = self._slot + 1
        replicas: dict[Link, list[Replica]] = {link: [] for link in self._links}
        # In the order of the last word, so that the last position told is the latest.
        for key, sums in sorted(self._sums.items(), key=lambda item: item[1].last_slot):
            position = sums.position
            if position is None:
                continue
            if len(self._told) < MOST_TOLD or key[:4] in self._told:
                self._told[key[:4]] = _Told(position, self._first + sums.last_slot)
            if any(sums.said):
                link = Link(key.role, key.peer, key.throttled, key.in_sync)
                replicas[link].append(_replica(key, sums, position, count))
        for link, seconds in self._links.items():
            if replicas[link]:
                cut = Seconds(*(sums[:count] for sums in seconds))
                self._finished.append(Traffic(self._first, link, cut, sorted(replicas[link])))
        self._sums, self._links = {}, {}


def _no_seconds() -> Seconds:
    return Seconds(*([0] * LINE_SECONDS for _ in Seconds._fields))


def _replica(key: TrafficKey, sums: _Sums, position: Position, count: int) -> Replica:
    return Replica(
        topic=key.topic,
        partition=key.partition,
        said=sums.said[:count],
        second_bytes=sums.second_bytes[:count],
        header_bytes=sums.header_bytes,
        fetches=sums.fetches,
        omitted=sums.omitted,
        before=sums.before,
        position=position,
    )

"""What each second brought of each partition: sums in memory, handed out once the second is over.

Pure: `now` is an argument, in seconds of a clock that is never set. Knows no file and no wall clock. Two calls per
partition and fetch at most, each a dict lookup and some additions.

Invariant: every byte reported is in exactly one line; a partition without news has none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

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


class Position(NamedTuple):
    """Where a replica stands; -1 for what is unknown."""

    fetch_offset: int
    high_watermark: int
    log_start_offset: int


class Traffic(NamedTuple):
    """One second of one key, as it goes to the journal."""

    tick: int
    key: TrafficKey
    record_bytes: int
    wire_bytes: int
    fetches: int
    omitted: int
    position: Position


class _Sums:
    __slots__ = ("fetches", "omitted", "position", "record_bytes", "wire_bytes")

    def __init__(self) -> None:
        self.record_bytes = self.wire_bytes = self.fetches = self.omitted = 0
        self.position = Position(-1, -1, -1)


class _Told(NamedTuple):
    position: Position
    tick: int


class Ledger:
    """Tick n is the second that begins n seconds after `origin`."""

    def __init__(self, origin: float) -> None:
        self._origin = origin
        self._tick = 0
        self._ends = origin + 1.0
        self._sums: dict[TrafficKey, _Sums] = {}
        self._told: dict[tuple[str, str, str, int], _Told] = {}
        self._finished: list[Traffic] = []

    def tick_at(self, now: float) -> int:
        return math.floor(now - self._origin)

    def fetched(self, key: TrafficKey, position: Position, *, record_bytes: int, wire_bytes: int, now: float) -> None:
        """An entry of a response is forwarded; `wire_bytes` counts the whole of it, if it has records."""
        sums = self._at(key, now)
        sums.fetches += 1
        sums.record_bytes += record_bytes
        sums.wire_bytes += wire_bytes
        sums.position = position

    def omitted(self, key: TrafficKey, position: Position, *, now: float) -> None:
        """The quota kept a partition out of a fetch, or its records out of a response."""
        sums = self._at(key, now)
        sums.omitted += 1
        sums.position = position

    def take_finished(self, now: float) -> list[Traffic]:
        """Return the lines of the seconds that are over by `now` and were not returned before."""
        if now >= self._ends:
            self._turn(now)
        finished, self._finished = self._finished, []
        return finished

    def close(self, now: float) -> list[Traffic]:
        """Return all that is left, the second that has only begun as well."""
        self._turn(now)
        finished, self._finished = self._finished, []
        return finished

    def _at(self, key: TrafficKey, now: float) -> _Sums:
        if now >= self._ends:
            self._turn(now)
        sums = self._sums.get(key)
        if sums is None:
            sums = self._sums[key] = _Sums()
        return sums

    def _turn(self, now: float) -> None:
        told = self._told
        for key, sums in self._sums.items():
            known = told.get(key[:4])
            moved = known is None or known.position != sums.position
            told[key[:4]] = _Told(sums.position, self._tick)
            if sums.record_bytes or sums.omitted or moved or not key.in_sync:
                self._finished.append(
                    Traffic(
                        self._tick,
                        key,
                        sums.record_bytes,
                        sums.wire_bytes,
                        sums.fetches,
                        sums.omitted,
                        sums.position,
                    )
                )
        self._sums = {}
        before, self._tick = self._tick, max(self.tick_at(now), self._tick)
        self._ends = self._origin + self._tick + 1
        if before // IDLE_TICKS != self._tick // IDLE_TICKS:
            self._told = {key: last for key, last in told.items() if self._tick - last.tick <= IDLE_TICKS}

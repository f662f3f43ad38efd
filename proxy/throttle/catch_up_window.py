"""Bounds the catch-up beside records in sync, for which producers wait, so that followers come back in time.

A rate is looked at once a second, and a link that is full by a hundredth more has half a second of records in its queue
by then. A producer with acks=all waits for the follower's next fetch. So each fetch tells how long the follower took,
and the next grant is larger or smaller by it, as LEDBAT's window (RFC 6817) is by its delay. Of that time what was
granted is to blame for its share of the answer. Pure.

Invariant: `most_bytes` is `LEAST_BYTES` at least.
"""

from __future__ import annotations

import math

from .peer_delays import LEAST_PAUSE_RISE_SECONDS, tolerated_rise
from .replica import LEAST_NEED_BYTES

LEAST_BYTES = LEAST_NEED_BYTES // 4
"""A batch of the default size: 3.3 ms of 5 MB/s. With two, producers' p99 on such a link was up to 17 ms more than
it was to be (simulated, benchmarks/chosen_rates/simulated.py)."""
AIM = 0.4
"""`most_bytes` is lowered once what was granted made the follower's pause longer by more than this part of the rise
that is tolerated (`tolerated_rise`): 2 ms, or two fifths of the best pause."""
GROWTH = 1.1
"""`most_bytes` grows by this factor with each answer that was in time, if at least half of it was granted: seven such
answers double it."""
LEAST_CUT = 0.5
"""Two answers in a row that took long, for whatever reason, take away no more than half of `most_bytes`."""
BEST_KEPT_SECONDS = 60.0
"""The best time is that of the last one to two such periods. It is not kept for ever: once a route has become slower
for good, its times no longer count as long."""


class CatchUpWindow:
    """The bytes of catch-up allowed beside records in sync, on one connection."""

    __slots__ = ("_best_before", "_best_seconds", "_per_byte", "_since", "most_bytes")

    def __init__(self) -> None:
        self._best_seconds = self._best_before = math.inf
        self._since = -math.inf
        self._per_byte = 0.0
        """By how much longer than the best the last answer took, per byte."""
        self.most_bytes = float(LEAST_BYTES)

    def came_back(self, seconds: float, granted_bytes: float, size: float, now: float) -> None:
        """Take how long after an answer of `size` bytes began to go on its follower asks again. Of two times in a row
        the shorter counts, byte for byte: a machine with other work makes one late now and then."""
        if now - self._since >= BEST_KEPT_SECONDS:
            self._since, self._best_before, self._best_seconds = now, self._best_seconds, math.inf
        self._best_seconds = min(self._best_seconds, seconds)
        best = min(self._best_seconds, self._best_before)
        if not granted_bytes:
            return
        per_byte = (seconds - best) / max(size, granted_bytes)
        own = granted_bytes * min(per_byte, self._per_byte)
        self._per_byte = per_byte
        aim = AIM * tolerated_rise(best, LEAST_PAUSE_RISE_SECONDS)
        if own > aim:
            self.most_bytes = max(self.most_bytes * max(aim / own, LEAST_CUT), LEAST_BYTES)
        elif 2 * granted_bytes >= self.most_bytes:
            self.most_bytes *= GROWTH

"""How long a role's peers take, second by second: leaders to answer catch-up reads, followers to come back.

A sample costs the data path a subtraction and an append, and at most `MOST_SAMPLES` are kept until they are taken, once
a second. If many pauses are too long and few between them are not, `on_standing_queue` is called at once and not at the
next look. One second of long pauses is 3 % of a move of half a minute, so it alone would decide the producers' 99th
percentile. Pure: times are arguments. Invariant: no sample is kept once it was taken.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

MOST_SAMPLES = 256
"""The last so many."""
STANDING_PAUSES = 10
"""When so many pauses were too long, and few were not, the cause is a queue and not chance. At 300 fetches a second
this takes 30 ms. With 25, producers waited longer. With 8, a move took longer, because chance reached that number more
often (simulated, tests/proxy/rates/full_link.py)."""
SHORT_PAUSE_COUNTS = 3
"""A pause that is not too long weighs as much as so many that are: a machine with other work makes up to a third of
them late, and that is no queue."""
LEAST_ANSWER_RISE_SECONDS = 0.005
"""If a leader's answers take longer than at their best, but by less than this, that says nothing: the records may be
read from a disk or from memory."""
LEAST_PAUSE_RISE_SECONDS = 0.0015
"""The same for a follower's pause before its next fetch. No disk is in that pause, and producers with acks=all wait for
it two or three times. When 5 ms more were tolerated, the producers' median was 12 ms instead of 5, and the link stayed
full (measured, docs/benchmarks.md). On a full link of 20 MB/s the pause is 3 ms longer. Half of these 3 ms are due to
the least that catches up in one answer: 2 ms would have to be exceeded twice (simulated,
tests/proxy/rates/full_link.py)."""
TOLERATED_RISE = 1.0
"""How much longer than at its best something may take, as a part of its best time: it may take twice as long."""


def tolerated_rise(best_seconds: float, least_seconds: float) -> float:
    """Return how many seconds more than at its best something may take before catch-up hurts; `least_seconds` more it
    always may."""
    return max(best_seconds * TOLERATED_RISE, least_seconds)


class Timings:
    """Samples of one role's connections, while its rate is one with `auto`: no other rate is chosen by them."""

    __slots__ = (
        "_answers",
        "_too_long",
        "_turnarounds",
        "are_wanted",
        "most_pause_seconds",
        "on_standing_queue",
    )

    def __init__(self) -> None:
        self.are_wanted = False
        """A rate is chosen by these samples now, so connections that carry nothing throttled are timed as well."""
        self.most_pause_seconds = math.inf
        """A follower's pause may be so long before it counts as too long; whoever chooses the rate says it."""
        self.on_standing_queue: Callable[[], None] | None = None
        """Called when `STANDING_PAUSES` were too long."""
        self._answers: deque[float] = deque(maxlen=MOST_SAMPLES)
        self._turnarounds: deque[float] = deque(maxlen=MOST_SAMPLES)
        self._too_long = 0

    def answered(self, seconds: float) -> None:
        """A leader's answer with granted records begins, `seconds` after the request was decided."""
        self._answers.append(seconds)

    def came_back(self, seconds: float) -> None:
        """A follower has asked again, `seconds` after an answer with records of replicas in sync began to go on."""
        self._turnarounds.append(seconds)
        if seconds <= self.most_pause_seconds:
            self._too_long = max(self._too_long - SHORT_PAUSE_COUNTS, 0)
            return
        self._too_long += 1
        if self._too_long >= STANDING_PAUSES:
            self._too_long = 0
            if self.on_standing_queue is not None:
                self.on_standing_queue()

    def take_last_pauses(self) -> float | None:
        """Return the upper quartile of the last `STANDING_PAUSES` turnarounds, and forget all of them: those before
        the queue stood say nothing of it."""
        found = _upper_quartile(list(self._turnarounds)[-STANDING_PAUSES:])
        self._turnarounds.clear()
        return found

    def take(self) -> tuple[float | None, float | None]:
        """Return the median of answers and the upper quartile of turnarounds since the last call; None where there was
        nothing."""
        found = median(self._answers) if self._answers else None, _upper_quartile(self._turnarounds)
        self._answers.clear()
        self._turnarounds.clear()
        return found


class Turnaround:
    """Notes for one connection, which has one fetch on its way at a time, when the records of an answer began to go on.
    It counts only if some are of replicas in sync, listed or not: what catches up goes before these in the same answer
    and makes them wait."""

    __slots__ = ("_has_in_sync", "_since")

    def __init__(self) -> None:
        self._since: float | None = None
        self._has_in_sync = False

    def records_go_on(self, now: float, *, in_sync: bool) -> None:
        if self._since is None:
            self._since = now
        self._has_in_sync |= in_sync

    def take_since(self) -> float | None:
        """The follower asks again: return when its last answer's first records went on; None: none were in sync."""
        since = self._since if self._has_in_sync else None
        self._since, self._has_in_sync = None, False
        return since


def _upper_quartile(values: Collection[float]) -> float | None:
    """The upper quartile: it is as high for a link that is full for half of a second as for one that is full all the
    time, and a single slow fetch does not raise it."""
    return sorted(values)[3 * (len(values) - 1) // 4] if values else None

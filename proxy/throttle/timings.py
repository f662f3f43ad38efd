"""How long a role's peers take, second by second: leaders to answer catch-up reads, followers to come back.

A sample costs the data path a subtraction and an append, and at most `MOST_SAMPLES` are kept until they are taken, once
a second. Pure: times are arguments. Invariant: no sample is kept once it was taken.
"""

from __future__ import annotations

from statistics import median

MOST_SAMPLES = 256
LEAST_ANSWER_RISE_SECONDS = 0.005
"""A leader's answer that takes longer by less says nothing: what is read may be on a disk, or in memory."""
LEAST_PAUSE_RISE_SECONDS = 0.0015
"""The same of a follower's pause before its next fetch, which has no disk in it, and for which producers with acks=all
wait two or three times: where it might be 5 ms longer, their median was 12 ms instead of 5, and the link stayed full
(measured, docs/benchmarks.md). On a link of 20 MB/s that is full it is 3 ms longer, of which half are the least that
catches up in one answer: 2 ms would have to be exceeded twice (simulated, tests/proxy/rates/full_link.py)."""
TOLERATED_RISE = 1.0
"""Twice the best is as much as may be."""


def tolerated_rise(best_seconds: float, least_seconds: float) -> float:
    """Return how many seconds more than at its best something may take before catch-up hurts; `least_seconds` more it
    always may."""
    return max(best_seconds * TOLERATED_RISE, least_seconds)


class Timings:
    """Samples of one role's connections, while its rate is one that does not hurt (`auto`): no other goes by them."""

    __slots__ = ("_answers", "_turnarounds", "are_wanted")

    def __init__(self) -> None:
        self.are_wanted = False
        """A rate goes by them now: connections are timed too that carry nothing that is throttled."""
        self._answers: list[float] = []
        self._turnarounds: list[float] = []

    def answered(self, seconds: float) -> None:
        """A leader's answer with granted records begins, `seconds` after the request was decided."""
        if len(self._answers) < MOST_SAMPLES:
            self._answers.append(seconds)

    def came_back(self, seconds: float) -> None:
        """A follower has asked again, `seconds` after an answer with records of replicas in sync began to go on."""
        if len(self._turnarounds) < MOST_SAMPLES:
            self._turnarounds.append(seconds)

    def take(self) -> tuple[float | None, float | None]:
        """Return the median of answers and the upper quartile of turnarounds since the last call; None where there was
        nothing."""
        answers, self._answers = self._answers, []
        turnarounds, self._turnarounds = self._turnarounds, []
        return median(answers) if answers else None, _upper_quartile(turnarounds)


class Turnaround:
    """Of one connection, which has one fetch on its way at a time: when an answer with records of replicas in sync,
    listed or not, began to go on. What catches up goes before them in the same answer, and makes them wait."""

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


def _upper_quartile(values: list[float]) -> float | None:
    """Of a link that is full for half of a second it tells as much as of one that is full for all of it, and nothing of
    one slow fetch."""
    return sorted(values)[3 * (len(values) - 1) // 4] if values else None

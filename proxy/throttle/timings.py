"""How long a role's peers take, second by second: leaders to answer catch-up reads, followers to come back.

A sample costs the data path a subtraction and an append, and at most `MOST_SAMPLES` are kept until they are taken, once
a second. Pure: times are arguments. Invariant: no sample is kept once it was taken.
"""

from __future__ import annotations

from statistics import median

MOST_SAMPLES = 256


class Timings:
    """Samples of one role's connections."""

    __slots__ = ("_answers", "_turnarounds")

    def __init__(self) -> None:
        self._answers: list[float] = []
        self._turnarounds: list[float] = []

    def answered(self, seconds: float) -> None:
        """A leader's answer with granted records begins, `seconds` after the request was decided."""
        if len(self._answers) < MOST_SAMPLES:
            self._answers.append(seconds)

    def came_back(self, seconds: float) -> None:
        """A follower in sync has asked again, `seconds` after records went on to it."""
        if len(self._turnarounds) < MOST_SAMPLES:
            self._turnarounds.append(seconds)

    def take(self) -> tuple[float | None, float | None]:
        """Return the medians of answers and of turnarounds since the last call; None where there was nothing."""
        answers, self._answers = self._answers, []
        turnarounds, self._turnarounds = self._turnarounds, []
        return _median(answers), _median(turnarounds)


def _median(values: list[float]) -> float | None:
    return median(values) if values else None

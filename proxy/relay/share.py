"""What one connection has of the loop's time: that, not bytes, is what connections share.

A fetch of a thousand partitions costs a hundred times what a small one does, and bytes that are spliced cost next to
nothing. So a turn ends by the clock, and a connection that has had more than `EASY_SHARE` of a core lately goes on when
those that had less were served (Linux's interactive tasks, nginx's and HAProxy's budgets are the same thought).
Nobody is refused: what is left of the core is shared in turns.

Invariant: who used less than `EASY_SHARE` lately never waits in line.
"""

from __future__ import annotations

TURN_SECONDS = 0.001
"""The longest that a direction goes on while others may be waiting."""
SLICE_SECONDS = 0.0005
"""The longest that a Fetch of many partitions, or its answer, is worked on before others have their turn."""
LITTLE_SECONDS = 0.0002
"""Who had no more than this lately is served in any case before those who had more."""
EASY_SHARE = 0.03
"""Of a core: what a follower in sync takes that asks 400 times a second."""


class Share:
    """One per connection; both directions draw on it."""

    __slots__ = ("_ended", "_used")

    def __init__(self) -> None:
        self._used = 0.0
        """Seconds in excess of its easy share when its last turn ended: a leaky bucket."""
        self._ended = 0.0

    def used(self, began: float, ended: float) -> None:
        """A turn is over."""
        left = self._used - (began - self._ended) * EASY_SHARE
        self._used = (max(0.0, left)) + ended - began
        self._ended = ended

    def excess(self, now: float) -> float:
        """Seconds that it has had lately beyond its easy share; 0 or less: none."""
        return self._used - (now - self._ended) * EASY_SHARE

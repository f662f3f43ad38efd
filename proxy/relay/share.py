"""What one connection has of the loop's time: that, not bytes, is what connections share.

A fetch of a thousand partitions costs a hundred times what a small one does, and bytes that are spliced cost next to
nothing. So a turn ends by the clock, and a connection that has had more than `EASY_SHARE` of a core lately goes on when
those that had less were served (Linux's interactive tasks, nginx's and HAProxy's budgets are the same thought).
Nobody is refused: what is left of the core is shared in turns.

Nor is anybody easy before that is known: of a hundred connections a second that each come with much to do, each went
before a follower in sync otherwise, which waited for half a second. And the time is the core's, not the clock's: who
happens to be relayed when other processes have the cores for 20 ms has used none of them.

Invariant: who used less than `EASY_SHARE` lately never waits in line, but for the first moments of a connection.
"""

from __future__ import annotations

TURN_SECONDS = 0.001
"""The longest that a direction goes on while others may be waiting."""
SLICE_SECONDS = 0.0005
"""The longest that a Fetch of many partitions, or its answer, is worked on before others have their turn."""
LONG_SECONDS = 0.0005
"""Of a turn that is longer it is asked how much of it was ours."""
LITTLE_SECONDS = 0.0002
"""Who had no more than this lately is served in any case before those who had more, and for no longer than this where
many wait."""
MOST_SECONDS = 0.05
"""More is not held against anybody: who had the core alone for a minute would wait for half an hour otherwise."""
EASY_SHARE = 0.1
"""Of a core. A follower in sync that asks 400 times a second takes 0.03, three times that where others wear the caches
out; who is above it waits behind each newcomer that is not."""


class Share:
    """One per connection; both directions draw on it."""

    __slots__ = ("_ended", "_used")

    def __init__(self, now: float) -> None:
        self._used = MOST_SECONDS
        """Seconds in excess of its easy share when its last turn ended: a leaky bucket, full for a newcomer."""
        self._ended = now

    def used(self, began: float, ended: float, seconds: float) -> None:
        """A turn is over, of which it used so many seconds."""
        left = self._used - (began - self._ended) * EASY_SHARE
        self._used = min((max(0.0, left)) + seconds, MOST_SECONDS)
        self._ended = ended

    @property
    def rank(self) -> float:
        """Whose is lower has had less; while both wait that stays so, since what they had wears off alike."""
        return self._used + self._ended * EASY_SHARE

    def excess(self, now: float) -> float:
        """Seconds that it has had lately beyond its easy share; 0 or less: none."""
        return self._used - (now - self._ended) * EASY_SHARE

"""How much time of the poller's thread one connection has used lately, by which connections take their turns.

Time is shared, not bytes: a fetch of a thousand partitions costs a hundred times what a small one does, and bytes that
are spliced cost next to nothing. So a turn ends by the clock, and a connection that used more than `EASY_SHARE` of a
core lately goes on only after the connections that used less (Linux's interactive tasks, nginx's and HAProxy's budgets
are the same thought). No connection is refused: those above their easy share take the rest of the core in turns.

A new connection counts as one that used much, until its use is known. Otherwise each of a hundred new connections a
second, all with much to do, would be served before a follower in sync, which then waited for half a second.
Used time is time on a core, not time on the clock: a connection whose turn other processes interrupted for 20 ms did
not use those 20 ms.

Invariant: a connection that used less than `EASY_SHARE` lately never waits in line, except in its first moments.
"""

from __future__ import annotations

TURN_SECONDS = 0.0003
"""The longest that a direction goes on while others may be waiting. A fetch of a follower in sync waits for the turn of
another twice, there and back: beside eight greedy connections its median was 2.1 to 2.4 ms where a turn was 1 ms long,
1.0 to 1.2 where it is 0.3, and 0.9 without them; the greedy took no less (`benchmarks.beside_greedy`)."""
SLICE_SECONDS = 0.0002
"""The longest that a Fetch of many partitions, or its answer, is worked on before others have their turn."""
LONG_SECONDS = 0.0005
"""For a turn that took longer than this the kernel is asked how much of it this thread had a core."""
LITTLE_SECONDS = 0.0002
"""The sockets that are ready together are served in one round. Once a round has taken as long as a turn, a connection
is still served at once if it used no more than this above its easy share, and for no longer than this. All others wait
in line."""
MOST_SECONDS = 0.05
"""The most that is remembered of what a connection used. Without a limit, a connection that had the core alone for a
minute would wait in line for the next ten minutes."""
EASY_SHARE = 0.1
"""The share of one core that a connection may use without waiting in line. A follower in sync that fetches 400 times a
second uses 0.03, and three times as much while other connections push its data out of the processor's caches."""


class Share:
    """What one connection used lately, in both directions together."""

    __slots__ = ("_ended", "_used")

    def __init__(self, now: float) -> None:
        self._used = MOST_SECONDS
        """Seconds used above the easy share when the last turn ended: a leaky bucket, full for a new connection."""
        self._ended = now

    def used(self, began: float, ended: float, seconds: float) -> None:
        """A turn from `began` to `ended` is over, in which the connection had a core for `seconds`."""
        left = self._used - (began - self._ended) * EASY_SHARE
        used = left + seconds if left > 0.0 else seconds
        self._used = used if used < MOST_SECONDS else MOST_SECONDS
        self._ended = ended

    @property
    def rank(self) -> float:
        """The connection with the lower rank used less lately. The order of two waiting connections never changes,
        since what both used wears off equally fast."""
        return self._used + self._ended * EASY_SHARE

    def excess(self, now: float) -> float:
        """Seconds that the connection used lately above its easy share; 0 or less: it is within its share."""
        return self._used - (now - self._ended) * EASY_SHARE

"""Whose turn it is: fairness between the connections that share one role's budget.

Least attained service first: of the connections that want throttled bytes, the one that has had the fewest
goes next. A connection that is away (its fetch waits at the broker for its in-sync partitions) keeps its place,
but is waited for no longer than `GRACE_SECONDS`, which is less than the bucket's burst: waiting loses no tokens.

Pure; knows nothing of partitions (they take turns inside a connection, see `replica`) nor of bytes per second.
Invariant: between two connections that always want more, attained bytes differ by at most one grant.
"""

from __future__ import annotations

from dataclasses import dataclass

GRACE_SECONDS = 0.05
"""Half a default gate: longer than a fetch's way back on a busy host, shorter than burst minus gate."""


@dataclass(slots=True, eq=False)
class Claim:
    """One connection's place in the line."""

    attained_bytes: float = 0.0
    wants: bool = False
    due: float = 0.0
    """When this connection is expected to ask again."""


class Turns:
    """The claims of all connections of one role."""

    __slots__ = ("_claims", "_last_grant_bytes", "_level_bytes")

    def __init__(self) -> None:
        self._claims: list[Claim] = []
        self._level_bytes = 0.0
        """What the claims had attained when they were served: the most of them, so it only grows."""
        self._last_grant_bytes = 0.0

    def join(self) -> Claim:
        claim = Claim()
        self._claims.append(claim)
        return claim

    def leave(self, claim: Claim) -> None:
        self._claims.remove(claim)

    def ask(self, claim: Claim) -> None:
        """`claim` wants bytes. One that wanted none until now starts level with those that wait or were served,
        and one that waits is behind by a grant at most: what nobody kept from it, it cannot catch up on."""
        if claim.wants:
            level_bytes = self._level_bytes - self._last_grant_bytes
        else:
            waiting = [other.attained_bytes for other in self._claims if other.wants]
            level_bytes = max(self._level_bytes, min(waiting, default=0.0))
        claim.attained_bytes = max(claim.attained_bytes, level_bytes)
        claim.wants = True

    def serve(self, claim: Claim, size: float) -> None:
        """`claim` is granted `size` bytes."""
        self._level_bytes = max(self._level_bytes, claim.attained_bytes)
        self._last_grant_bytes = size
        claim.attained_bytes += size

    def ahead_of(self, claim: Claim, now: float) -> int:
        """Return how many connections go first: less served, and here or expected any moment."""
        return sum(
            1
            for other in self._claims
            if other.wants and other.attained_bytes < claim.attained_bytes and abs(other.due - now) <= GRACE_SECONDS
        )

    def rank(self, claim: Claim) -> int:
        """Return how many connections that want bytes were served less, here or not."""
        return sum(1 for other in self._claims if other.wants and other.attained_bytes < claim.attained_bytes)

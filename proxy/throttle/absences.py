"""Replicas that their follower leaves out of its requests, because it throttles them, natively or by its own sidecar.

What was known of a replica is kept for a while: if its follower asks for it again soon, that still tells whether the
replica is behind. Pure.

Invariant: a replica that was left out for `ABSENCE_SECONDS` is forgotten, at the latest by the next request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from protocol.session.requests import PartitionKey

    from .replica import Replica

ABSENCE_SECONDS = 10.0
"""A partition that was left out for longer counts as new when it is asked for again."""


class Absences:
    """The replicas that one connection's follower leaves out."""

    __slots__ = ("missing",)

    def __init__(self) -> None:
        self.missing: dict[PartitionKey, tuple[Replica, float]] = {}
        """Each replica with the time of the last request that asked for it."""

    def __len__(self) -> int:
        return len(self.missing)

    def clear(self) -> None:
        self.missing.clear()

    def begin(self, keys: Collection[PartitionKey], known: Mapping[PartitionKey, Replica], since: float) -> None:
        """The follower has left these out of a request; it asked for them last at `since`."""
        for key in keys:
            self.missing[key] = (known[key], since)

    def end(self, key: PartitionKey, now: float) -> Replica | None:
        """The follower asks for this one again: return what is known of it, None if that is too old or nothing."""
        replica, since = self.missing.pop(key, (None, now))
        return None if now - since >= ABSENCE_SECONDS else replica

    def forget_old(self, now: float) -> None:
        for key in [key for key, (_, since) in self.missing.items() if now - since >= ABSENCE_SECONDS]:
            del self.missing[key]

    def within(self, seconds: float, now: float) -> list[Replica]:
        """Return the replicas that have been left out for less than `seconds`."""
        return [replica for replica, since in self.missing.values() if now - since < seconds]

"""Replicas that are missing from their follower's requests: it throttles them, natively or by a sidecar of its own.

What was known of them still tells whether they are behind, when they come back soon. Pure.

Invariant: what has been missing for `ABSENCE_SECONDS` is forgotten, at the latest by the next request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.pacing import paced

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from protocol.session.requests import PartitionKey

    from .replica import Replica

ABSENCE_SECONDS = 10.0
"""A partition missing from requests for longer is met anew."""


class Absences:
    """Of one connection."""

    __slots__ = ("missing",)

    def __init__(self) -> None:
        self.missing: dict[PartitionKey, tuple[Replica, float]] = {}
        """Each with the time since when."""

    def __len__(self) -> int:
        return len(self.missing)

    def clear(self) -> None:
        self.missing.clear()

    def begin(self, keys: Collection[PartitionKey], known: Mapping[PartitionKey, Replica], since: float) -> None:
        """These were asked for last then."""
        for key in paced(keys):
            self.missing[key] = (known[key], since)

    def end(self, key: PartitionKey, now: float) -> Replica | None:
        """It is asked for again; what was known of it, if that is not too long ago."""
        replica, since = self.missing.pop(key, (None, now))
        return None if now - since >= ABSENCE_SECONDS else replica

    def forget_old(self, now: float) -> None:
        for key in [key for key, (_, since) in paced(self.missing.items()) if now - since >= ABSENCE_SECONDS]:
            del self.missing[key]

    def within(self, seconds: float, now: float) -> list[Replica]:
        """Those that have been missing for less than that."""
        return [replica for replica, since in self.missing.values() if now - since < seconds]

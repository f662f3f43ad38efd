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

    __slots__ = ("_missing",)

    def __init__(self) -> None:
        self._missing: dict[PartitionKey, tuple[Replica, float]] = {}

    def __len__(self) -> int:
        return len(self._missing)

    def clear(self) -> None:
        self._missing.clear()

    def begin(self, keys: Collection[PartitionKey], known: Mapping[PartitionKey, Replica], since: float) -> None:
        """These were asked for last then."""
        for key in paced(keys):
            self._missing[key] = (known[key], since)

    def end(self, key: PartitionKey, now: float) -> Replica | None:
        """It is asked for again; what was known of it, if that is not too long ago."""
        if not self._missing:
            return None
        replica, since = self._missing.pop(key, (None, now))
        return None if now - since >= ABSENCE_SECONDS else replica

    def forget_old(self, now: float) -> None:
        if self._missing:
            for key in [key for key, (_, since) in paced(self._missing.items()) if now - since >= ABSENCE_SECONDS]:
                del self._missing[key]

    def within(self, seconds: float, now: float) -> list[Replica]:
        """Those that have been missing for less than that."""
        return [replica for replica, since in self._missing.values() if now - since < seconds]

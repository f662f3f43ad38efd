"""Quotas that came over HTTP where the file cannot be written: it is mounted from a ConfigMap, and shows them later.

A kubelet brings a ConfigMap's change within a minute or so, and may bring an older one before it. So what was pushed
holds until the mount shows it, or shows something that nobody told was older: then the mount, which is what everybody
can see, has the last word, and that is said. Pure: time is an argument, of a clock that nobody sets: what is asked
for is an age.

Invariant: an older file never takes the place of newer quotas without a log line; what the mount shows at last, holds.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..quotas import QuotaFile

MOST_OLDER = 64
LATE_SECONDS = 600.0
"""A kubelet needs its sync period and its cache's delay, two minutes together by default."""


class Pushed(NamedTuple):
    content: bytes
    quota_file: QuotaFile
    since: float
    """By the clock that `is_late` is asked with."""


class Verdict(enum.Enum):
    """What is to be made of a file that was read."""

    HOLDS = "holds"
    """Nothing was pushed: it is as if there were no HTTP."""
    IS_OLDER = "is_older"
    """What was pushed goes on."""
    CAUGHT_UP = "caught_up"
    """It shows what was pushed, which is forgotten now."""
    REPLACES = "replaces"
    """It shows something else: what was pushed is forgotten."""


class PushedQuotas:
    """Of one file."""

    def __init__(self) -> None:
        self.current: Pushed | None = None
        self._older: dict[str, None] = {}
        """Hashes, the oldest first."""

    def push(self, pushed: Pushed, older: Iterable[str]) -> None:
        """Take new quotas; files with the hashes `older` are known to be from before them."""
        if self.current is not None:
            self._older[self.current.quota_file.hash] = None
        for each in older:
            self._older[each] = None
        self._older.pop(pushed.quota_file.hash, None)
        for each in list(self._older)[:-MOST_OLDER]:
            del self._older[each]
        self.current = pushed

    def look(self, hash: str) -> Verdict:  # noqa: A002 - what it is called everywhere
        """A file with this hash was read. Forgets what was pushed unless that goes on."""
        if self.current is None:
            return Verdict.HOLDS
        if hash in self._older:
            return Verdict.IS_OLDER
        caught_up = hash == self.current.quota_file.hash
        self.current = None
        self._older.clear()
        return Verdict.CAUGHT_UP if caught_up else Verdict.REPLACES

    def is_late(self, now: float) -> bool:
        """The mount should have shown it by now."""
        return self.current is not None and now - self.current.since >= LATE_SECONDS

"""Quotas that came over HTTP where the file cannot be written: it is mounted from a ConfigMap, and shows them later.

A kubelet shows a change of a ConfigMap within a minute or so, and may show an older one before it. So quotas that were
pushed hold until the mount shows them, or shows something that nobody called older. Then the mount has the last word,
since it is what everybody can see, and the log says so. Pure: time is an argument, of a clock that is never set, since
only ages are asked for.

Invariant: an older file never replaces newer quotas without a log line, and in the end what the mount shows holds.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..quotas import QuotaFile

MOST_OLDER = 64
LATE_SECONDS = 600.0
"""If the mount does not show pushed quotas after this long, something is wrong: a kubelet needs its sync period and its
cache's delay, together two minutes by default."""


class Pushed(NamedTuple):
    content: bytes
    quota_file: QuotaFile
    since: float
    """By the clock that `is_late` is asked with."""


class Verdict(enum.Enum):
    """What is to be made of a file that was read."""

    HOLDS = "holds"
    """Nothing was pushed, so the file holds."""
    IS_OLDER = "is_older"
    """The file is older than what was pushed, which goes on holding."""
    CAUGHT_UP = "caught_up"
    """The file shows what was pushed, which is forgotten now."""
    REPLACES = "replaces"
    """The file shows something else and holds; what was pushed is forgotten."""


class PushedQuotas:
    """Of one file."""

    def __init__(self) -> None:
        self.current: Pushed | None = None
        self._older: dict[str, None] = {}
        """Hashes of files from before what was pushed, the oldest first."""

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
        """Judge a file with this hash, which was read. What was pushed is forgotten, unless the file is older."""
        if self.current is None:
            return Verdict.HOLDS
        if hash in self._older:
            return Verdict.IS_OLDER
        caught_up = hash == self.current.quota_file.hash
        self.current = None
        self._older.clear()
        return Verdict.CAUGHT_UP if caught_up else Verdict.REPLACES

    def is_late(self, now: float) -> bool:
        """Whether the mount should have shown what was pushed by now."""
        return self.current is not None and now - self.current.since >= LATE_SECONDS

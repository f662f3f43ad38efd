"""Since when the file says what counts from a start: ``within = "2h"`` ends two hours after it was first read.

A start is kept as long as the same section says the same `within`, whatever else of the file changes, and beside the
last good quotas (`config.last_good`), so that a restart does not begin it anew. Pure; time is an argument.
Invariant: there is a start for each such source of the file that was taken last, and no other. When a start is read or
taken, it is never later than `now`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .rate_source import RateSource


class RateStarts:
    """Of one file."""

    def __init__(self, kept: Mapping[str, float]) -> None:
        """`kept`: what `kept` was when the process before ended."""
        self.kept = dict(kept)
        """Seconds since 1970 by the source's `start_key`."""

    def take(self, keys: Iterable[str], now: datetime) -> None:
        """A file with these `start_keys` is in force from `now` on."""
        moment = now.timestamp()
        self.kept = {key: min(self.kept.get(key, moment), moment) for key in keys}

    def of(self, source: RateSource, now: datetime) -> datetime:
        """Return when the source was first taken; `now` if the file does not have it, or if it has no `within`."""
        key = source.start_key
        if key is None or key not in self.kept:
            return now
        if self.kept[key] > now.timestamp():
            # The clock has been set back since: a span that is to come has not begun yet, and would never end.
            self.kept[key] = now.timestamp()
        return datetime.fromtimestamp(self.kept[key], UTC)

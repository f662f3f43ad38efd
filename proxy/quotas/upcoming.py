"""What the quotas of one broker will be: the changes ahead, by `until`.

Pure; time is an argument. Invariant: each change told is one that traffic meets. The end of a section that says only
what holds anyway is not told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .rules import effective

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from .rules import Quotas
    from .sections import QuotaFile

MOST_MOMENTS = 100
"""The most moments at which something could change that are looked at."""


class Change(NamedTuple):
    at: datetime
    before: Quotas
    after: Quotas


def changes_ahead(
    quota_file: QuotaFile, broker_id: int, now: datetime, *, moments: int = MOST_MOMENTS
) -> Iterator[Change]:
    """In order of time, worked out as they are asked for."""
    before = effective(quota_file, broker_id, now)
    at = before.next_change
    for _ in range(moments):
        if at is None:
            return
        after = effective(quota_file, broker_id, at)
        if not after.means_the_same_as(before):
            yield Change(at, before, after)
            before = after
        at = after.next_change

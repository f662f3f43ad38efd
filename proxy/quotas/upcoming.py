"""What the quotas of one broker will be: the changes ahead, by `until` and by schedule.

Pure; time is an argument. Invariant: each change told is one that traffic meets. A schedule that begins and says only
what holds already is not told.
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
"""How many moments at which something could change are looked at: a week of seven schedules."""


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

"""The deadline of a move, as ``plan --finish-by`` takes it, and whether the move can meet it.

Pure: time is an argument. Invariant: a date that has passed is refused before anything is changed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from proxy.errors import ConfigurationError, InvalidValueError
from proxy.quotas.rate_source import parse_rate_or_source

from ..quota_words import format_distance, format_duration, format_time

if TYPE_CHECKING:
    from datetime import datetime

    from proxy.quotas.rate_source import Deadline

    from .planning import MovePlan


def deadline_to_come(finish_by: str | None, most: float | None, now: datetime) -> Deadline | None:
    """Return the deadline that ``--finish-by`` names; None without it, or without `most` (the most that the rate may
    be). Raises ConfigurationError if the time cannot be read or has passed, or if `most` is no rate to end anything."""
    if finish_by is None or most is None:
        return None
    if int(most) <= 0:
        raise ConfigurationError(f"--rate: with --finish-by it has to be above 0, found {most:g}")
    try:
        _, source = parse_rate_or_source({"finish_by": finish_by, "max": int(most)})
    except InvalidValueError as error:
        raise ConfigurationError(f"--finish-by: {error}") from error
    if source is None or source.deadline is None:
        raise AssertionError("a table with finish_by is a rate source with a deadline")
    if source.deadline.at is not None and source.deadline.at <= now:
        # A date of last year is a dangerous slip: after the deadline, catch-up goes at the highest rate.
        found = f"found {finish_by} (it is {now:%Y-%m-%dT%H:%M:%SZ})"
        raise ConfigurationError(f"--finish-by: expected a time to come, {found}")
    return source.deadline


def about_deadline(plan: MovePlan, deadline: Deadline | None, now: datetime) -> list[str]:
    """Say whether the move ends in time if its rate is the most that it may be all the time."""
    if deadline is None or not plan.rates:
        return []
    moment, seconds = deadline.moment(now), plan.total_seconds
    by = f"to be over by {format_time(moment)} ({format_distance(moment, now)})"
    if math.isnan(seconds):
        return [f"{by}; how long it takes at the full rate is not known"]
    left = (moment - now).total_seconds()
    if seconds > left:
        takes = "it never ends" if math.isinf(seconds) else f"it takes {format_duration(seconds)}"
        return [f"warning: {by}, and even at the full rate {takes}, so it will be late"]
    return [f"{by}; at the full rate it takes {format_duration(seconds)}, the sidecars find the least that will do"]

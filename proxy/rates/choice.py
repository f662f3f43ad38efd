"""The values that a rate is chosen from, and the choice.

Pure. Invariant: a choice lies between the bounds of its rate source.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from .signals import Reading


class HeldBy(enum.StrEnum):
    """Reason for which a rate is not higher. The value is the metric label `held_by`."""

    DEADLINE = "deadline"
    """The lowest rate that meets the deadline."""
    LEAST = "min"
    """The lowest rate still meets the deadline."""
    MOST = "max"
    """The highest rate is needed to meet the deadline, or nothing speaks against it."""
    NOTHING_BEHIND = "nothing_behind"
    LAG_UNKNOWN = "lag_unknown"
    """The lag is unknown in bytes."""
    PASSED = "deadline_passed"
    """The deadline has passed: replicas that are behind catch up as fast as they can."""
    FULL = "full"
    """The link carries no more, or no more is wanted."""
    NOTHING = "nothing"
    """The rate is being raised, or not all of it is used."""


class Observed(NamedTuple):
    """A sample of a role. Bytes per second are as its quota counts them."""

    behind: int = 0
    """The number of replicas that are behind."""
    lag_messages: int = 0
    lag_bytes: float | None = 0.0
    """The bytes that they are behind; None: there is a lag, and nothing says how large messages are."""
    growth_bytes_per_second: float = 0.0
    """The bytes per second that producers add to replicas that are behind."""
    in_sync_bytes_per_second: float = 0.0
    """The bytes per second of the quota that replicas in sync take."""
    fresh: bool = True
    """False for an older look: the last failed or takes long."""
    used_bytes_per_second: float = 0.0
    """The bytes per second that went through since the last look."""
    carried_bytes_per_second: float = 0.0
    """The bytes per second that were sent to the role's brokers in all since the last look."""
    readings: Sequence[Reading] = ()
    """The signals that say whether it hurts."""


class Choice(NamedTuple):
    """The rate of a role from now on."""

    bytes_per_second: float
    held_by: str
    """The reason why the rate is no higher: one of `HeldBy`, or a signal."""
    words: str
    """The reason in words, for people."""
    finish_by: datetime | None = None
    """The deadline in UTC; None: there is none."""
    needed_bytes_per_second: float | None = None
    """The rate that meets the deadline; None: there is no deadline, or it is unknown."""
    late: bool = False
    """True if the deadline will be missed, or was."""
    lag_bytes: float | None = 0.0
    signal: str | None = None
    """The signal that keeps a rate that does not hurt from being more; None: nothing does, or it is another rate."""
    auto: bool = False
    """True if the rate was chosen by signals, or the deadline's need was its floor."""
    may_hurt: bool = False
    """True if the deadline needs the rate, which is more than signals allow."""

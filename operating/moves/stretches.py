"""Rates that follow one another, and how long a share of a move takes by them. Pure arithmetic; knows no file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from reassignment import Load


class Stretch(NamedTuple):
    """From `begins`, seconds from now, a rate holds; infinite: nothing is throttled."""

    begins: float
    bytes_per_second: float


class Part(NamedTuple):
    """A part of a broker's share that has a rate of its own inside the broker's.

    name: of what it is, ``peer 103`` or ``topic orders``.
    load: of this part alone.
    first: from when it has its own rate, and which.
    stretches: what it may have at any time.
    """

    name: str
    load: Load
    first: Stretch
    stretches: tuple[Stretch, ...]


def seconds_by(stretches: tuple[Stretch, ...], load: Load) -> float:
    """Return how long a load takes; infinity if it never ends, NaN if it goes on into a time in which nothing is
    throttled."""
    left = float(load.move_bytes)
    if not left:
        return 0.0
    ends = [*(stretch.begins for stretch in stretches[1:]), math.inf]
    for (begins, rate), end in zip(stretches, ends, strict=True):
        if math.isinf(rate):
            return math.nan
        gain = rate - load.written_bytes_per_second
        if gain > 0 and left / gain <= end - begins:
            return begins + left / gain
        if math.isinf(end):
            return math.inf
        left -= gain * (end - begins)
    return math.inf

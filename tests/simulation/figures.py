"""What a simulated cluster is judged by: the worst window, how equal the shares are, how long anybody had nothing."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .world import Arrival, Connection


def worst_window(arrivals: Iterable[Arrival], seconds: float) -> int:
    """Record bytes in the fullest window of so many seconds, wherever it begins."""
    window: deque[Arrival] = deque()
    total = most = 0
    for each in sorted(arrivals):
        window.append(each)
        total += each.size
        while window[0].at <= each.at - seconds:
            total -= window.popleft().size
        most = max(most, total)
    return most


def jain(shares: Iterable[float]) -> float:
    """Fairness: 1 if all are equal, 1/n if one of n has everything."""
    found = list(shares)
    squares = sum(each * each for each in found)
    return sum(found) ** 2 / (len(found) * squares) if squares else 0.0


def longest_silence(made: Connection, begin: float, end: float) -> float:
    """Seconds in which nothing came for one of the partitions that catch up, the worst of them."""
    last = {key: begin for key in made.wants if key not in made.live}
    most = 0.0
    for each in made.arrivals:
        if each.key in last and begin <= each.at < end:
            most = max(most, each.at - last[each.key])
            last[each.key] = each.at
    return max([most, *(end - at for at in last.values())])

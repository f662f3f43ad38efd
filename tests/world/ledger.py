"""What the world saw: record bytes where they left a leader's host, and where they reached their reader.

Judges and figures read it; nothing of the product writes it. The trace is one hash of all of it.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from protocol.session.requests import PartitionKey


class Passed(NamedTuple):
    """Record bytes of one partition in one answer. `in_sync`: asked for at or beyond the high watermark told last."""

    at: float
    reader: str
    follower: int
    leader: int
    key: PartitionKey
    size: int
    in_sync: bool = False

    @property
    def topic(self) -> str:
        return self.key[0].decode().rstrip("-") if isinstance(self.key[0], bytes) else self.key[0]


@dataclass
class Ledger:
    departures: list[Passed] = field(default_factory=list)
    """Where they leave the leader's host, which is where a leader's quota is to hold."""
    arrivals: list[Passed] = field(default_factory=list)
    """Where they reach their reader, behind the follower's sidecar."""
    wrong: list[str] = field(default_factory=list)
    """What no judge has to work out: bytes that are not the leader's, frames that no peer may see, internal errors."""
    faults: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """The faults that really happened, for coverage."""
    _trace: Any = field(default_factory=hashlib.sha256)

    def noted(self, *what: object) -> None:
        self._trace.update(repr(what).encode())

    def depart(self, passed: Passed) -> None:
        self.departures.append(passed)
        self.noted(passed)

    def arrive(self, passed: Passed) -> None:
        self.arrivals.append(passed)
        self.noted(passed)

    def complain(self, at: float, text: str) -> None:
        self.wrong.append(f"{at:.3f}: {text}")
        self.noted(self.wrong[-1])

    @property
    def trace(self) -> str:
        return str(self._trace.hexdigest()[:16])


def rates(
    passed: Iterable[Passed], begin: float, end: float, by: Callable[[Passed], Any] = lambda each: each.reader
) -> dict[Any, float]:
    """Return bytes per second of each, those behind alone."""
    found: dict[Any, float] = defaultdict(float)
    for each in passed:
        if begin <= each.at < end and not each.in_sync:
            found[by(each)] += each.size / (end - begin)
    return dict(found)


def worst_window(passed: Iterable[Passed], seconds: float) -> int:
    """Return the record bytes in the fullest window of so many seconds, wherever it begins."""
    window: deque[Passed] = deque()
    total = most = 0
    for each in sorted(passed):
        window.append(each)
        total += each.size
        while window[0].at <= each.at - seconds:
            total -= window.popleft().size
        most = max(most, total)
    return most

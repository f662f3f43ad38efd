"""Figures of a move, from what the taps saw. Pure.

All windows slide: the worst one is found exactly, not only among windows that begin at full seconds. A window is half
open: two events that are exactly one second apart are not in the same second.
Invariant: every event inside the range counts once in the mean and in each window that covers it.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SHORT_WINDOW_SECONDS = 1.0
LONG_WINDOW_SECONDS = 11.0
"""The length of KIP-73's window: 11 samples of one second."""


class Asked(NamedTuple):
    """A replica's Fetch request, as it arrived."""

    t: float
    leader: int
    follower: int
    version: int
    size_bytes: int = 0
    """The size on the wire."""


class Answer(NamedTuple):
    """A Fetch response, as its last byte arrived."""

    t: float
    leader: int
    follower: int
    version: int
    partitions: tuple[tuple[str, int, int], ...]
    """The triples (topic, partition, record bytes) of entries with records."""
    error_code: int = 0
    """The error code of the whole response (v7+), such as 70: the fetch session is unknown."""
    session_id: int = 0
    """The fetch session (v7+); 0: the follower has none with this leader."""
    size_bytes: int = 0
    """The size on the wire, records included."""


Sample = Asked | Answer


class Event(NamedTuple):
    """The bytes that arrived at one time (seconds, any monotonic clock)."""

    t: float
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Rates in bytes per second.

    mean: all bytes over the time from `start` to the last byte. worst_second, worst_window: the largest sum
    in any 1 s and any 11 s, per second. first_second: bytes of the second that begins with the first byte.
    deviation: standard deviation of the whole seconds between the first and the last. A range shorter than
    three bins has deviation 0. seconds_to_first: from `start` to the first byte.
    """

    total_bytes: int
    duration_seconds: float
    mean: float
    worst_second: float
    worst_window: float
    first_second: float
    deviation: float
    seconds_to_first: float = 0.0


def events(
    samples: Iterable[Sample], *, topic: str, follower: int | None = None, leader: int | None = None
) -> list[Event]:
    """Return the record bytes of one topic, in time order; optionally of one link end only."""
    found = []
    for sample in samples:
        if not isinstance(sample, Answer):
            continue
        if follower not in (None, sample.follower) or leader not in (None, sample.leader):
            continue
        size = sum(size for name, _, size in sample.partitions if name == topic)
        if size:
            found.append(Event(sample.t, size))
    return sorted(found)


def within(found: Iterable[Event], start: float, end: float) -> list[Event]:
    """Return the events of the half-open time range."""
    return [event for event in found if start <= event.t < end]


def figures(found: Sequence[Event], *, start: float) -> Figures:
    """Return the figures of time-ordered events; the clock of the mean starts at `start`.

    Raises:
        ValueError: there are no events, or the first came before the start.
    """
    if not found or found[0].t < start:
        raise ValueError("expected at least one event, none of them before the start")
    total = sum(event.size_bytes for event in found)
    duration = found[-1].t - start
    first = found[0].t
    return Figures(
        total_bytes=total,
        duration_seconds=duration,
        mean=total / duration if duration > 0 else float("inf"),
        worst_second=worst_window(found, SHORT_WINDOW_SECONDS) / SHORT_WINDOW_SECONDS,
        worst_window=worst_window(found, LONG_WINDOW_SECONDS) / LONG_WINDOW_SECONDS,
        first_second=float(sum(e.size_bytes for e in within(found, first, first + SHORT_WINDOW_SECONDS))),
        deviation=deviation(found),
        seconds_to_first=first - start,
    )


def worst_window(found: Sequence[Event], seconds: float) -> int:
    """Return the largest sum of bytes in any window of this length; two pointers, exact."""
    worst = inside = tail = 0
    for event in found:
        inside += event.size_bytes
        while found[tail].t <= event.t - seconds:
            inside -= found[tail].size_bytes
            tail += 1
        worst = max(worst, inside)
    return worst


def deviation(found: Sequence[Event]) -> float:
    """Return the population standard deviation of the 1 s bins from the first byte on; first and last bin excluded."""
    bins = seconds_bins(found)[1:-1]
    return statistics.pstdev(bins) if len(bins) > 1 else 0.0


def seconds_bins(found: Sequence[Event]) -> list[int]:
    """Return the bytes per second, counted from the first event; silent seconds are zeros."""
    if not found:
        return []
    first = found[0].t
    bins = [0] * (int(found[-1].t - first) + 1)
    for event in found:
        bins[int(event.t - first)] += event.size_bytes
    return bins


def fetches_per_second(samples: Iterable[Sample], *, start: float, end: float, follower: int | None = None) -> float:
    """Return the replica Fetch requests that arrived in the half-open range, per second."""
    if end <= start:
        return 0.0
    asked = sum(
        isinstance(sample, Asked) and start <= sample.t < end and follower in (None, sample.follower)
        for sample in samples
    )
    return asked / (end - start)


def fetch_versions(samples: Iterable[Sample]) -> dict[int, int]:
    """Count requests by Fetch version, as seen on the wire."""
    counts: dict[int, int] = {}
    for sample in samples:
        if isinstance(sample, Asked):
            counts[sample.version] = counts.get(sample.version, 0) + 1
    return counts

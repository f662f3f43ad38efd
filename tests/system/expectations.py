"""What every interfered-with move is held to: nothing lost, nothing complained about, the quota kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.measuring.figures import LONG_WINDOW_SECONDS, SHORT_WINDOW_SECONDS, worst_window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.measuring.figures import Event
    from lab.moves.open_move import OpenMove, Outcome

WORST_SECOND, WORST_WINDOW = 1.3, 1.05
EFFECT_SECONDS = 0.25
"""A change of quotas.toml is on the wire within this."""
FIRST_CONTACT_BYTES = 128 * 1024
"""A connection that knows no high watermarks yet gets a batch of the first partition (16 KiB here) and at most a
gate (64 KiB, or 100 ms of the quota) that a fresh bucket begins with; twice that for one that begins twice."""


def assert_intact(outcome: Outcome) -> None:
    assert outcome.equal, outcome.comparisons
    assert outcome.lines == []


def assert_kept(found: Sequence[Event], quota: float, *, extra_bytes: int = 0) -> None:
    """The events of one throttling broker keep to its quota in every second and every 11 seconds."""
    second = worst_window(found, SHORT_WINDOW_SECONDS)
    window = worst_window(found, LONG_WINDOW_SECONDS)
    assert second <= WORST_SECOND * quota + extra_bytes, f"worst second {second / quota:.3f} of the quota"
    most = WORST_WINDOW * quota * LONG_WINDOW_SECONDS + extra_bytes
    assert window <= most, f"worst 11 seconds {window / quota / LONG_WINDOW_SECONDS:.3f} of the quota"


def assert_all_kept(move: OpenMove, start: float, end: float, quota: float, *, extra_bytes: int = 0) -> None:
    """Each broker that throttles keeps to the quota in the range."""
    for role in move.move.roles:
        for broker in move.move.leaders if role == "leader" else move.move.followers:
            ends = {role: broker}
            assert_kept(move.moved(start, end, **ends), quota, extra_bytes=extra_bytes)


def ratios(found: Sequence[Event], quota: float) -> dict[str, float]:
    """Worst second and worst 11 seconds over the quota, for the record."""
    windows = {"worst second": SHORT_WINDOW_SECONDS, "worst 11 seconds": LONG_WINDOW_SECONDS}
    return {name: round(worst_window(found, span) / span / quota, 3) for name, span in windows.items()}


def mean(found: Sequence[Event], start: float, end: float) -> float:
    """Bytes per second of the events in the range."""
    return sum(event.size_bytes for event in found if start <= event.t < end) / (end - start)

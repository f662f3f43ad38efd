"""Backtests: what the model and `plan` would have predicted of the recorded moves, beside what was recorded.

Pure, over a row per pair of brokers. Invariant: everything that the recording can be compared with is tested, also
where the error is large. What cannot be tested is counted by its reason.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from reassignment import Deadline, Load

from .duration_curve import busy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reassignment import RoleName

    from .broker_pairs import Pair
    from .duration_curve import Recorded

ROLES: tuple[RoleName, ...] = ("leader", "follower")
MIN_SECONDS = 10
"""The shortest move that is tested. Journals count in whole seconds, so a shorter move's duration is too inexact."""
HELD = 0.5
"""The least part of a move's time in which the quota must have set the pace. `plan` says which quota ends a move in
time; if something else set the pace, the recorded time says nothing about that."""


class Tested(NamedTuple):
    """said: the seconds that the model said, or the bytes per second that `plan` said. was: what was recorded."""

    what: str
    said: float
    was: float

    @property
    def error(self) -> float:
        return self.said / self.was - 1


class BackTest(NamedTuple):
    """left_out: for each reason why something could not be tested, how often that was so."""

    tested: tuple[Tested, ...]
    left_out: dict[str, int]

    @property
    def median_and_worst(self) -> tuple[float, Tested] | None:
        """The median of the errors' sizes, and the test with the largest; None without any."""
        sizes = sorted(abs(one.error) for one in self.tested)
        return (sizes[len(sizes) // 2], max(self.tested, key=lambda one: abs(one.error))) if sizes else None

    def as_json(self) -> dict[str, Any]:
        """Return it for JSON, in which an error that is not finite, as of a model that says never, is null."""
        found: dict[str, Any] = {}
        if self.median_and_worst is not None:
            median, worst = self.median_and_worst
            found = {"median_error": median if math.isfinite(median) else None, "worst": worst.what}
            found["worst_error"] = worst.error if math.isfinite(worst.error) else None
        return {"tests": len(self.tested), **found, "left_out": self.left_out}


def of_links(found: Recorded) -> BackTest:
    """Return how long the moves of each pair of brokers took, by the model with the recorded quotas and demand."""
    tested, left_out = [], Counter[str]()
    for pair, stream, end in zip(found.pairs, found.streams, found.finishes(), strict=True):
        why = _untold([pair], pair.ended - pair.began)
        if why:
            left_out[why] += 1
            continue
        said = math.inf if end is None else end - stream.starts
        tested.append(Tested(f"{pair.source} to {pair.destination}", said, pair.ended - pair.began))
    return BackTest(tuple(tested), dict(left_out))


def of_plan(found: Recorded) -> BackTest:
    """Return the rate that `plan` would have chosen to bring as many bytes in the time that it took, beside the quota
    that was in force: of each broker and role whose quota set the pace."""
    tested, left_out = [], Counter[str]()
    for (broker, role), limit in sorted(found.quotas.items()):
        kind = ROLES[role != "leader"]
        own = [pair for pair in found.pairs if broker == (pair.source if kind == "leader" else pair.destination)]
        if not own:
            continue
        seconds = busy((pair.began, pair.ended) for pair in own)
        why = _untold(own, seconds)
        if not why and (not limit or _held(own, kind) < HELD):
            why = "its own quota did not set the pace"
        if why:
            left_out[why] += 1
            continue
        load = Load(int(broker), kind, float(sum(pair.bytes for pair in own)), 0.0, 0.0)
        tested.append(Tested(f"broker {broker} as {role}", load.needed(Deadline(seconds)), limit))
    return BackTest(tuple(tested), dict(left_out))


def _untold(own: Sequence[Pair], seconds: float) -> str:
    """Return why the time that these took is not known; empty: it is."""
    if any(pair.unfinished for pair in own):
        return "not all of it ended"
    return "" if seconds >= MIN_SECONDS else f"it took less than {MIN_SECONDS} s"


def _held(own: Sequence[Pair], role: RoleName) -> float:
    """Return the share of the time of these, by bytes, in which this role's quota set the pace."""
    whole = sum(pair.bytes for pair in own)
    held = sum((pair.leader_held if role == "leader" else pair.follower_held) * pair.bytes for pair in own)
    return held / whole if whole else 0.0

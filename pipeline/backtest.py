"""What would have been said beforehand of what was recorded, beside what was: the error of the model and of `plan`.

Pure, over a row per pair of brokers. Invariant: all that ended is tested, also where the error is large.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from reassignment import Deadline, Load

from .curve import busy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reassignment import RoleName

    from .curve import Recorded

ROLES: tuple[RoleName, ...] = ("leader", "follower")
LEAST_SECONDS = 10
"""Journals tell by the second: what was shorter has no duration to be tested with."""
HELD = 0.5
"""`plan` says what quota ends a move in time. Where it was not the quota that set the pace, it said nothing."""


class Tested(NamedTuple):
    """said: seconds of the model, or bytes per second of `plan`; was: what it was."""

    what: str
    said: float
    was: float

    @property
    def error(self) -> float:
        return self.said / self.was - 1


class Errors(NamedTuple):
    """Of several tests: how many, the median of the errors' sizes, the worst of them with its sign."""

    tests: int
    median: float
    worst: Tested


def errors(found: Sequence[Tested]) -> Errors | None:
    if not found:
        return None
    sizes = sorted(abs(one.error) for one in found)
    return Errors(len(found), sizes[len(sizes) // 2], max(found, key=lambda one: abs(one.error)))


def of_links(found: Recorded, *, line_bytes_per_second: float) -> list[Tested]:
    """How long the moves of each pair of brokers took, by the model with the recorded quotas and demand."""
    ends = found.finishes(line_bytes_per_second=line_bytes_per_second)
    return [
        Tested(
            f"{pair.source} to {pair.destination}",
            math.inf if end is None else end - stream.starts,
            pair.ended - pair.began,
        )
        for pair, stream, end in zip(found.pairs, found.streams, ends, strict=True)
        if not pair.unfinished and pair.ended - pair.began >= LEAST_SECONDS
    ]


def of_plan(found: Recorded) -> list[Tested]:
    """Had `plan` been asked beforehand to bring as many bytes in the time that it took, which rate it would have said,
    beside the quota that was in force: of each broker and role whose quota set the pace."""
    tests = []
    for (broker, role), limit in sorted(found.quotas.items()):
        own = [
            pair
            for pair in found.pairs
            if broker == (pair.source if role == "leader" else pair.destination) and pair.share_held >= HELD
        ]
        seconds = busy((pair.began, pair.ended) for pair in own)
        if not own or any(pair.unfinished for pair in own) or seconds < LEAST_SECONDS or not limit:
            continue
        kind = ROLES[role != "leader"]
        load = Load(int(broker), kind, float(sum(pair.bytes for pair in own)), 0.0, 0.0)
        tests.append(Tested(f"broker {broker} as {role}", load.needed(Deadline(seconds)), limit))
    return tests

"""The moves at which the sidecar has to keep its bounds, beside the broker's own quota: one table, for tests and
documents.

A case is a load and the bounds of the `strict` policy on it (README.md's promise). Pure: nothing is run here.
Invariant: what differs between a native and a sidecar run of a case is only who throttles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lab.moves.move import MIB, How, Move, Side
from lab.wire.records import BIG

if TYPE_CHECKING:
    from lab.moves.move import MoveResult

KIB = 1024
QUOTA = 4.0 * MIB
ONE_MB_BATCHES = replace(BIG, compressed=True)
"""Format v1 has batches only as compressed wrappers. The values are random, so a batch has 900 kB all the same."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Ratios over the quota. `batch_bytes`: what one batch may add to the worst second, where batches are larger than
    the gate. `start_seconds`: how much of the time to the first byte is left out of the mean. Otherwise one second that
    brokers take to begin would lower it in a move of four seconds."""

    least_mean: float = 0.95
    most_mean: float = 1.03
    worst_second: float = 1.3
    worst_window: float = 1.05
    deviation: float = 0.1
    batch_bytes: int = 0
    start_seconds: float = 0.0

    def problems(self, result: MoveResult) -> list[str]:
        """Return what of `result` is out of bounds, in words; empty if nothing is."""
        quota = result.move.quota_bytes_per_second
        batch = self.batch_bytes / quota
        begun = result.mean_ratio_once_begun(self.start_seconds)
        limits = {
            "mean": (result.mean_ratio, 0.0, self.most_mean + batch / result.duration_seconds),
            "mean once begun": (begun, self.least_mean, math.inf),
            "worst second": (result.worst_second_ratio, 0.0, self.worst_second + batch),
            "worst 11 seconds": (result.worst_window_ratio, 0.0, self.worst_window + batch / 11),
            "standard deviation": (result.deviation_ratio, 0.0, self.deviation + batch),
        }
        return [
            f"{name} / quota {found:.3f} is not within {least:.2f} and {most:.2f}"
            for name, (found, least, most) in limits.items()
            if not least <= found <= most
        ]


@dataclass(frozen=True, slots=True)
class Case:
    """`move` is the sidecar's; `anchors` are the ways the broker's own quota is run beside it."""

    name: str
    move: Move
    anchors: tuple[How, ...] = ("native cold",)
    bounds: Bounds = Bounds()
    fetchers: int = 1

    def run_as(self, how: How) -> Move:
        return replace(self.move, how=how)


def _move(
    *,
    side: str = "leader",
    quota: float = QUOTA,
    partitions: int = 8,
    seconds: float = 12.0,
    leaders: tuple[int, ...] = (101,),
    followers: tuple[int, ...] = (102,),
    **more: object,
) -> Move:
    """Return a move that takes about `seconds` at its quota, if the leaders are the ones that throttle."""
    links = len(followers) if side != "follower" else 1
    total = quota * seconds * (len(leaders) if side == "leader" else 1) / links
    return Move(
        "sidecar strict", side, quota, partitions, int(total / partitions), leaders, followers, **more,  # type: ignore[arg-type]
    )  # fmt: skip


COLD_AND_WARM: tuple[How, ...] = ("native cold", "native warm")

CASES = (
    Case("leader side", _move(), COLD_AND_WARM),
    Case("follower side", _move(side="follower")),
    Case("both sides", _move(side="both")),
    Case("1 MiB/s, leader side", _move(quota=1.0 * MIB, seconds=15), COLD_AND_WARM),
    Case("1 MiB/s, follower side", _move(side="follower", quota=1.0 * MIB, seconds=15)),
    Case("20 MiB/s, leader side", _move(quota=20.0 * MIB), COLD_AND_WARM),
    Case("20 MiB/s, both sides", _move(side="both", quota=20.0 * MIB)),
    Case(
        "0.25 MiB/s, leader side", _move(quota=0.25 * MIB, seconds=24), bounds=Bounds(worst_second=1.5, deviation=0.2)
    ),
    Case("1 partition", _move(partitions=1), COLD_AND_WARM),
    Case("64 partitions", _move(partitions=64)),
    Case("1 MB batches", _move(seconds=15, shape=ONE_MB_BATCHES), bounds=Bounds(batch_bytes=MIB)),
    Case("two followers of one leader", _move(seconds=16, followers=(102, 103))),
    Case("two leaders of one follower", _move(side="follower", leaders=(101, 103), partitions=8)),
    Case("small segments", _move(topic_configs={"segment.bytes": str(MIB)})),
    Case("in-sync traffic on the same fetcher", _move(live=True), COLD_AND_WARM),
    Case("in-sync traffic on the same fetcher, follower side", _move(side="follower", live=True)),
    Case("4 fetchers per broker", _move(), fetchers=4),
)

VERSION_SIDES: tuple[Side, ...] = ("leader", "follower")
VERSION_BOUNDS = Bounds(least_mean=0.93)
SHORT_BOUNDS = replace(VERSION_BOUNDS, least_mean=0.5, deviation=math.inf, start_seconds=2.0)
"""The bounds for short moves on a machine with other work: no second has too much, and the quota is not left unused. A
move's clock starts with the request, and it may take half a second until the controller's word has become a fetch."""


def at_every_version(how: How, side: Side) -> Move:
    """Return the move that each version of Fetch is held to: eight seconds, beside a busy partition in sync."""
    return Move(how, side, QUOTA, bytes_per_partition=4 * MIB, live=True)

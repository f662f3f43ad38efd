"""A move of partitions as a value: what is asked for, and what came of it. Pure.

Knows nothing of how it is carried out (`lab.moves.mover`). Invariant: ratios are always over the quota of one
throttling broker, so native and sidecar runs of any size can stand in one table.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ..wire.records import SMALL, Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ..measuring.compare_replicas import Comparison
    from ..measuring.figures import Figures

Side = Literal["leader", "follower", "both"]
How = Literal["unthrottled", "native cold", "native warm", "sidecar strict", "sidecar kip73"]
SIDES: tuple[Side, ...] = ("leader", "follower", "both")
HOWS: tuple[How, ...] = ("unthrottled", "native cold", "native warm", "sidecar strict", "sidecar kip73")
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Move:
    """Partitions that live on the leaders get replicas on every follower, under a quota.

    Args:
        how: who throttles. "cold": nothing fetched from the leaders before; "warm": an idle, unthrottled
            replica did for 15 s, which lets the broker's own quota burst.
        side: which role throttles.
        quota_bytes_per_second: of each broker that throttles.
        partitions: spread over the leaders in turns.
        bytes_per_partition: to move, per follower.
        leaders, followers: broker ids.
        shape: of the records.
        mixed_with: other shapes; each request's batches are of one of all of these, drawn at random.
        live: an acks=all producer writes to another, in-sync partition of the first link meanwhile.
        topic_configs: such as `{"segment.bytes": "1048576"}`.
    """

    how: How
    side: Side = "leader"
    quota_bytes_per_second: float = 4.0 * MIB
    partitions: int = 8
    bytes_per_partition: int = 8 * MIB
    leaders: tuple[int, ...] = (101,)
    followers: tuple[int, ...] = (102,)
    shape: Shape = SMALL
    mixed_with: tuple[Shape, ...] = ()
    live: bool = False
    topic_configs: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if set(self.leaders) & set(self.followers):
            raise ValueError(f"leaders {self.leaders} and followers {self.followers} overlap")
        if self.partitions < len(self.leaders):
            raise ValueError(f"{self.partitions} partitions are too few for leaders {self.leaders}")

    @property
    def throttled(self) -> bool:
        return self.how != "unthrottled"

    @property
    def roles(self) -> tuple[Literal["leader", "follower"], ...]:
        """The roles that throttle."""
        if not self.throttled:
            return ()
        return ("leader", "follower") if self.side == "both" else (self.side,)

    @property
    def measured_brokers(self) -> tuple[int, ...]:
        """The brokers whose bytes are held against the quota."""
        return self.followers if self.side == "follower" else self.leaders

    def assignment(self) -> dict[int, list[int]]:
        """Return the assignment before the move: each partition on its leader alone."""
        return {p: [self.leaders[p % len(self.leaders)]] for p in range(self.partitions)}

    def target(self) -> dict[int, list[int]]:
        """Return the assignment after the move: each partition on its leader and every follower."""
        return {p: [*replicas, *self.followers] for p, replicas in self.assignment().items()}

    def ideal_seconds(self) -> float:
        """Return the seconds that the move takes if the busiest throttling broker keeps exactly to the quota; 0 if
        unlimited."""
        if not self.throttled:
            return 0.0
        total = self.partitions * self.bytes_per_partition
        per_follower = total / self.quota_bytes_per_second
        per_leader = math.ceil(self.partitions / len(self.leaders)) * self.bytes_per_partition
        by_leader = per_leader * len(self.followers) / self.quota_bytes_per_second
        return {"leader": by_leader, "follower": per_follower, "both": max(by_leader, per_follower)}[self.side]


@dataclass(frozen=True, slots=True)
class Latencies:
    """Latencies of the live producer, in seconds."""

    records: int
    errors: int
    p50: float
    p95: float
    p99: float
    worst: float


@dataclass(frozen=True, slots=True)
class Progress:
    """Told while a move runs. `bytes_moved` and `bytes_to_move` are 0 where they are not known."""

    phase: str
    seconds: float = 0.0
    bytes_moved: int = 0
    bytes_to_move: int = 0


@dataclass(frozen=True, slots=True)
class MoveResult:
    """The outcome of a move.

    duration_seconds: from the request to reassign to the last byte (without taps: to the controller's word).
    figures: per measured broker; empty without taps.
    follower_seconds: when each follower got its last byte.
    fetches_per_second: of each link that moved data, on average.
    """

    move: Move
    topic: str
    duration_seconds: float
    figures: Mapping[int, Figures]
    follower_seconds: Mapping[int, float]
    fetches_per_second: float
    fetch_versions: Mapping[int, int]
    comparisons: Sequence[Comparison]
    bad_log_lines: Sequence[str]
    shrinks: Sequence[str]
    latencies: Latencies | None = None

    @property
    def equal(self) -> bool:
        """True if every follower holds, byte for byte, what its leader holds."""
        return bool(self.comparisons) and all(comparison.equal for comparison in self.comparisons)

    @property
    def mean_ratio(self) -> float:
        """Mean rate over the quota, averaged over the brokers that throttle."""
        return self._ratio([figures.mean for figures in self.figures.values()], statistics.fmean)

    def mean_ratio_once_begun(self, most_seconds: float) -> float:
        """Return the same without up to `most_seconds` before the first byte: brokers and controller need them."""
        begun = []
        for each in self.figures.values():
            seconds = each.duration_seconds - min(each.seconds_to_first, most_seconds)
            begun.append(each.total_bytes / seconds if seconds > 0 else math.inf)
        return self._ratio(begun, statistics.fmean)

    @property
    def worst_second_ratio(self) -> float:
        return self._ratio([figures.worst_second for figures in self.figures.values()], max)

    @property
    def worst_window_ratio(self) -> float:
        """Worst 11 seconds."""
        return self._ratio([figures.worst_window for figures in self.figures.values()], max)

    @property
    def first_second_ratio(self) -> float:
        return self._ratio([figures.first_second for figures in self.figures.values()], max)

    @property
    def deviation_ratio(self) -> float:
        return self._ratio([figures.deviation for figures in self.figures.values()], max)

    @property
    def duration_ratio(self) -> float:
        """Duration over the ideal one; NaN if there was no quota."""
        ideal = self.move.ideal_seconds()
        return self.duration_seconds / ideal if ideal else math.nan

    @property
    def wire_over_log(self) -> float:
        """Record bytes on the wire for each byte in the followers' logs: 1 unless parts of batches came in vain."""
        in_logs = sum(each.follower.size_bytes for each in self.comparisons)
        return sum(each.total_bytes for each in self.figures.values()) / in_logs if in_logs else math.nan

    def _ratio(self, rates: list[float], pick: Callable[[list[float]], float]) -> float:
        if not rates or not self.move.throttled:
            return math.nan
        return pick(rates) / self.move.quota_bytes_per_second

    def summary(self) -> dict[str, object]:
        """Return one flat row, for tables and for JSON (NaN becomes None)."""
        latencies = self.latencies
        row: dict[str, object] = {
            "how": self.move.how,
            "side": self.move.side,
            "quota_bytes_per_second": self.move.quota_bytes_per_second if self.move.throttled else None,
            "partitions": self.move.partitions,
            "bytes_per_partition": self.move.bytes_per_partition,
            "duration_seconds": round(self.duration_seconds, 3),
            "duration_over_ideal": _rounded(self.duration_ratio),
            "mean_over_quota": _rounded(self.mean_ratio),
            "worst_second_over_quota": _rounded(self.worst_second_ratio),
            "worst_11_seconds_over_quota": _rounded(self.worst_window_ratio),
            "first_second_over_quota": _rounded(self.first_second_ratio),
            "deviation_over_quota": _rounded(self.deviation_ratio),
            "mean_bytes_per_second": round(sum(figures.mean for figures in self.figures.values())),
            "wire_over_log": _rounded(self.wire_over_log),
            "fetches_per_second": _rounded(self.fetches_per_second),
            "fetch_versions": {str(version): count for version, count in self.fetch_versions.items()},
            "follower_seconds": {str(f): round(s, 3) for f, s in self.follower_seconds.items()},
            "equal": self.equal,
            "bad_log_lines": len(self.bad_log_lines),
            "shrinks": len(self.shrinks),
        }
        if latencies:
            row["live_p50_ms"] = round(latencies.p50 * 1000, 1)
            row["live_p95_ms"] = round(latencies.p95 * 1000, 1)
            row["live_p99_ms"] = round(latencies.p99 * 1000, 1)
            row["live_worst_ms"] = round(latencies.worst * 1000, 1)
            row["live_errors"] = latencies.errors
        return row


def _rounded(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 3)

"""A disk or a link that catch-up shares with producers, under a virtual clock: latencies that rise where it is full.

The decisions are the sidecar's own (`Signals`, `RoleRate`). Latency is that of a queue with a knee: it doubles at
`KNEE` of the capacity, and is many times as much where more is asked for than there is. A clairvoyant knows the knee.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from proxy.quotas.rate_source import RateSource
from proxy.rates.choice import Choice, Observed
from proxy.rates.role_rate import RoleRate
from proxy.rates.signals import Signals
from proxy.throttle.peer_latencies import LatencySample, PeerLatencySample

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.rates.signals import Reading

MIB = 1024.0 * 1024.0
BEST_SECONDS = 0.010
KNEE = 0.9
STEEPNESS = 12
_FULL_SECONDS = 1.0
BEGINNING = datetime(2026, 11, 1, 22, tzinfo=UTC)


@dataclass
class Sidecar:
    """One role that chooses its own rate."""

    source: RateSource
    signals: Signals = field(default_factory=Signals)
    rate: RoleRate = field(default_factory=RoleRate)
    held: float = 0.0
    chosen: list[Choice] = field(default_factory=list)

    def step(self, times: LatencySample, used: float, now: float, more: list[Reading]) -> None:
        at_least = self.held <= self.source.least
        readings = [*self.signals.read(times, now, at_least=at_least, host=None), *more]
        seen = Observed(5, 1000, 1e15, used_bytes_per_second=used, readings=readings)
        wall = BEGINNING + timedelta(seconds=now)
        choice = self.rate.choose(self.source, seen, self.held, since=BEGINNING, wall=wall, now=now)
        self.held = choice.bytes_per_second
        self.chosen.append(choice)


@dataclass
class Bottleneck:
    """`producers` and `capacity`: bytes per second by seconds since the beginning."""

    producers: Callable[[float], float]
    capacity: Callable[[float], float] = lambda _: 1000 * MIB
    count: int = 1
    source: RateSource = field(default_factory=lambda: RateSource(5000 * MIB, 10 * MIB, auto=True))
    noise: float = 0.1
    seed: int = 7
    more: Callable[[float, float], list[Reading]] = lambda _, __: []
    """Other signals, by the second and the share of the capacity that is asked for."""
    sidecars: list[Sidecar] = field(default_factory=list)
    totals: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)

    def run(self, seconds: int) -> Bottleneck:
        noise = random.Random(self.seed)
        self.sidecars = [Sidecar(self.source, held=self.source.least) for _ in range(self.count)]
        for second in range(seconds):
            total = sum(sidecar.held for sidecar in self.sidecars)
            share = (total + self.producers(second)) / self.capacity(second)
            self.totals.append(total)
            self.shares.append(share)
            for sidecar in self.sidecars:
                waits = [latency(share) * noise.uniform(1 - self.noise, 1 + self.noise) for _ in range(2)]
                used = sidecar.held * min(1.0, 1 / share)
                sidecar.step(
                    LatencySample({"102": PeerLatencySample(*waits)}),
                    used,
                    float(second),
                    self.more(second, share),
                )
        return self

    def clairvoyant(self, second: float) -> float:
        """The most that does not hurt."""
        return max(KNEE * self.capacity(second) - self.producers(second), self.count * self.source.least)

    def usage(self, begin: int, end: int) -> float:
        """What was chosen of what a clairvoyant would choose."""
        return sum(self.totals[begin:end]) / sum(map(self.clairvoyant, range(begin, end)))


def latency(share: float) -> float:
    """Seconds; `BEST_SECONDS` where nothing waits, twice that at `KNEE`."""
    return min(BEST_SECONDS * (1 + (share / KNEE) ** STEEPNESS), _FULL_SECONDS)

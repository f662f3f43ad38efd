"""Moves under a virtual clock: a lag that is fetched at the rate that was chosen, and producers who add to it.

The decisions are the sidecar's own (`RoleRate`); what a lab shows of a real one is put on top: a quota brings 0.95 to
1.03 of its rate, high watermarks of partitions that are left out are seconds old, message sizes are estimates.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from proxy.quotas.rate_source import Deadline, RateSource
from proxy.rates.choice import Choice, Observed
from proxy.rates.role_rate import RoleRate

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1024.0 * 1024.0
GIB = 1024.0 * MIB
BEGINNING = datetime(2026, 11, 1, 22, tzinfo=UTC)
OLD_SECONDS = 3
"""High watermarks are so old at most."""


@dataclass
class Move:
    """One role's catch-up. `producers`: bytes per second that are added, by seconds since the beginning."""

    lag_bytes: float
    source: RateSource
    producers: Callable[[float], float] = lambda _: 0.0
    capacity: float = float("inf")
    """What the network carries, bytes per second."""
    size_error: Callable[[float], float] = lambda _: 1.0
    """What a message is taken for, of what it is."""
    seed: int = 1
    choices: list[tuple[float, Choice]] = field(default_factory=list)
    ended: float | None = None
    """Seconds since the beginning."""

    def run(self, seconds: float) -> Move:
        noise, rate = random.Random(self.seed), RoleRate()
        held = self.source.least
        for second in range(int(seconds)):
            # What is fetched of every second tells its high watermark as often; only what is left out is told rarely.
            old = noise.randint(0, OLD_SECONDS) if self.lag_bytes > 2 * OLD_SECONDS * held else 0
            unseen = sum(self.producers(second - ago) for ago in range(1, 1 + old))
            known = max(self.lag_bytes - unseen, 1000.0) * self.size_error(second)
            # In sync once it is done: what producers add then is taken from the quota all the same.
            done = self.lag_bytes <= 0
            seen = Observed(
                behind=0 if done else 3,
                lag_messages=0 if done else max(int(known / 1000), 1),
                lag_bytes=0.0 if done else known,
                growth_bytes_per_second=0.0 if done else self.producers(second) * self.size_error(second),
                in_sync_bytes_per_second=self.producers(second) if done else 0.0,
            )
            wall = BEGINNING + timedelta(seconds=second)
            choice = rate.choose(self.source, seen, held, since=BEGINNING, wall=wall, now=1000.0 + second)
            held = choice.bytes_per_second
            self.choices.append((second, choice))
            if not done:
                self._fetch(second, min(held * noise.uniform(0.95, 1.03), self.capacity))
        return self

    def _fetch(self, second: int, moved: float) -> None:
        before, added = self.lag_bytes, self.producers(second)
        self.lag_bytes += added - moved
        if self.lag_bytes <= 0:
            self.lag_bytes = 0.0
            self.ended = second + (before / (moved - added) if moved > added else 1.0)

    @property
    def late_at(self) -> float | None:
        """When it was said first that it will not be done in time."""
        return next((second for second, choice in self.choices if choice.late), None)

    def rates(self) -> list[float]:
        return [choice.bytes_per_second for _, choice in self.choices]


def within(seconds: float, most: float = 300 * MIB, least: float = 64 * 1024) -> RateSource:
    return RateSource(most, least, Deadline(within=timedelta(seconds=seconds)), path="brokers.default")

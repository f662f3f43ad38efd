"""DataDog's autothrottle as arithmetic: a broker's replication quota from the network that it has and the rest uses.

Source: github.com/DataDog/kafka-kit, cmd/autothrottle (README: "Rate Calculations"; the flags cap-map, min-rate,
max-tx-rate, max-rx-rate, change-threshold, interval and metrics-window). Every interval, for each broker that sends or
receives a reassignment:

    rate = max((capacity - other - over) * share, least)
    other = max(carried - rate before, 0)       what is not the reassignment's, as far as can be told
    over = max(carried - capacity, 0)

A rate that differs by less than the change threshold from the one before is not set. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

SHARE = 0.9
"""max-tx-rate and max-rx-rate, of what is free."""
CHANGE_THRESHOLD = 0.1
INTERVAL_SECONDS, WINDOW_SECONDS = 180.0, 120.0
"""How often a rate is worked out, and over how long `carried` is averaged."""


@dataclass(slots=True)
class Autothrottle:
    """One broker in one role. Rates and the capacity: bytes per second."""

    capacity: float
    least: float
    rate: float = 0.0
    """The rate that it set last; 0 before the first time."""

    def next(self, carried: float) -> float | None:
        """Return the rate to set when the network carried so much on average; None if it stays as it is."""
        other = max(carried - self.rate, 0.0)
        over = max(carried - self.capacity, 0.0)
        found = max((self.capacity - other - over) * SHARE, self.least)
        if self.rate and abs(found - self.rate) < CHANGE_THRESHOLD * self.rate:
            return None
        self.rate = found
        return found

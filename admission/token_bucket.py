"""A token bucket that can go into debt: what the `strict` policy allows a role to ask for.

Bytes are asked for before anybody knows how many will come, so asking *reserves* tokens and the answer
*settles* them; a batch larger than what was left arrives whole (KIP-74) and is repaid as debt.
Pure: time is an argument, in seconds.

Invariant: over any span of t seconds that starts and ends between settlements, the bytes settled are at most
`rate * t + burst`, plus what was reserved before it, plus what single batches exceeded their reservation by.
"""

from __future__ import annotations

import math

LEAST_GATE_BYTES = 64 * 1024
"""Below this a grant could be smaller than one ordinary 16 KiB producer batch and its neighbours."""


class TokenBucket:
    """Tokens are bytes.

    `gate_seconds` and `burst_seconds` are times at the full rate: the bucket opens with `gate_bytes` in it and
    never holds more than `burst_bytes` not reserved. An unlimited bucket is always open; one of rate 0 never is.
    """

    __slots__ = (
        "_burst_seconds", "_gate_seconds", "_is_unlimited", "_reserved", "_tokens", "_updated", "burst_bytes",
        "gate_bytes", "piece_bytes", "rate",
    )  # fmt: skip

    def __init__(self, *, rate: float, gate_seconds: float, burst_seconds: float, now: float) -> None:
        self._gate_seconds = gate_seconds
        self._burst_seconds = burst_seconds
        self._take_rate(rate)
        self._reserved = 0.0
        self._updated = now
        self._tokens = 0.0 if self._is_unlimited else self.gate_bytes

    def _take_rate(self, rate: float) -> None:
        self.rate = rate
        self._is_unlimited = math.isinf(rate)
        self.gate_bytes = max(rate * self._gate_seconds, LEAST_GATE_BYTES)
        self.burst_bytes = max(rate * self._burst_seconds, self.gate_bytes)
        self.piece_bytes = max(self.gate_bytes / 4, LEAST_GATE_BYTES)
        """A quarter of a gate: what a fetch takes that does not wait for the gate."""

    def change_rate(self, rate: float, now: float) -> None:
        """Take a new rate: tokens and debt stay, capped at the new burst; from unlimited it starts anew."""
        self._refill(now)
        from_unlimited = self._is_unlimited
        self._take_rate(rate)
        if self._is_unlimited:
            self._tokens = 0.0
        elif from_unlimited:
            self._tokens = self.gate_bytes
        else:
            self._tokens = min(self._tokens, self.burst_bytes)

    def available(self, now: float) -> float:
        """Return the bytes that may be asked for now; negative in debt."""
        if self._is_unlimited:
            return math.inf
        self._refill(now)
        return self._tokens - self._reserved

    def is_open(self, now: float) -> bool:
        return self.rate > 0 and self.available(now) >= self.gate_bytes

    def has_piece(self, now: float) -> bool:
        return self.rate > 0 and self.available(now) >= LEAST_GATE_BYTES

    def reserve(self, size: float) -> None:
        self._reserved += size

    def settle(self, *, reserved: float, used: float, now: float) -> None:
        """Give back a reservation and take what was really used."""
        self._refill(now)
        self._reserved = max(self._reserved - reserved, 0.0)
        if not self._is_unlimited:
            self._tokens -= used
        self._cap()

    def charge(self, used: float, now: float, *, most_debt_seconds: float) -> None:
        """Take what was used, but let it cause no more debt than so many seconds of the rate."""
        if not self._is_unlimited:
            self._refill(now)
            floor = min(self._tokens, -self.rate * most_debt_seconds)
            self._tokens = max(self._tokens - used, floor)

    def seconds_until_open(self, now: float, *, gates: int = 1) -> float:
        """Return the time until `gates` gates' worth is in the bucket, if nobody takes any meanwhile."""
        if self.rate == 0:
            return math.inf
        missing = gates * self.gate_bytes - self.available(now)
        return max(missing / self.rate, 0.0) if missing > 0 else 0.0

    def _refill(self, now: float) -> None:
        if now <= self._updated:
            return
        if not self._is_unlimited:
            self._tokens += self.rate * (now - self._updated)
            self._cap()
        self._updated = now

    def _cap(self) -> None:
        """What is reserved is on top of the burst: an answer that takes long keeps its own bytes from the others, not
        the time it takes."""
        most = self.burst_bytes + self._reserved
        if self._tokens > most:
            self._tokens = most

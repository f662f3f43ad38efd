"""A token bucket that can go into debt: what the `strict` policy allows a role to ask for.

Bytes are asked for before it is known how many will come: asking *reserves* tokens, and the answer *settles* them. A
batch that is larger than what was left arrives whole all the same (KIP-74), and is repaid as debt.
Pure: time is an argument, in seconds.

Invariant: over any span of t seconds the bytes settled are at most `rate * t + burst` (at low rates a gate and half of
`burst_seconds`, if that is more), plus what single batches exceeded their reservation by, plus what was
`exclude_from_burst`.
"""

from __future__ import annotations

import math

MIN_GATE_BYTES = 32 * 1024
"""Two ordinary producer batches of 16 KiB. It was twice that, and with it a connection that needs room in two budgets
of some 100 KiB/s at once seldom found both open: it had half of its share."""
MIN_BURST_BYTES = 4 * MIN_GATE_BYTES
"""However low the rate, the bucket holds grants for some connections. While it held one, whoever came first had it."""

LOOK_AGAIN_SECONDS = 0.01
"""The time between two questions while the bucket is shut only because of bytes in flight, which may settle at any
moment."""

SPARED = 0.75
"""The share of what a bucket holds beyond its gate that is kept for urgent connections (`spared_bytes`). If all of it
were kept, the others would be granted nothing before the bucket is full, and a full bucket gains nothing. If less were
kept, an urgent connection that is far away would find little when it is back."""


class TokenBucket:
    """Tokens are bytes.

    `gate_seconds` and `burst_seconds` are times at the full rate: the bucket opens with `gate_bytes` in it and never
    holds more than `burst_bytes`, what is reserved included, beside what is excluded from the burst. An unlimited
    bucket is always open; one of rate 0 never is.
    """

    __slots__ = (
        "_beside_burst", "_burst_seconds", "_gate_seconds", "_is_unlimited", "_max_in_flight_bytes", "_reserved",
        "_tokens", "_updated", "burst_bytes", "gate_bytes", "piece_bytes", "rate", "sharing",
    )  # fmt: skip

    def __init__(self, *, rate: float, gate_seconds: float, burst_seconds: float, now: float) -> None:
        self._gate_seconds = gate_seconds
        self._burst_seconds = burst_seconds
        self.sharing = 1
        """The number of connections that share the gate."""
        self._take_rate(rate)
        self._reserved = 0.0
        self._beside_burst = 0.0
        self._updated = now
        self._tokens = 0.0 if self._is_unlimited else self.gate_bytes

    def _take_rate(self, rate: float) -> None:
        self.rate = rate
        self._is_unlimited = math.isinf(rate)
        self.gate_bytes = max(rate * self._gate_seconds / math.sqrt(self.sharing), MIN_GATE_BYTES)
        self.burst_bytes = max(rate * self._burst_seconds, self.gate_bytes, MIN_BURST_BYTES)
        flight_bytes = 0.0 if self._is_unlimited else rate * self._burst_seconds / 2
        self._max_in_flight_bytes = max(self.gate_bytes + flight_bytes, self.burst_bytes)
        """The most bytes in flight. While half of a burst is in flight the other half can be asked for, so an answer
        that takes no longer than half a burst costs no throughput."""
        self.piece_bytes = max(self.gate_bytes / 2, MIN_GATE_BYTES)
        """Half a gate: what a fetch takes that does not wait for the gate. Less means more fetches for the same bytes
        (100 a second instead of 70 beside 50 records a second) and no shorter latencies (measured)."""

    def change_rate(self, rate: float, now: float) -> None:
        """Change the rate: tokens and debt stay, capped at the new burst; from unlimited it starts anew."""
        self._refill(now)
        from_unlimited = self._is_unlimited
        self._take_rate(rate)
        if self._is_unlimited:
            self._tokens = 0.0
        elif from_unlimited:
            self._tokens = self.gate_bytes
        else:
            self._tokens = min(self._tokens, self.burst_bytes)

    def change_gate(self, gate_seconds: float, now: float) -> None:
        """Open with another gate's worth from now on; tokens and debt stay, capped at the new burst."""
        self._gate_seconds = gate_seconds
        self.change_rate(self.rate, now)

    def share_gate(self, count: int) -> None:
        """Open with a smaller gate, since `count` connections share it. One after the other is granted a gate's worth:
        with the whole gate each of six waited for 0.6 s, and what a topic's budget gained meanwhile it could not
        keep. A sixth of the gate would be six times as many fetches; by the root of the count neither grows so
        much."""
        self.sharing = count
        self._take_rate(self.rate)

    def available(self, now: float) -> float:
        """Return the bytes that may be asked for now; negative in debt."""
        if self._is_unlimited:
            return math.inf
        if now > self._updated:
            self._refill(now)
        return self._tokens - self._reserved

    def begin_with(self, tokens: float, now: float) -> None:
        """Start with at most `tokens`, which may be a debt: what another process left of the same budget."""
        self._tokens = min(self.available(now), tokens)

    def holds(self, wanted_bytes: float, now: float) -> bool:
        """Return True if so much may be asked for; nothing at a rate of 0."""
        return self.rate > 0 and self.available(now) >= wanted_bytes

    @property
    def spared_bytes(self) -> float:
        """The bytes that must be there beside a gate before connections of less urgency are granted any."""
        return SPARED * (self.burst_bytes - self.gate_bytes)

    def reserve(self, size: float, *, beside_burst: float = 0.0) -> None:
        """Reserve `size` bytes, `beside_burst` of them excluded from the burst."""
        self._reserved += size
        self._beside_burst += beside_burst

    def exclude_from_burst(self, size: float) -> None:
        """Leave so much of what is reserved out of the burst, since it will come late, if at all.

        It does not count as part of the burst, which fills up in spite of it.
        """
        self._beside_burst += size

    def settle(self, *, reserved: float, used: float, now: float, beside_burst: float = 0.0) -> None:
        """Give back a reservation, `beside_burst` of it excluded from the burst, and take what was really used."""
        if now > self._updated:
            self._refill(now)
        still_reserved, still_beside_burst = self._reserved - reserved, self._beside_burst - beside_burst
        self._reserved = still_reserved if still_reserved > 0.0 else 0.0
        self._beside_burst = still_beside_burst if still_beside_burst > 0.0 else 0.0
        if not self._is_unlimited:
            tokens, most = self._tokens - used, self._most()
            self._tokens = tokens if tokens < most else most

    def charge(self, used: float, now: float, *, most_debt_seconds: float) -> None:
        """Charge what was used, but let it cause no more debt than so many seconds of the rate."""
        if not self._is_unlimited:
            self._refill(now)
            floor = min(self._tokens, -self.rate * most_debt_seconds)
            self._tokens = max(self._tokens - used, floor)

    def charge_evenly(self, used: float, now: float, *, most_debt_seconds: float) -> None:
        """Take what was used since the bucket was last looked at, a little at each moment: so it does not count as used
        now if the bucket could have filled up meanwhile."""
        if not self._is_unlimited:
            gained = self.rate * max(now - self._updated, 0.0)
            floor = min(self._tokens + gained, -self.rate * most_debt_seconds)
            self._tokens -= used
            self._refill(now)
            self._tokens = max(self._tokens, floor)

    @property
    def reserved_bytes(self) -> float:
        """Bytes that were asked for and are not settled."""
        return self._reserved

    def seconds_until(self, wanted_bytes: float, now: float) -> float:
        """Return the time until so much is in the bucket, if none is taken meanwhile."""
        if self.rate == 0:
            return math.inf
        if self._is_unlimited:
            return 0.0
        missing = wanted_bytes - self.available(now)
        if missing <= 0:
            return 0.0
        waits_for_answers = self._reserved and self._tokens >= self._most()
        return max(missing / self.rate, LOOK_AGAIN_SECONDS if waits_for_answers else 0.0)

    def _refill(self, now: float) -> None:
        if now > self._updated:
            if not self._is_unlimited:
                tokens, most = self._tokens + self.rate * (now - self._updated), self._most()
                self._tokens = tokens if tokens < most else most
            self._updated = now

    def _most(self) -> float:
        """Return the most tokens the bucket holds. What is reserved is part of the burst: an answer that is late would
        otherwise come on top of what the others could ask for meanwhile (1.42 x the rate in the first second of a cold
        cluster, measured)."""
        most, most_in_flight = self.burst_bytes + self._reserved, self._beside_burst + self._max_in_flight_bytes
        return most if most < most_in_flight else most_in_flight

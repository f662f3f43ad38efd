"""Kafka's SimpleRate: the arithmetic behind every replication quota and the two `…ThrottledRate` gauges.

A line-for-line reading of `SampledStat` and `SimpleRate` (kafka-clients 3.8 and later): event-aligned samples,
the window is the time that really elapsed since the oldest of them, never less than one sample. `Rate`, which client
quotas use, counts more (KAFKA-4178). Pure: the clock is the caller's, in seconds.

Invariant: `sum(values) / window` with `sample_seconds <= window`, whatever the order of calls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

QUOTA_WINDOW_NUM = 11
"""The default of Kafka's replication.quota.window.num."""
QUOTA_WINDOW_SIZE_SECONDS = 1.0
"""The default of Kafka's replication.quota.window.size.seconds."""


@dataclass(slots=True)
class _Sample:
    start: float
    last_event: float
    value: float = 0.0

    def reset(self, now: float) -> None:
        self.start = self.last_event = now
        self.value = 0.0


class SimpleRate:
    """Bytes per second over `samples` samples of `sample_seconds` each.

    The window begins with the first measurement, even if nothing was recorded before it, as it does in Kafka.
    """

    __slots__ = ("_current", "_expiry_seconds", "_sample_seconds", "_samples", "_slots")

    def __init__(self, *, samples: int = QUOTA_WINDOW_NUM, sample_seconds: float = QUOTA_WINDOW_SIZE_SECONDS) -> None:
        self._samples: list[_Sample] = []
        self._current = 0
        self._sample_seconds = sample_seconds
        self._slots = samples + 1  # one more than configured since 3.8: PR 15889, "Fix rate metric spikes"
        self._expiry_seconds = samples * sample_seconds

    def record(self, value: float, now: float) -> None:
        if not self._samples:
            self._samples.append(_Sample(now, now))
        sample = self._samples[self._current]
        if now - sample.start >= self._sample_seconds:
            sample = self._advance(now)
        sample.value += value
        sample.last_event = now

    def measure(self, now: float) -> float:
        """Return the rate in bytes per second at `now`."""
        total, elapsed = self._window(now)
        return total / elapsed

    def seconds_until(self, bytes_per_second: float, now: float) -> float:
        """Return how long nothing must be recorded until the rate is no longer above `bytes_per_second`.

        Samples leave the window one by one, so the rate falls in steps as well as with time: each step is
        looked at in turn (at most `samples + 1` of them). Infinite only when the bound is negative.
        """
        total, elapsed = self._window(now)
        if total <= bytes_per_second * elapsed:
            return 0.0
        live = sorted((s for s in self._samples if s.value > 0), key=lambda s: s.last_event)
        starts = [s.start for s in self._samples]
        while live:
            expiry = live[0].last_event + self._expiry_seconds
            if bytes_per_second > 0:
                within = min(starts) + total / bytes_per_second
                if within <= expiry:
                    return max(within - now, 0.0)
            gone = live.pop(0)
            total -= gone.value
            starts.remove(gone.start)
            starts.append(expiry)
            if total <= bytes_per_second * max(expiry - min(starts), self._sample_seconds):
                return max(expiry - now, 0.0)
        return 0.0 if bytes_per_second >= 0 else math.inf

    def _window(self, now: float) -> tuple[float, float]:
        for sample in self._samples:
            if now - sample.last_event >= self._expiry_seconds:
                sample.reset(now)
        if not self._samples:
            self._samples.append(_Sample(now, now))
        oldest = min(sample.start for sample in self._samples)
        return sum(s.value for s in self._samples), self._counted(now - oldest)

    def _counted(self, elapsed: float) -> float:
        """Return the window in seconds where so much time elapsed since the oldest sample."""
        return max(elapsed, self._sample_seconds)

    def _advance(self, now: float) -> _Sample:
        self._current = (self._current + 1) % self._slots
        if self._current >= len(self._samples):
            self._samples.append(_Sample(now, now))
        else:
            self._samples[self._current].reset(now)
        return self._samples[self._current]


class Rate(SimpleRate):
    """Kafka's `Rate`, behind its client quotas: the window is all samples but one and a part of the last, also where
    less time has elapsed. So what a new client sends at once counts as sent over ten seconds."""

    __slots__ = ()

    def throttle_seconds(self, bytes_per_second: float, now: float, *, more: float = 0.0) -> float:
        """Return for how long a client is throttled, by `QuotaUtils.throttleTime`: (O - T) / T * W. `more`: bytes that
        are not recorded, and count for this question alone."""
        total, window = self._window(now)
        excess = (total + more) / window - bytes_per_second
        return max(excess / bytes_per_second * window, 0.0)

    def _counted(self, elapsed: float) -> float:
        least = self._expiry_seconds - self._sample_seconds
        missing = least // self._sample_seconds - elapsed // self._sample_seconds
        return elapsed + max(missing, 0.0) * self._sample_seconds

"""A link that catch-up shares with acks=all producers, fetch by fetch, in virtual time: what a batch waits.

One follower fetches over one connection what producers write to partitions in sync, and beside it what catches up. The
decisions are the sidecar's own: what rides along (`StrictBudget`, `Riding`), and the rate (`Timings`, `Signals`,
`AutoRate`). The scene is that of `benchmarks.chosen_rates`: a card of 20 MB/s, sixteen producers of 40 kB batches whose
load doubles and halves, replicas whose batches have 16 kB.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from admission.budget import StrictBudget, Wish
from proxy.quotas.rate_source import RateSource
from proxy.rates.auto import AutoRate
from proxy.rates.signals import Reading, Signals
from proxy.throttle.replica import LEAST_NEED_BYTES
from proxy.throttle.riding import Riding, wish_within
from proxy.throttle.role_throttle import AUTO_GATE_SECONDS
from proxy.throttle.timings import BrokerTimings, Times

if TYPE_CHECKING:
    from collections.abc import Iterator

MB = 1e6
LINK, CARD_BURST_BYTES = 20 * MB, 256 * 1024
PRODUCERS, INTERVAL_SECONDS, BATCH_BYTES = 16, 0.16, 41_000
FOLLOWER = "102"
LOADS, PHASE_SECONDS = (1.0, 2.0, 1.0, 0.5), 10.0
MOVED_BATCH_BYTES, REPLICAS, LIMIT_BYTES = 16_205, 8, 1024 * 1024
APPEND_SECONDS = 0.001
"""Of a leader, until a batch can be fetched."""
READ_SECONDS, RETURN_SECONDS, ACKNOWLEDGE_SECONDS = 0.0005, 0.0005, 0.0008
LATE_SECONDS = 0.003
"""How much later a follower is back now and then, on average: the machine had something else to do."""
MOST_WAIT_SECONDS, LEAST_WAIT_SECONDS = 0.5, 0.01


class Card:
    """A network card: a burst at once, then so many bytes a second."""

    def __init__(self) -> None:
        self._tokens, self._at = float(CARD_BURST_BYTES), 0.0

    def sent(self, size: float, now: float) -> float:
        """Return when the last of `size` bytes is through."""
        tokens = min(self._tokens + (now - self._at) * LINK, CARD_BURST_BYTES) - size
        self._at = now + max(-tokens, 0.0) / LINK
        self._tokens = max(tokens, 0.0)
        return self._at


class Catching:
    """What the sidecar lets catch up beside them, at a rate that does not hurt."""

    def __init__(self) -> None:
        self._source = RateSource(100 * MB, 1 * MB, auto=True)
        self._held = self._source.least
        self._budget = StrictBudget(
            bytes_per_second=self._held, gate_seconds=AUTO_GATE_SECONDS, burst_seconds=0.25, now=0.0
        )
        self._claim = self._budget.turns.join()
        self._riding, self._timings = Riding(), BrokerTimings()
        self._signals, self._rate = Signals(), AutoRate()
        self._used = self._granted = 0
        self._looked_at = 0.0
        self._is_pressed = self._was_pressed = False
        self.moved_bytes = 0

    def came_back(self, seconds: float, now: float) -> None:
        self._is_pressed |= self._timings.came_back(seconds)
        if self._is_pressed and not self._was_pressed:
            self._lower(now)
        self._riding.came_back(seconds, self._granted, now)
        self._claim.most_riding_bytes = max(self._riding.most_bytes, self._source.least * seconds)

    def granted(self, now: float) -> int:
        while self._looked_at + 1.0 <= now:
            self._look(self._looked_at + 1.0)
        wish = Wish(LIMIT_BYTES, LEAST_NEED_BYTES)
        first = wish_within(self._claim.most_riding_bytes, wish, MOVED_BATCH_BYTES)
        self._granted = sum(self._budget.admit(self._claim, [first] + [wish] * (REPLICAS - 1), now, rides=True))
        return self._granted

    def waits(self, now: float) -> float:
        return min(max(self._budget.seconds_until_turn(self._claim, now), LEAST_WAIT_SECONDS), MOST_WAIT_SECONDS)

    def brought(self, asked_at: float, began: float, ended: float) -> None:
        """All of the grant. Of a part of a batch nothing is left."""
        self._timings.answered(began - asked_at)
        self._budget.settle(self._claim, reserved=self._granted, used=self._granted, now=ended)
        self._used += self._granted
        self.moved_bytes += self._granted // MOVED_BATCH_BYTES * MOVED_BATCH_BYTES

    def _look(self, now: float) -> None:
        times = Times({FOLLOWER: self._timings.take()})
        self._choose(self._signals.read(times, now, at_least=self._is_at_least, host=None), now)
        self._is_pressed = self._was_pressed = False

    def _lower(self, now: float) -> None:
        self._was_pressed = True
        if not self._is_at_least:
            pauses = {FOLLOWER: self._timings.take_last_pauses()}
            self._choose(self._signals.read_pauses(pauses, now), now)

    @property
    def _is_at_least(self) -> bool:
        return self._held <= self._source.least

    def _choose(self, readings: list[Reading], now: float) -> None:
        used = self._used / (now - self._looked_at) if now > self._looked_at else 0.0
        self._held = self._rate.choose(self._source, readings, self._held, used=used, now=now).bytes_per_second
        self._timings.most_pause_seconds = self._signals.most_pause_seconds(FOLLOWER)
        self._budget.change_rate(self._held, now)
        self._used, self._looked_at = 0, now


@dataclass
class FullLink:
    """`late`: the share of fetches after which the follower is late."""

    catching: Catching | None
    late: float = 0.08
    seed: int = 1
    latencies: list[float] = field(default_factory=list)
    fetches: int = 0

    def run(self, *, seconds: float = 40.0, moved_bytes: float = 0.0) -> float:
        """Until so much has moved, or for so long without a move: return how long it took."""
        rng, card, due = random.Random(self.seed), Card(), _due(self.seed)
        soonest = next(due)
        now = 0.0
        while now < seconds if self.catching is None else self.catching.moved_bytes < moved_bytes:
            asked_at, granted = now, 0 if self.catching is None else self.catching.granted(now)
            wait = 0.0 if granted else MOST_WAIT_SECONDS if self.catching is None else self.catching.waits(now)
            began = max(now, min(soonest + APPEND_SECONDS, now + wait)) + READ_SECONDS
            batches: list[float] = []
            while soonest + APPEND_SECONDS <= began:
                batches.append(soonest)
                soonest = next(due)
            ended = card.sent(granted + len(batches) * BATCH_BYTES, began)
            if granted and self.catching is not None:
                self.catching.brought(asked_at, began, ended)
            now = ended + RETURN_SECONDS + (rng.expovariate(1 / LATE_SECONDS) if rng.random() < self.late else 0.0)
            self.fetches += 1
            self.latencies += [now + ACKNOWLEDGE_SECONDS - batch for batch in batches]
            if batches and self.catching is not None:
                self.catching.came_back(now - began, now)
        return now

    def percentile(self, share: float) -> float:
        return sorted(self.latencies)[int(share * len(self.latencies))]


def _due(seed: int) -> Iterator[float]:
    """When batches are due, one after the other: producers write in turns, each a little late."""
    rng, at = random.Random(seed), 0.0
    while True:
        at += INTERVAL_SECONDS / PRODUCERS / LOADS[int(at / PHASE_SECONDS) % len(LOADS)]
        yield at + rng.uniform(0.0, 0.001)

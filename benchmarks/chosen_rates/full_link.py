"""A link that catch-up shares with acks=all producers, fetch by fetch, in virtual time: what a batch waits.

A follower fetches what producers write to partitions in sync, and what catches up, over one connection or over two. The
decisions are the sidecar's own: what is granted beside records in sync (`StrictBudget`, `CatchUpWindow`), and the rate
(`PeerLatencies`, `Signals`, `RoleRate`). The card is that of `scene`: a token bucket, and a queue behind it.

Deterministic: the same scene and seed give the same figures.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from admission.budget import StrictBudget
from admission.budget_path import BudgetPath
from admission.wishes import Wish
from proxy.quotas.rate_source import RateSource
from proxy.rates.choice import Observed
from proxy.rates.role_rate import RoleRate
from proxy.rates.signals import Signals
from proxy.throttle.budget_claim import CatchUpWindow
from proxy.throttle.peer_latencies import LatencySample, PeerLatencies
from proxy.throttle.role_throttle import AUTO_GATE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.rates.choice import Choice
    from proxy.rates.signals import Reading

    from .shapes import Load, Part

MB = 1e6
CARD_BURST_BYTES = 256 * 1024
MOVED_BATCH_BYTES, REPLICAS, LIMIT_BYTES = 16_205, 8, 1024 * 1024
APPEND_SECONDS = 0.001
"""The time that a leader takes until a batch can be fetched."""
READ_SECONDS, RETURN_SECONDS, ACKNOWLEDGE_SECONDS = 0.0005, 0.0005, 0.0008
LATE_SECONDS = 0.003
"""How much later a follower is back now and then, on average: the machine had something else to do."""
STALL_SECONDS = 0.3
MAX_WAIT_SECONDS, MIN_WAIT_SECONDS = 0.5, 0.01
BURST_SECONDS = 0.25
ALWAYS_BESIDE = True
LOOK_SECONDS = 1.0
_FOLLOWER = "102"
_BEGINNING = datetime(2026, 11, 1, tzinfo=UTC)


class Scene(NamedTuple):
    link: float
    """Bytes per second."""
    load: Load
    late: float = 0.08
    """The share of fetches after which the follower is late."""
    stalls: float = 0.0
    """How many times a second, on average, the machine stands still for `STALL_SECONDS`."""
    least: float = 1 * MB
    most: float = 200 * MB


class Card:
    """A network card: a burst at once, then so many bytes a second."""

    def __init__(self, link: float) -> None:
        self._link = link
        self._tokens, self._at = float(CARD_BURST_BYTES), 0.0

    def sent(self, size: float, now: float) -> float:
        """Return when the last of `size` bytes is through."""
        begins = max(now, self._at)
        tokens = min(self._tokens + (begins - self._at) * self._link, CARD_BURST_BYTES) - size
        self._at = begins + max(-tokens, 0.0) / self._link
        self._tokens = max(tokens, 0.0)
        return self._at


class Catching:
    """The catch-up that the sidecar allows, at a rate that does not hurt."""

    def __init__(self, scene: Scene) -> None:
        self._source = RateSource(scene.most, scene.least, auto=True)
        self.held = self._source.least
        self._budget = StrictBudget(
            bytes_per_second=self.held, gate_seconds=AUTO_GATE_SECONDS, burst_seconds=BURST_SECONDS, now=0.0
        )
        self._path = BudgetPath(self._budget)
        self._piggyback, self._timings = CatchUpWindow(), PeerLatencies()
        self._signals, self._rate = Signals(), RoleRate()
        self._used = self._granted = self._carried = 0
        self._looked_at = 0.0
        self._is_pressed = self._was_pressed = False
        self.moved_bytes = 0
        self.trace: list[tuple[float, Choice]] = []

    def came_back(self, seconds: float, size: int, now: float, *, moves: bool, in_sync: bool) -> None:
        if in_sync:
            self._is_pressed |= self._timings.came_back(seconds, size)
            if self._is_pressed and not self._was_pressed:
                self._lower(now)
        if moves:
            self._piggyback.came_back(seconds, self._granted, size, now)
            self._path.fetcher.max_bytes_beside_in_sync = max(self._piggyback.most_bytes, self._source.least * seconds)

    def carried(self, size: int) -> None:
        self._timings.carried_bytes += size
        self._carried += size

    def granted(self, now: float, *, beside_in_sync: bool) -> int:
        wish = Wish(LIMIT_BYTES, MOVED_BATCH_BYTES, first_bytes=MOVED_BATCH_BYTES, batch_bytes=MOVED_BATCH_BYTES)
        self._granted = sum(self._path.grant([wish] * REPLICAS, now, beside_in_sync=beside_in_sync))
        return self._granted

    def waits(self, now: float) -> float:
        return min(max(self._path.seconds_until_turn(now), MIN_WAIT_SECONDS), MAX_WAIT_SECONDS)

    def brought(self, asked_at: float, began: float, ended: float, granted: int) -> None:
        """Settle all of the grant. Of a part of a batch nothing is left."""
        self._timings.answered(began - asked_at)
        self._path.settle(reserved=granted, used=granted, now=ended)
        self._used += granted
        self.moved_bytes += granted // MOVED_BATCH_BYTES * MOVED_BATCH_BYTES

    def look(self, now: float) -> None:
        times = LatencySample({_FOLLOWER: self._timings.take_sample(now)})
        self._choose(self._signals.read(times, now, at_least=self._is_at_least, host=None), now)
        self._is_pressed = self._was_pressed = False

    def _lower(self, now: float) -> None:
        self._was_pressed = True
        if not self._is_at_least and (pause := self._timings.take_last_pauses()) is not None:
            self._choose(self._signals.read_pauses({_FOLLOWER: pause}, now), now)

    @property
    def _is_at_least(self) -> bool:
        return self.held <= self._source.least

    def _choose(self, readings: list[Reading], now: float) -> None:
        used = self._used / (now - self._looked_at) if now > self._looked_at else 0.0
        carried = self._carried / (now - self._looked_at) if now > self._looked_at else 0.0
        observed = Observed(
            behind=REPLICAS, used_bytes_per_second=used, carried_bytes_per_second=carried, readings=readings
        )
        wall = _BEGINNING + timedelta(seconds=now)
        choice = self._rate.choose(self._source, observed, self.held, since=_BEGINNING, wall=wall, now=now)
        self.held = choice.bytes_per_second
        self.trace.append((now, choice))
        timings = self._timings
        timings.best_pause_seconds, timings.most_pause_seconds = self._signals.pause_bounds(_FOLLOWER)
        self._budget.change_rate(self.held, now)
        self._used = self._carried = 0
        self._looked_at = now


@dataclass
class FullLink:
    """One run of a full link. `catching`: None without a move."""

    scene: Scene
    catching: Catching | None
    seed: int = 1
    latencies: list[float] = field(default_factory=list)
    fetches: int = 0
    now: float = 0.0

    def __post_init__(self) -> None:
        self._rng, self._card = random.Random(self.seed), Card(self.scene.link)
        self._stalls, self._stall = random.Random(f"{self.seed} stalls"), -STALL_SECONDS
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        parts, moves_on = self.scene.load
        for number in sorted({part.connection for part in parts} | {moves_on}):
            own = [
                _due(part, self.scene.link, f"{self.seed} {index}")
                for index, part in enumerate(parts)
                if part.connection == number
            ]
            _Connection(self, heapq.merge(*own), has_topics=bool(own), moves=number == moves_on).ask()
        if self.catching is not None:
            self._look()

    def at(self, when: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), act))

    def late(self) -> float:
        return self._rng.expovariate(1 / LATE_SECONDS) if self._rng.random() < self.scene.late else 0.0

    def stalled(self, when: float) -> float:
        """Return `when`, or the end of the time in which the machine stands still."""
        while self.scene.stalls and self._stall < when - STALL_SECONDS:
            self._stall += STALL_SECONDS + self._stalls.expovariate(self.scene.stalls)
        return max(when, self._stall + STALL_SECONDS) if self._stall <= when else when

    def send(self, size: float) -> float:
        return self._card.sent(size, self.now)

    def _look(self) -> None:
        assert self.catching is not None
        self.catching.look(self.now)
        self.at(self.now + LOOK_SECONDS, self._look)

    def run(self, *, seconds: float = 40.0, moved_bytes: float = 0.0) -> float:
        """Run until so much has moved, or for so long without a move; return how long it took. Ten minutes at most."""
        while self.now < (seconds if self.catching is None else 600.0):
            if self.catching is not None and self.catching.moved_bytes >= moved_bytes:
                break
            self.now, _, act = heapq.heappop(self._events)
            act()
        return self.now

    def percentile(self, share: float) -> float:
        return sorted(self.latencies)[int(share * len(self.latencies))]


class _Connection:
    """One fetch after the other."""

    def __init__(self, run: FullLink, due: Iterator[tuple[float, int]], *, has_topics: bool, moves: bool) -> None:
        self._run, self._due, self._has_topics, self._moves = run, due, has_topics, moves
        self._soonest = next(due, (math.inf, 0))

    def ask(self) -> None:
        run, now = self._run, self._run.now
        catching = run.catching if self._moves else None
        granted = 0 if catching is None else catching.granted(now, beside_in_sync=ALWAYS_BESIDE or self._has_topics)
        waits = 0.0 if granted else MAX_WAIT_SECONDS if catching is None else catching.waits(now)
        began = run.stalled(max(now, min(self._soonest[0] + APPEND_SECONDS, now + waits)) + READ_SECONDS)
        run.at(began, lambda: self._send(now, granted))

    def _send(self, asked_at: float, granted: int) -> None:
        run, began = self._run, self._run.now
        batches, size = [], granted
        while self._soonest[0] + APPEND_SECONDS <= began:
            batches.append(self._soonest[0])
            size += self._soonest[1]
            self._soonest = next(self._due)
        ended = run.send(size)
        run.at(ended + RETURN_SECONDS + run.late(), lambda: self._back(asked_at, began, ended, granted, size, batches))

    def _back(self, asked_at: float, began: float, ended: float, granted: int, size: int, batches: list[float]) -> None:
        run, catching = self._run, self._run.catching
        run.fetches += 1
        run.latencies += [run.now + ACKNOWLEDGE_SECONDS - batch for batch in batches]
        if catching is not None:
            catching.carried(size)
            if granted:
                catching.brought(asked_at, began, ended, granted)
            if batches or granted:
                catching.came_back(run.now - began, size, run.now, moves=self._moves, in_sync=bool(batches))
        self.ask()


def _due(part: Part, link: float, seed: str) -> Iterator[tuple[float, int]]:
    """Yield when batches are due, one after the other, and their size: producers write in turns, each a little late."""
    rng, at = random.Random(seed), 0.0
    while True:
        at += part.batch_bytes / (part.load(at) * link)
        yield at + rng.uniform(0.0, 0.001), part.batch_bytes

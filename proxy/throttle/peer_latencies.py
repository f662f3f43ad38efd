"""Measures the delays of a role's peers, second by second: leaders that answer catch-up reads, followers that come
back.

Any peer may connect where no password is required, claim to be a broker, and be slow. So only connections count that
have brought replication for some time (`PROVEN_SECONDS`, `ELDER_SHARE`), and the samples of all connections of one
broker make one value.

A sample costs the data path a subtraction and an append, and at most `MAX_SAMPLES` are kept until they are taken, once
a second. If many pauses are too long and few between them are not, `on_standing_queue` is called at once and not at the
next look. One second of long pauses is 3 % of a move of half a minute, so it alone would decide the producers' 99th
percentile. Pure: times are arguments. Invariant: no sample is kept once it was taken.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sized


MAX_SAMPLES = 256
"""The number of the last samples that are kept."""
STANDING_PAUSES = 10
"""The number of long pauses, with few short ones among them, that means a queue and not chance. At 300 fetches a second
this takes 30 ms. With 25, producers waited longer. With 8, a move took longer, because chance reached that number more
often (simulated, benchmarks/chosen_rates/full_link.py)."""
SHORT_PAUSE_COUNTS = 3
"""A pause that is not too long weighs as much as so many that are: a machine with other work makes up to a third of
them late, and that is no queue."""
PROVEN_SECONDS = 10
"""A connection counts after it has brought records in so many different seconds. As long as no connection of the role
has, all count: for the first seconds of a process there is no better evidence."""
LIVE_SECONDS = 5.0
"""Seconds after records of replicas in sync in which catch-up comes in small pieces, on every connection. When it
came as a whole burst in one answer, the next record waited a tenth of a second for it (measured, 50 batches a
second)."""
THROUGHPUT_SECONDS = 30
"""The number of looks of which the most that a broker was sent is kept."""
ELDER_SHARE = 0.5
"""The share of the seconds of a broker's most proven connection in which another one must have brought records to
count. A broker's fetchers connect together and stay for days. A peer that claims to be that broker has to bring its
records for half as long before it has a say."""
MIN_RISE_SECONDS = 0.005
"""The rise of a leader's answers, or of a follower's pauses before its next fetch, over their best that says nothing.
Records may be read from a disk or from memory; and producers with acks=all wait for two or three pauses. With 1.5 ms,
and the answer's own time counted, links of 5 to 20 MB/s were used to 0.51 to 0.75 of what producers left: at 10 MB/s a
portion of 32 KiB alone takes 3.3 ms, and a batch of 40 kB 4.1 (simulated, benchmarks/chosen_rates/simulated.py)."""


def tolerated_rise(best_seconds: float) -> float:
    """Return how many seconds more than at its best something may take before catch-up hurts: as many again, and
    `MIN_RISE_SECONDS` always."""
    return max(best_seconds, MIN_RISE_SECONDS)


class PeerLatencies:
    """Samples of one broker's connections until they are taken."""

    __slots__ = (
        "_answers", "_pauses", "_taken", "_throughputs", "_too_long", "best_pause_seconds", "bytes_per_second",
        "carried_bytes", "most_pause_seconds",
    )  # fmt: skip

    def __init__(self) -> None:
        self.most_pause_seconds = math.inf
        """The longest pause that is not too long; set by the rate's choice."""
        self.best_pause_seconds = math.inf
        """The shortest pause of a second; set by the rate's choice."""
        self.bytes_per_second = math.inf
        """The most that the broker was sent in one of the last seconds; infinite until a second is over."""
        self.carried_bytes = 0
        """The bytes that the broker was sent since this began."""
        self._taken: tuple[float, int] | None = None
        """The time of the last samples, and what the broker had been sent until then."""
        self._throughputs: deque[float] = deque(maxlen=THROUGHPUT_SECONDS)
        self._answers: deque[float] = deque(maxlen=MAX_SAMPLES)
        self._pauses: deque[float] = deque(maxlen=MAX_SAMPLES)
        self._too_long = 0

    def answered(self, seconds: float) -> None:
        """Note that an answer with granted records begins, `seconds` after the request was decided."""
        self._answers.append(seconds)

    def came_back(self, seconds: float, size: int = 0) -> bool:
        """Note that the follower asked again, `seconds` after an answer of this size with records of replicas in sync
        began to go on. Return whether `STANDING_PAUSES` were too long.

        The time that the answer itself takes on its way at `bytes_per_second` does not count: it is no queue. What is
        left counts as the best pause at least, since a link may let a burst through at once.
        """
        best = self.best_pause_seconds
        if seconds > best:
            seconds = max(seconds - size / self.bytes_per_second, best)
        self._pauses.append(seconds)
        if seconds <= self.most_pause_seconds:
            self._too_long = max(self._too_long - SHORT_PAUSE_COUNTS, 0)
            return False
        self._too_long += 1
        if self._too_long < STANDING_PAUSES:
            return False
        self._too_long = 0
        return True

    def take_last_pauses(self) -> float | None:
        """Return the upper quartile of the last `STANDING_PAUSES` pauses, and forget all of them."""
        found = _upper_quartile(list(self._pauses)[-STANDING_PAUSES:])
        self._pauses.clear()
        return found

    def take_sample(self, now: float) -> PeerLatencySample:
        """Return what was measured since the last call."""
        if self._taken is not None and now > self._taken[0]:
            self._throughputs.append((self.carried_bytes - self._taken[1]) / (now - self._taken[0]))
            self.bytes_per_second = max(self._throughputs) or math.inf
        self._taken = now, self.carried_bytes
        found = PeerLatencySample(_upper_quartile(self._pauses), median(self._answers) if self._answers else None)
        self._answers.clear()
        self._pauses.clear()
        return found


class PeerLatencySample(NamedTuple):
    """The delays of one broker's connections in the last second; None where there was no sample."""

    pause_seconds: float | None = None
    """The upper quartile of the pauses before the next fetch."""
    answer_seconds: float | None = None
    """The median of the waits for an answer."""


class LinkTimings:
    """Notes for one connection, which has one fetch on its way at a time, when the records of an answer began to go on.
    A pause counts only if some are of replicas in sync, listed or not: what catches up goes before these in the same
    answer and makes them wait."""

    __slots__ = ("_behind", "_has_in_sync", "_in_sync", "_since", "counted_as", "proven_at", "proven_seconds")

    def __init__(self) -> None:
        self._since: float | None = None
        self._has_in_sync = False
        self.proven_seconds = 0
        """The number of different seconds in which records of replicas went on, under a rate that paces."""
        self.proven_at = -math.inf
        """The last of them."""
        self.counted_as: PeerLatencies | None = None
        """The broker for which samples of this connection count; None: they do not count."""
        self._behind = self._in_sync = 0

    def records_go_on(self, now: float, *, in_sync: bool) -> None:
        if self._since is None:
            self._since = now
        self._has_in_sync |= in_sync
        if now - self.proven_at >= 1.0:
            self.proven_seconds += 1
            self.proven_at = now

    def take_since(self) -> tuple[float | None, bool]:
        """Note that the follower asks again. Return when its last answer's first records went on, None where it had
        none, and whether some were in sync."""
        found = self._since, self._has_in_sync
        self._since, self._has_in_sync = None, False
        return found

    def answered(self, seconds: float) -> None:
        if self.counted_as is not None:
            self.counted_as.answered(seconds)

    def fell_behind(self, behind: int, in_sync: int) -> bool:
        """Record how many of the connection's replicas are behind and in sync, and return whether one has fallen out of
        sync since the last call. If only one of the two has changed, replicas came or went."""
        fell = behind > self._behind and in_sync < self._in_sync
        self._behind, self._in_sync = behind, in_sync
        return fell


class TimedReplicas(Protocol):
    """The replicas of one connection, as far as its timings go."""

    @property
    def known(self) -> Sized: ...
    @property
    def behind(self) -> Sized: ...
    @property
    def new(self) -> Sized: ...
    @property
    def timings(self) -> LinkTimings: ...


class TimedLink(Protocol):
    """One connection; `peer` is the other broker, for people."""

    @property
    def peer(self) -> str: ...
    @property
    def replicas(self) -> TimedReplicas: ...


class RoleLatencies:
    """The delays of one role, while its rate is one with `auto`: no other rate is chosen by them."""

    __slots__ = ("_pressing", "are_wanted", "brokers", "carried_bytes", "live_until", "on_standing_queue")

    def __init__(self) -> None:
        self.are_wanted = False
        """True if a rate is chosen by these samples now, so connections that carry nothing throttled are timed as
        well."""
        self.on_standing_queue: Callable[[], None] | None = None
        """The callback for `STANDING_PAUSES` long pauses of one broker."""
        self.brokers: Mapping[str, PeerLatencies] = {}
        """The brokers that have a connection that counts."""
        self._pressing = ""
        """The broker whose pauses were too long last."""
        self.carried_bytes = 0
        """The bytes that all connections that count were sent."""
        self.live_until = -math.inf
        """The time until which producers count as writing to partitions that are in sync (`LIVE_SECONDS`)."""

    def carried(self, link: TimedLink, size: int) -> None:
        """Record the size of an answer."""
        counted_as = link.replicas.timings.counted_as
        if counted_as is not None:
            counted_as.carried_bytes += size
            self.carried_bytes += size

    def came_back(self, link: TimedLink, seconds: float, size: int, now: float) -> None:
        """Record a follower's pause after an answer of this size."""
        counted_as = link.replicas.timings.counted_as
        if counted_as is None:
            return
        self.live_until = now + LIVE_SECONDS
        if counted_as.came_back(seconds, size):
            self._pressing = link.peer
            if self.on_standing_queue is not None:
                self.on_standing_queue()

    def take_last_pauses(self) -> dict[str, float]:
        """Return the upper quartile of the last `STANDING_PAUSES` turnarounds of the broker that was too late, by its
        name, and forget those of all: those before the queue stood say nothing of it."""
        found = {broker: timings.take_last_pauses() for broker, timings in self.brokers.items()}
        pressing = found.get(self._pressing)
        return {} if pressing is None else {self._pressing: pressing}

    def take_sample(self, links: Iterable[TimedLink], now: float) -> LatencySample:
        """Return what was measured since the last call, and find out which of the connections count from now on."""
        found = {broker: timings.take_sample(now) for broker, timings in self.brokers.items()}
        fell_behind = False
        for link in links:
            replicas = link.replicas
            in_sync = len(replicas.known) - len(replicas.behind) - len(replicas.new)
            fell = replicas.timings.fell_behind(len(replicas.behind), in_sync)
            fell_behind |= fell and replicas.timings.counted_as is not None
        self._count(links, now)
        return LatencySample(found, fell_behind)

    def _count(self, links: Iterable[TimedLink], now: float) -> None:
        found: dict[str, list[LinkTimings]] = {}
        for link in links:
            timings = link.replicas.timings
            timings.counted_as = None
            if now - timings.proven_at < PROVEN_SECONDS:
                found.setdefault(link.peer, []).append(timings)
        most = {broker: max(each.proven_seconds for each in connections) for broker, connections in found.items()}
        least = PROVEN_SECONDS if max(most.values(), default=0) >= PROVEN_SECONDS else 0
        brokers = {}
        for broker, connections in found.items():
            if most[broker] < least:
                continue
            brokers[broker] = self.brokers.get(broker) or PeerLatencies()
            for each in connections:
                if each.proven_seconds >= max(least, ELDER_SHARE * most[broker]):
                    each.counted_as = brokers[broker]
        self.brokers = brokers


class LatencySample(NamedTuple):
    """The delays of a role's connections in the last second."""

    brokers: Mapping[str, PeerLatencySample] = {}
    fell_behind: bool = False
    """True if a replica that was in sync is no longer."""


def _upper_quartile(values: Collection[float]) -> float | None:
    """Return the upper quartile: it is as high for a link that is full for half of a second as for one that is full all
    the time, and a single slow fetch does not raise it."""
    return sorted(values)[3 * (len(values) - 1) // 4] if values else None

"""What says whether catch-up hurts, each as a pressure: 0 is its best, above 1 is too much.

- `in_sync_followers`: how long followers take from an answer with records of replicas in sync to their next fetch: a
  link that is full, what catches up in the same answer, an append that waits for its disk or for memory.
- `catch_up_reads`: how long leaders take to begin an answer to a fetch of replicas that are behind.
- `in_sync_replicas`: replicas that were in sync and no longer are.
- `io_pressure`: the share of the last second in which something on this host waited for a disk (/proc/pressure/io).
- `network`: what a network interface of this host carries, of what its link can.

The first two are compared with their own best, as TCP Vegas does. The best is the least that was seen at any rate. It
is learnt anew when the rate has been at its lower bound for half a minute: what is slow even then is not slow because
of catch-up.
Pure: time is an argument. Invariant: a pressure is a number of at least 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ..quotas.query_signals import Signal
from ..throttle.timings import LEAST_ANSWER_RISE_SECONDS, LEAST_PAUSE_RISE_SECONDS, tolerated_rise

if TYPE_CHECKING:
    from .host import HostReading

RELEARN_SECONDS = 30.0
IO_SHARE = 0.4
"""If something waited for a disk during this share of a second, the pressure is 1."""
NETWORK_SHARE = 0.85
FELL_BEHIND_SECONDS = 5.0
"""How long the pressure stays after a replica fell out of sync."""
FELL_BEHIND_PRESSURE = 2.0


class Reading(NamedTuple):
    signal: str
    pressure: float
    seen_at: float
    """When the value was measured, in seconds of the clock that is never set."""
    words: str
    """What it is, for people."""


class OwnBest:
    """The pressure of a duration against its own best."""

    def __init__(self, signal: Signal, what: str, *, least_rise_seconds: float) -> None:
        """A rise by less than `least_rise_seconds` is noise."""
        self._signal, self._what, self._least_rise_seconds = signal, what, least_rise_seconds
        self._best = math.inf
        self._least_since: float | None = None
        self._best_at_least = math.inf

    @property
    def most_seconds(self) -> float:
        """A longer duration is a pressure above 1; infinite as long as there is no best."""
        return self._best + tolerated_rise(self._best, self._least_rise_seconds)

    def read(self, seconds: float | None, now: float, *, at_least: bool) -> Reading | None:
        """Take a second's duration, None if nothing was measured. `at_least`: the rate could not be lower."""
        self._relearn(seconds, now, at_least=at_least)
        if seconds is None:
            return None
        self._best = min(self._best, seconds)
        rise = seconds - self._best
        pressure = rise / tolerated_rise(self._best, self._least_rise_seconds)
        words = f"{self._what} of {seconds * 1000:.1f} ms ({self._best * 1000:.1f} ms at best)"
        return Reading(self._signal, pressure, now, words)

    def _relearn(self, seconds: float | None, now: float, *, at_least: bool) -> None:
        if not at_least:
            self._least_since = None
            return
        if self._least_since is None:
            self._least_since, self._best_at_least = now, math.inf
        if seconds is not None:
            self._best_at_least = min(self._best_at_least, seconds)
        if now - self._least_since >= RELEARN_SECONDS:
            self._best = self._best_at_least
            self._least_since, self._best_at_least = now, math.inf


class Signals:
    """Of one role: from what was measured in a second to readings."""

    def __init__(self) -> None:
        self._turnarounds = OwnBest(
            Signal.IN_SYNC_FOLLOWERS,
            "a pause of in-sync followers before their next fetch",
            least_rise_seconds=LEAST_PAUSE_RISE_SECONDS,
        )
        self._answers = OwnBest(
            Signal.CATCH_UP_READS,
            "a wait for answers to catch-up reads",
            least_rise_seconds=LEAST_ANSWER_RISE_SECONDS,
        )
        self._behind = self._in_sync = 0
        self._fell_behind_at = -math.inf

    def read(
        self,
        measured: Measured,
        now: float,
        *,
        at_least: bool,
        host: HostReading | None,
    ) -> list[Reading]:
        """Return what can be said now. `at_least`: the rate could not be lower; `host`: None where nothing is seen."""
        found = [
            self._turnarounds.read(measured.turnaround_seconds, now, at_least=at_least),
            self._answers.read(measured.answer_seconds, now, at_least=at_least),
            self._replicas(measured.behind, measured.in_sync, now),
        ]
        if host is not None and host.io_share is not None:
            words = f"{host.io_share:.0%} of a second waiting for disks"
            found.append(Reading(Signal.IO_PRESSURE, host.io_share / IO_SHARE, now, words))
        if host is not None and host.network_share is not None:
            words = f"{host.network_share:.0%} of {host.interface}'s link"
            found.append(Reading(Signal.NETWORK, host.network_share / NETWORK_SHARE, now, words))
        return [reading for reading in found if reading is not None]

    @property
    def most_pause_seconds(self) -> float:
        """A follower's pause that is longer is too long."""
        return self._turnarounds.most_seconds

    def read_pauses(self, seconds: float | None, now: float) -> list[Reading]:
        """Return what the last few pauses say between two calls of `read`, at a rate that could be lower."""
        found = self._turnarounds.read(seconds, now, at_least=False)
        return [] if found is None else [found]

    def _replicas(self, behind: int, in_sync: int, now: float) -> Reading | None:
        """A replica has fallen out of sync if more replicas are behind than before, and fewer are in sync. When a move
        begins, or a connection ends, only one of the two is so."""
        if behind > self._behind and in_sync < self._in_sync:
            self._fell_behind_at = now
        self._behind, self._in_sync = behind, in_sync
        if now - self._fell_behind_at >= FELL_BEHIND_SECONDS:
            return None
        return Reading(
            Signal.IN_SYNC_REPLICAS, FELL_BEHIND_PRESSURE, self._fell_behind_at, "a replica that fell out of sync"
        )


class Measured(NamedTuple):
    """What a role's connections said in the last second."""

    turnaround_seconds: float | None = None
    answer_seconds: float | None = None
    behind: int = 0
    in_sync: int = 0
    """Replicas whose standing is unknown are not counted here."""

"""Signals of whether catch-up hurts, each as a pressure: 0 is its best, above 1 is too much.

- `in_sync_followers`: how long followers take from an answer with records of replicas in sync to their next fetch: a
  link that is full, what catches up in the same answer, an append that waits for its disk or for memory.
- `catch_up_reads`: how long leaders take to begin an answer to a fetch of replicas that are behind.
- `in_sync_replicas`: replicas that were in sync and no longer are.
- `io_pressure`: the share of the last second in which something on this host waited for a disk (/proc/pressure/io).
- `network`: the load of a network interface of this host, as a share of its link. In a container the interfaces are the
  container's own, and their speed is mostly unknown; pressure is the whole host's.

The first two are compared with their own best, as TCP Vegas does, broker by broker; the slowest broker counts, since
producers with acks=all wait for it. The best is the least that was seen at any rate. It is learnt anew when the rate
has been at its lower bound for half a minute: what is slow even then is not slow because of catch-up.
`read_counters` reads Linux's /proc and /sys, in a thread; all else is pure: time is an argument. Invariants: a pressure
is a number of at least 0; a value that cannot be read or makes no sense is None.
"""

from __future__ import annotations

import enum
import math
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..throttle.peer_latencies import tolerated_rise

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..throttle.peer_latencies import LatencySample


RELEARN_SECONDS = 30.0
IO_SHARE = 0.4
"""The share of a second with a wait for a disk that counts as a pressure of 1."""
NETWORK_SHARE = 0.85
FELL_BEHIND_SECONDS = 5.0
"""The time for which the pressure stays after a replica fell out of sync."""
FELL_BEHIND_PRESSURE = 2.0
_SOME = re.compile(r"^some .*total=([0-9]+)$", re.MULTILINE)


class Signal(enum.StrEnum):
    """The value is the metric label `signal`."""

    IN_SYNC_FOLLOWERS = "in_sync_followers"
    CATCH_UP_READS = "catch_up_reads"
    IN_SYNC_REPLICAS = "in_sync_replicas"
    IO_PRESSURE = "io_pressure"
    NETWORK = "network"


class Reading(NamedTuple):
    """The last measurement of a signal."""

    signal: str
    pressure: float
    seen_at: float
    """The time of the measurement, in seconds of the monotonic clock."""
    words: str
    """The signal in words, for people."""


class OwnBest:
    """The pressure of a duration against its own best."""

    def __init__(self, signal: Signal, what: str) -> None:
        self._signal, self._what = signal, what
        self._best = math.inf
        self._least_since: float | None = None
        self._best_at_least = math.inf

    @property
    def best_seconds(self) -> float:
        return self._best

    @property
    def most_seconds(self) -> float:
        """The duration above which the pressure exceeds 1; infinite as long as there is no best."""
        return self._best + tolerated_rise(self._best)

    def read(self, seconds: float | None, now: float, *, at_least: bool) -> Reading | None:
        """Record a second's duration, None if nothing was measured. `at_least`: the rate could not be lower."""
        self._relearn(seconds, now, at_least=at_least)
        if seconds is None:
            return None
        self._best = min(self._best, seconds)
        rise = seconds - self._best
        pressure = rise / tolerated_rise(self._best)
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


class OwnBests:
    """One signal of all brokers, each compared with its own best; the worst counts."""

    def __init__(self, signal: Signal, what: str) -> None:
        self._make = partial(OwnBest, signal, what)
        self._brokers: dict[str, OwnBest] = {}

    def bounds(self, broker: str) -> tuple[float, float]:
        """Return a broker's best, and the longest duration that is no pressure above 1; infinite as long as there is
        no best."""
        found = self._brokers.get(broker)
        return (math.inf, math.inf) if found is None else (found.best_seconds, found.most_seconds)

    def read(self, seconds: Mapping[str, float | None], now: float, *, at_least: bool) -> list[Reading]:
        """Record a duration of each broker, None where nothing was measured; return the worst one's, if there is
        any."""
        found = [self._of(broker).read(each, now, at_least=at_least) for broker, each in seconds.items()]
        return sorted((each for each in found if each is not None), key=lambda each: -each.pressure)[:1]

    def keep(self, brokers: Collection[str]) -> None:
        """Forget all other brokers."""
        self._brokers = {broker: best for broker, best in self._brokers.items() if broker in brokers}

    def _of(self, broker: str) -> OwnBest:
        if broker not in self._brokers:
            self._brokers[broker] = self._make()
        return self._brokers[broker]


class Signals:
    """Turns the measurements of a role and second into readings."""

    def __init__(self) -> None:
        self._pauses = OwnBests(
            Signal.IN_SYNC_FOLLOWERS,
            "a pause of in-sync followers before their next fetch",
        )
        self._answers = OwnBests(
            Signal.CATCH_UP_READS,
            "a wait for answers to catch-up reads",
        )
        self._fell_behind_at = -math.inf

    def read(self, times: LatencySample, now: float, *, at_least: bool, host: HostReading | None) -> list[Reading]:
        """Return the present pressures. `at_least`: the rate could not be lower; `host`: None where nothing is seen."""
        pauses = {broker: each.pause_seconds for broker, each in times.brokers.items()}
        answers = {broker: each.answer_seconds for broker, each in times.brokers.items()}
        for bests in (self._pauses, self._answers):
            bests.keep(times.brokers.keys())
        found = [
            *self._pauses.read(pauses, now, at_least=at_least),
            *self._answers.read(answers, now, at_least=at_least),
        ]
        if times.fell_behind:
            self._fell_behind_at = now
        if now - self._fell_behind_at < FELL_BEHIND_SECONDS:
            words, pressure = "a replica that fell out of sync", FELL_BEHIND_PRESSURE
            found.append(Reading(Signal.IN_SYNC_REPLICAS, pressure, self._fell_behind_at, words))
        if host is not None and host.io_share is not None:
            words = f"{host.io_share:.0%} of a second waiting for disks"
            found.append(Reading(Signal.IO_PRESSURE, host.io_share / IO_SHARE, now, words))
        if host is not None and host.network_share is not None:
            words = f"{host.network_share:.0%} of {host.interface}'s link"
            found.append(Reading(Signal.NETWORK, host.network_share / NETWORK_SHARE, now, words))
        return found

    def pause_bounds(self, broker: str) -> tuple[float, float]:
        """Return a broker's best pause, and the longest that is not too long."""
        return self._pauses.bounds(broker)

    def read_pauses(self, seconds: Mapping[str, float], now: float) -> list[Reading]:
        """Return the pressure by the last few pauses between two calls of `read`, at a rate that could be lower."""
        return self._pauses.read(seconds, now, at_least=False)


class HostCounters(NamedTuple):
    """The kernel's counters."""

    io_stalled_seconds: float | None
    interface_bytes: Mapping[str, tuple[int, int]]
    """The bytes received and sent, by interface."""
    link_bytes_per_second: Mapping[str, float]
    """The speed of each interface that says how fast its link is."""


class HostReading(NamedTuple):
    io_share: float | None
    network_share: float | None
    """The used share of the busiest interface's link, in its busier direction."""
    interface: str = ""


def read_counters(root: Path = Path("/")) -> HostCounters:
    """Read the counters. Blocking."""
    interfaces = parse_interfaces(_text(root / "proc/net/dev"))
    links = {name: _link(root / "sys/class/net" / name / "speed") for name in interfaces}
    return HostCounters(
        parse_pressure(_text(root / "proc/pressure/io")),
        interfaces,
        {name: speed for name, speed in links.items() if speed is not None},
    )


def reading(before: HostCounters, after: HostCounters, seconds: float) -> HostReading:
    """Return the rates in the `seconds` between two samples."""
    io_share = None
    if before.io_stalled_seconds is not None and after.io_stalled_seconds is not None and seconds > 0:
        io_share = min(max((after.io_stalled_seconds - before.io_stalled_seconds) / seconds, 0.0), 1.0)
    shares = {}
    for name, link in after.link_bytes_per_second.items():
        if seconds > 0 and name in before.interface_bytes:
            both = zip(after.interface_bytes[name], before.interface_bytes[name], strict=True)
            shares[name] = max(now - then for now, then in both) / seconds / link
    busiest = max(shares, key=lambda name: shares[name], default="")
    return HostReading(io_share, max(shares[busiest], 0.0) if busiest else None, busiest)


def parse_pressure(text: str) -> float | None:
    """Return the seconds in which a task waited, since the host's start; None where the kernel does not say."""
    found = _SOME.search(text)
    return int(found[1]) / 1e6 if found else None


def parse_interfaces(text: str) -> dict[str, tuple[int, int]]:
    """Parse /proc/net/dev, without the loopback interface."""
    found = {}
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        fields = rest.split()
        if colon and len(fields) >= 9 and fields[0].isdecimal() and fields[8].isdecimal() and name.strip() != "lo":
            found[name.strip()] = int(fields[0]), int(fields[8])
    return found


def _link(path: Path) -> float | None:
    """Return the link's bytes per second; None for an interface without a link, or a virtual one."""
    text = _text(path).strip()
    return int(text) * 1e6 / 8 if text.isdecimal() and int(text) > 0 else None


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", errors="replace")
    except OSError:
        return ""

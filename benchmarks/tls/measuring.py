"""One way, measured: bulk, small fetches, connections that come and go, connections that stay.

The follower, the relay and the leader share this machine's cores, so what a second brings says who takes the others'
time, and CPU says what it costs. Invariant: CPU and memory are the relay's own, its whole process tree's.
"""

from __future__ import annotations

import statistics
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NamedTuple

from lab.addresses import free_ports

from ..byte_path.loads import SMALL
from ..byte_path.usage import memory, tree, usage
from .ends import BULK, Follower, follower_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path

    from ..byte_path.loads import Load
    from .ways import Way

WARM_UP_SECONDS = 1.0
START_SECONDS = 15.0
SETTLED_CPU_SECONDS = 0.005
"""In half a second. A sidecar loads in the background what its first scrape needs, which is on no byte's account."""
DIALLERS = 4
IDLE_CONNECTIONS = 200


@dataclass(frozen=True, slots=True)
class Found:
    """Of one way in one round.

    Args:
        bytes_per_second: of bulk, on one connection.
        cpu_s_per_gb: of bulk.
        small_p50_us: of a fetch of one partition with 64 bytes, on one connection.
        small_cpu_us: of each of those.
        connections_per_second: dialled by four at once, each with one small fetch; two handshakes each.
        connection_cpu_ms: of each of those.
        connection_kib: of memory (proportional set), of each of 200 that have fetched once.
    """

    bytes_per_second: float
    cpu_s_per_gb: float
    small_p50_us: float
    small_cpu_us: float
    connections_per_second: float
    connection_cpu_ms: float
    connection_kib: float


NUMBERS = tuple(Found.__dataclass_fields__)


def medians(rounds: list[Found]) -> Found:
    return Found(**{name: statistics.median(asdict(found)[name] for found in rounds) for name in NUMBERS})


def measure(way: Way, home: Path, leader: int, seconds: float, cipher: str) -> Found:
    """Raises MissingError, OSError, or RuntimeError: its connections have another cipher suite."""
    context = follower_context(home)
    with _running(way, home, leader) as (pid, port):
        follower = _reached(context, port)
        if follower.cipher != cipher:
            raise RuntimeError(f"{way.name}: expected {cipher}, found {follower.cipher}")
        pids = tree([pid])
        _settle(pids)
        _fetches(follower, BULK, WARM_UP_SECONDS, pids)
        bulk = _fetches(follower, BULK, seconds, pids)
        _fetches(follower, SMALL, WARM_UP_SECONDS / 2, pids)
        small = _fetches(follower, SMALL, seconds / 2, pids)
        _dials(context, port, WARM_UP_SECONDS / 2, pids)
        dialled = _dials(context, port, seconds / 2, pids)
        connection_kib = _memory_of_each(context, port, pids)
        follower.close()
    return Found(
        bulk.bytes / bulk.seconds,
        bulk.cpu_seconds / bulk.bytes * 1e9,
        statistics.median(small.times) * 1e6,
        small.cpu_seconds / len(small.times) * 1e6,
        len(dialled.times) / dialled.seconds,
        dialled.cpu_seconds / len(dialled.times) * 1e3,
        connection_kib,
    )


class _Series(NamedTuple):
    """`times`: seconds that each fetch, or connection, took."""

    bytes: int
    seconds: float
    cpu_seconds: float
    times: list[float]


@contextmanager
def _running(way: Way, home: Path, leader: int) -> Iterator[tuple[int, int]]:
    """Its process id and port."""
    (port,) = free_ports(1)
    with (home / "relay.log").open("ab") as log:
        child = subprocess.Popen(way.begin(home, port, leader), stdout=log, stderr=log)
    try:
        yield child.pid, port
    finally:
        child.terminate()
        child.wait()


def _reached(context: ssl.SSLContext, port: int) -> Follower:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return Follower(context, port)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _settle(pids: list[int]) -> None:
    deadline = time.monotonic() + START_SECONDS
    before, quiet = usage(pids), 0
    while quiet < 2 and time.monotonic() < deadline:
        time.sleep(0.5)
        now = usage(pids)
        quiet = quiet + 1 if now.since(before).cpu_seconds < SETTLED_CPU_SECONDS else 0
        before = now


def _fetches(follower: Follower, load: Load, seconds: float, pids: list[int]) -> _Series:
    before = usage(pids)
    began = now = time.perf_counter()
    size, times = 0, []
    while now < began + seconds:
        size += follower.fetch(load)
        earlier, now = now, time.perf_counter()
        times.append(now - earlier)
    return _Series(size, now - began, usage(pids).since(before).cpu_seconds, times)


def _dials(context: ssl.SSLContext, port: int, seconds: float, pids: list[int]) -> _Series:
    """Connections by threads, whose handshakes are OpenSSL's and run side by side."""
    times: list[float] = []
    before, began = usage(pids), time.perf_counter()

    def dial_again_and_again() -> None:
        now = time.perf_counter()
        while now < began + seconds:
            follower = Follower(context, port)
            follower.fetch(SMALL)
            follower.close()
            earlier, now = now, time.perf_counter()
            times.append(now - earlier)

    threads = [threading.Thread(target=dial_again_and_again) for _ in range(DIALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _Series(0, time.perf_counter() - began, usage(pids).since(before).cpu_seconds, times)


def _memory_of_each(context: ssl.SSLContext, port: int, pids: list[int]) -> float:
    before = memory(pids).proportional
    followers = [Follower(context, port) for _ in range(IDLE_CONNECTIONS)]
    for follower in followers:
        follower.fetch(SMALL)
    found = (memory(pids).proportional - before) / IDLE_CONNECTIONS / 1024
    for follower in followers:
        follower.close()
    return found

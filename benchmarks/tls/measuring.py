"""Ways that run side by side, measured in turns: bulk, small fetches, connections that come and go and that stay.

The follower, the relay and the leader share this machine's cores. So the throughput also says who takes time from the
others, and CPU says what a way itself costs. Invariant: CPU and memory are the relay's own, with its whole process
tree.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from lab.host.addresses import free_ports
from lab.host.processes import dies_with_us

from ..byte_path.loads import SMALL
from ..byte_path.usage import memory, tree, usage
from .ends import BULK, Follower, follower_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ..byte_path.loads import Load
    from .ways import Way

START_SECONDS = 15.0
SETTLED_CPU_SECONDS = 0.005
"""A relay that used less in half a second is at rest. A sidecar loads in the background what its first scrape needs,
and that must not be counted as the cost of bytes."""
DIALLERS = 4
IDLE_CONNECTIONS = 200


@dataclass(frozen=True, slots=True)
class Found:
    """The figures of one way in one round.

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


@dataclass(frozen=True, slots=True)
class Relay:
    """A way that runs, with a connection of a follower through it."""

    name: str
    port: int
    pids: list[int]
    follower: Follower
    context: ssl.SSLContext


@contextmanager
def running(way: Way, home: Path, leader: int, cipher: str) -> Iterator[Relay]:
    """Begin it, in a folder of its own below `home`, where the keys are, and wait until it is at rest.

    Raises MissingError, OSError, or RuntimeError: its connections have another cipher suite.
    """
    own = home / way.name.replace(", ", "-").replace(" ", "-")
    own.mkdir()
    for key in ("own.pem", "ca.pem"):
        shutil.copy(home / key, own)
    context = follower_context(home)
    (port,) = free_ports(1)
    command = way.begin(own, port, leader)
    with ExitStack() as stack:
        log = stack.enter_context((own / "relay.log").open("ab"))
        children = [stack.enter_context(started(command, log))]
        follower = _reached(context, port)
        if follower.cipher != cipher:
            raise RuntimeError(f"{way.name}: expected {cipher}, found {follower.cipher}")
        if way.upgraded:
            follower.fetch(SMALL)
            children.append(stack.enter_context(started([*command, "--take-over"], log)))
            _wait_taken_over(own / "relay.log")
        pids = tree([child.pid for child in children])
        _settle(pids)
        yield Relay(way.name, port, pids, follower, context)
        follower.close()


@contextmanager
def started(command: Sequence[str], log: BinaryIO) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process for the length of a block; it does not outlive this one, whatever ends it."""
    child = subprocess.Popen([*dies_with_us(), *command], stdout=log, stderr=log)
    try:
        yield child
    finally:
        child.terminate()
        child.wait()


def _wait_taken_over(log: Path) -> None:
    """Wait until another process has taken over. Raises RuntimeError."""
    deadline = time.monotonic() + START_SECONDS
    while '"taken_over"' not in log.read_text("utf-8"):
        if time.monotonic() > deadline:
            raise RuntimeError(f"{log}: expected that another process takes over: {log.read_text('utf-8')}")
        time.sleep(0.05)


def measure(relays: Sequence[Relay], seconds: float, kib: Mapping[str, float]) -> dict[str, Found]:
    """Measure one round: each number for every way, one right after the other, so that they find the machine in the
    same state. `kib`: the memory that `memory_of_each` found."""
    bulk = {relay.name: _fetches(relay, BULK, seconds) for relay in relays}
    small = {relay.name: _fetches(relay, SMALL, seconds / 2) for relay in relays}
    dialled = {relay.name: _dials(relay, seconds / 2) for relay in relays}
    return {name: _found(bulk[name], small[name], dialled[name], kib[name]) for name in bulk}


def memory_of_each(relay: Relay) -> float:
    """Return the memory of one connection that stays, in KiB. It can be measured only once: memory that the process got
    for these connections serves later ones as well."""
    before = memory(relay.pids).proportional
    followers = [Follower(relay.context, relay.port) for _ in range(IDLE_CONNECTIONS)]
    for follower in followers:
        follower.fetch(SMALL)
    found = (memory(relay.pids).proportional - before) / IDLE_CONNECTIONS / 1024
    for follower in followers:
        follower.close()
    return found


def _found(bulk: _Series, small: _Series, dialled: _Series, connection_kib: float) -> Found:
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


def _fetches(relay: Relay, load: Load, seconds: float) -> _Series:
    """Fetch for a while. A first tenth of the time is not counted: before it, another relay had the caches."""
    _fetch_for(relay.follower, load, seconds / 10)
    before, began = usage(relay.pids), time.perf_counter()
    size, times = _fetch_for(relay.follower, load, seconds)
    return _Series(size, time.perf_counter() - began, usage(relay.pids).since(before).cpu_seconds, times)


def _fetch_for(follower: Follower, load: Load, seconds: float) -> tuple[int, list[float]]:
    """Return the bytes of what was fetched, and the seconds that each fetch took."""
    began = now = time.perf_counter()
    size, times = 0, []
    while now < began + seconds:
        size += follower.fetch(load)
        earlier, now = now, time.perf_counter()
        times.append(now - earlier)
    return size, times


def _dials(relay: Relay, seconds: float) -> _Series:
    """Dial connections by threads, whose handshakes are OpenSSL's and run side by side."""
    times: list[float] = []
    before, began = usage(relay.pids), time.perf_counter()

    def dial_again_and_again() -> None:
        now = time.perf_counter()
        while now < began + seconds:
            follower = Follower(relay.context, relay.port)
            follower.fetch(SMALL)
            follower.close()
            earlier, now = now, time.perf_counter()
            times.append(now - earlier)

    threads = [threading.Thread(target=dial_again_and_again) for _ in range(DIALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _Series(0, time.perf_counter() - began, usage(relay.pids).since(before).cpu_seconds, times)

"""Many connections of many partitions, in virtual time in which the relay takes the CPU time that it really takes.

    python -m tests.world.crowd --write docs/benchmarks.md      its table
    python -m tests.world.crowd --connections 16 64 --rate 8    every combination of what is given

One leader throttles; four followers fetch from it over the same network, 10 KB batches, all behind. Beside them one
follower in sync is written to every 20 ms. While the relay works for one connection, the world's clock goes on by as
much CPU time as that took on this machine, so all others wait; brokers and followers cost nothing. Told are the share
of the quota, the least share of a connection in an equal one, how late records in sync came with and without the
others, and how busy the relay was.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.document_part import DocumentPart
from proxy.process.resources import collected_by_hand
from proxy.relay import connection as relayed
from proxy.relay.poller import TURN_SECONDS

from ..proxy.conversation import MIB
from .drawn import Rates
from .scene import Fetch, Scene, World
from .sidecar import SidecarSpec

if TYPE_CHECKING:
    from protocol.session.requests import PartitionKey
    from proxy.relay.direction import Direction

    from .clock import VirtualClock
    from .scene import Outcome

PART = DocumentPart("crowd")
FOLLOWERS, LEADER, WATCHER = (2, 3, 4, 5), 1, 9
BATCH_BYTES = 10_000
WRITE_SECONDS = 0.02
SETTLED = 5.0
"""Full requests, first contact and the first guesses are over. A grant is a gate, a tenth of a second of the quota: 64
connections have one each in 6 seconds, and what each had is told apart only over several such rounds."""


class Crowd(NamedTuple):
    connections: int
    partitions: int
    mib_per_second: float
    version: int = 12
    seconds: float = 53.0
    """The length of the run: after `SETTLED`, seven and a half rounds of 64 connections."""
    idle: int = 0
    """How many partitions of each connection are in sync, and nobody writes to."""

    def scene(self, *, alone: bool = False) -> Scene:
        """Return the scene; `alone`: only the follower in sync is there."""
        quotas = Rates(leader=self.mib_per_second * MIB).toml
        watched = Fetch(WATCHER, LEADER, {}, live={"live": 1}, written=1000 / WRITE_SECONDS, version=self.version)
        each = self.connections // len(FOLLOWERS)
        crowd = tuple(
            Fetch(follower, LEADER, {f"t{follower}": self.partitions}, connections=each, sizes=(BATCH_BYTES,),
                  version=self.version, live={f"i{follower}": self.idle * each})
            for follower in FOLLOWERS
        )  # fmt: skip
        return Scene({LEADER: SidecarSpec(quotas, egress=False, journal=False)}, (watched, *(() if alone else crowd)))


class Measured(NamedTuple):
    """`used`: of the quota. `least`: the least of a connection, of an equal share. `late`: the 99th percentile of the
    seconds from a record's writing to its arrival in sync. `busy`: CPU seconds a second. `fetches`: a second."""

    used: float
    least: float
    late: float
    busy: float
    fetches: float


class RelayCpu:
    """Lets the world's clock go on by the CPU time of each turn of the relay, inside the block."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.written: list[float] = []
        """When each record was written to the partition in sync."""
        self._clock: VirtualClock

    def __enter__(self) -> RelayCpu:
        advance = self._advance = relayed.Connection.advance
        self._turn_clock, self._build = World._turn_clock, World.build

        def build(world: World) -> None:
            self._clock = world.network.clock
            self._build(world)
            broker = world.broker(LEADER)
            append = broker.append

            def write(key: PartitionKey, batches: int = 1) -> None:
                self.written += [world.network.now] * batches
                append(key, batches)

            broker.append = write

        def timed(connection: relayed.Connection, direction: Direction, ends: float) -> None:
            del ends
            began = time.thread_time()
            advance(connection, direction, began + TURN_SECONDS)
            took = time.thread_time() - began
            self.seconds += took
            self._clock.now += took

        relayed.Connection.advance, World.build = timed, build
        World._turn_clock = lambda _: time.thread_time()
        return self

    def __exit__(self, *_: object) -> None:
        relayed.Connection.advance, World.build = self._advance, self._build
        World._turn_clock = self._turn_clock


def measured(crowd: Crowd) -> tuple[Measured, float]:
    """Run a crowd; return what came of it, and how late records in sync came without it."""
    with collected_by_hand(), RelayCpu() as cpu:
        alone = lateness(crowd.scene(alone=True).run(crowd.seconds), cpu.written)
    with collected_by_hand(), RelayCpu() as cpu:
        outcome = crowd.scene().run(crowd.seconds)
    assert outcome.wrong == []
    rates = outcome.rates(SETTLED)
    shares = [rates.get(name, 0.0) for name in outcome.fetchers if not name.startswith(f"{WATCHER}<")]
    quota = crowd.mib_per_second * MIB
    fetches = sum(fetcher.fetches for fetcher in outcome.fetchers.values()) / crowd.seconds
    late, busy = lateness(outcome, cpu.written), cpu.seconds / crowd.seconds
    return Measured(sum(shares) / quota, min(shares) * len(shares) / quota, late, busy, fetches), alone


def lateness(outcome: Outcome, written: list[float]) -> float:
    """Return the 99th percentile of the seconds from a record's writing to its arrival in sync."""
    came = [each.at for each in outcome.ledger.arrivals if each.follower == WATCHER for _ in range(each.size // 1000)]
    late = sorted(at - wrote for at, wrote in zip(came, written, strict=False) if wrote >= SETTLED)
    return late[int(0.99 * (len(late) - 1))]


GRID = (4, 100), (4, 4000), (16, 100), (16, 4000), (64, 100), (64, 3000)
"""Connections, partitions of each. A role throttles 200 000 replicas at most."""
TABLE = (
    *(Crowd(64, 1000, rate) for rate in (1.0, 8.0, 64.0)),
    *(Crowd(64, 1000, 8.0, version) for version in (3, 17)),
    *(Crowd(connections, partitions, 8.0) for connections, partitions in GRID),
    *(Crowd(64, 1000, rate, idle=idle) for rate in (1.0, 8.0) for idle in (1, 100)),
)
"""The crowds of docs/benchmarks.md."""
LEAST_USED, LEAST_SHARE, MOST_ADDED = 0.9, 0.85, 0.005
"""What is asked of a crowd; `MOST_ADDED`: seconds, of records in sync."""
COLUMNS = (
    "Fetch", "connections x partitions", "+ idle, in sync", "quota, MiB/s", f"used (asked: {LEAST_USED:g})",
    f"least share (asked: {LEAST_SHARE:g})", f"in sync p99, ms: alone, beside (asked: {1000 * MOST_ADDED:g} more)",
    "relay, cores", "fetches/s",
)  # fmt: skip


def row(crowd: Crowd) -> str:
    """Return a row of the table; what misses what is asked is bold."""
    found, alone = measured(crowd)
    cells = (
        f"v{crowd.version}", f"{crowd.connections} x {crowd.partitions}", f"{crowd.idle}", f"{crowd.mib_per_second:g}",
        _judged(f"{found.used:.2f}", found.used >= LEAST_USED),
        _judged(f"{found.least:.2f}", found.least >= LEAST_SHARE),
        _judged(f"{1000 * alone:.1f}, {1000 * found.late:.1f}", found.late - alone <= MOST_ADDED),
        f"{found.busy:.2f}", f"{found.fetches:.0f}",
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _judged(text: str, good: bool) -> str:
    return text if good else f"**{text}**"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.world.crowd", description=__doc__)
    parser.add_argument("--connections", type=int, nargs="+", default=[])
    parser.add_argument("--partitions", type=int, nargs="+", default=[], help="of each connection, behind")
    parser.add_argument("--idle", type=int, nargs="+", default=[], help="of each connection, in sync")
    parser.add_argument("--rate", type=float, nargs="+", default=[], help="MiB/s")
    parser.add_argument("--version", type=int, nargs="+", default=[], help="of Fetch")
    parser.add_argument("--seconds", type=float, default=53.0)
    parser.add_argument("--write", type=Path, help="the page to write the table to")
    options = parser.parse_args()
    given = (options.connections, options.partitions, options.rate, options.version, options.idle)
    crowds: tuple[Crowd, ...] = TABLE
    if any(given):
        values = [chosen or [usual] for chosen, usual in zip(given, (64, 1000, 8.0, 12, 0), strict=True)]
        crowds = tuple(
            Crowd(connections, partitions, rate, version, idle=idle)
            for connections, partitions, rate, version, idle in itertools.product(*values)
        )
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    print("\n".join(lines))
    for crowd in crowds:
        lines.append(row(crowd._replace(seconds=options.seconds)))
        print(lines[-1], flush=True)
    if options.write is not None:
        PART.write(options.write, "\n".join(lines))


if __name__ == "__main__":
    main()

"""Growth of the sidecar's cost: with partitions, with peers, with idle fetchers, with time.

    python -m benchmarks.byte_path.scaling --help

The same pair, peers and figures as `benchmarks.byte_path`; here it is the load that varies.
"""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .contenders.every_peer import ANCHOR, PEERS
from .contenders.sidecars import EGRESS, MANY, STOPPED
from .loads import BULK, SMALL, Load
from .measuring import Times, measure
from .report.growth import idle_table, slope_table
from .report.tables import tables
from .running import BenchError, running
from .runs import RunsFile
from .usage import Memory, memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .contenders.peer import Peer
    from .running import Contender
    from .runs import Result

PARTITIONS = (1, 10, 100, 500, 1000, 2000, 3000, 4000)
RECORD_BYTES = 64
MEGABYTES = BULK[1]
IDLE_FETCHERS = 8
MIB = 1024 * 1024
SAMPLE_SECONDS = 5.0
WARM_UP_SECONDS = 0.3

LASTING = click.FloatRange(0.01)
FILE = click.option("--json", "file", type=click.Path(path_type=Path, dir_okay=False), help="Append every run to FILE.")
SECONDS = click.option("--seconds", default=1.0, show_default=True, type=LASTING, help="Counted time of one run.")
ROUNDS = click.option("--rounds", default=3, show_default=True, type=click.IntRange(1), help="Times, in turns.")


@click.group()
def main() -> None:
    """Measure how the sidecar's cost grows."""


@main.command()
@ROUNDS
@SECONDS
@FILE
def partitions(rounds: int, seconds: float, file: Path | None) -> None:
    """Measure CPU per fetch of 1 to 4000 partitions with little records, behind and in sync, and fit a line."""
    loads = [
        Load(f"{count} partitions", count, RECORD_BYTES, in_sync=in_sync)
        for count in PARTITIONS
        for in_sync in (False, True)
    ]
    peers = [PEERS[name] for name in (ANCHOR, "opaque", "decoded", "observe")]
    results = _measured(peers, loads, Times(rounds, seconds, WARM_UP_SECONDS), RunsFile(file, "partitions"))
    click.echo(slope_table(results))


@main.command()
@ROUNDS
@SECONDS
@FILE
def peers(rounds: int, seconds: float, file: Path | None) -> None:
    """Measure one ingress with 50 followers, one egress with 50 leaders, beside HAProxy with as many connections."""
    loads = [_with(load, MANY) for load in (MEGABYTES, SMALL)]
    contenders = [*(PEERS[name] for name in (ANCHOR, "haproxy-splice", "opaque", "decoded")), EGRESS]
    times = Times(rounds, seconds, WARM_UP_SECONDS)
    click.echo(tables(_measured(contenders, loads, times, RunsFile(file, "peers"))))


@main.command()
@click.option("--seconds", default=20.0, show_default=True, type=LASTING, help="Counted time.")
@FILE
def idle(seconds: float, file: Path | None) -> None:
    """Measure 8 fetchers whose every partition is throttled, at quota 0, as a share of a core."""
    loads = [_with(load, IDLE_FETCHERS) for load in (BULK[2], BULK[3])]
    results = _measured([STOPPED], loads, Times(1, seconds, 2.0), RunsFile(file, "idle"))
    click.echo(idle_table(results))


@main.command("memory")
@click.option("--minutes", default=1.0, show_default=True, type=LASTING, help="How long at full rate.")
@click.option(
    "--connections", default=8, show_default=True, type=click.IntRange(1, 500), help="Followers that fetch at once."
)
@click.option("--peer", default="decoded", show_default=True, type=click.Choice(list(PEERS)))
@FILE
def over_time(minutes: float, connections: int, peer: str, file: Path | None) -> None:
    """Measure memory every five seconds at full rate: it must stay where it is."""
    load = _with(MEGABYTES, connections)
    try:
        result, samples = _sampled(PEERS[peer], load, minutes * 60)
    except BenchError as error:
        raise click.ClickException(str(error)) from error
    RunsFile(file, "memory").add_memory(f"{peer}, {load.title}", samples)
    click.echo(f"{peer}, {result.load.title}: {result.gigabytes_per_second:.2f} GB/s, RSS and PSS in MiB:")
    for at, held in samples:
        click.echo(f"{at:6.0f} s  {held.resident / MIB:.1f}  {held.proportional / MIB:.1f}")


def _sampled(peer: Peer, load: Load, seconds: float) -> tuple[Result, list[tuple[float, Memory]]]:
    """Sample memory during a run. Raises BenchError if the peer is not installed, or did not do its work."""
    with (
        tempfile.TemporaryDirectory(prefix="byte-path-") as home,
        running([peer], Path(home)) as (pair, contenders, missing),
    ):
        if missing:
            raise BenchError(missing[peer.name])
        with _Sampler(contenders[0]) as sampler:
            return pair.run(contenders[0], load, seconds=seconds, warm_up_seconds=1.0), sampler.samples


class _Sampler:
    """Looks at a contender's memory every `SAMPLE_SECONDS` while the block runs."""

    def __init__(self, contender: Contender) -> None:
        self.samples: list[tuple[float, Memory]] = []
        self._contender = contender
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        began = time.monotonic()
        while not self._over.wait(SAMPLE_SECONDS):
            self.samples.append((time.monotonic() - began, memory(self._contender.pids())))

    def __enter__(self) -> _Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def _measured(peers_: Sequence[Peer], loads: Sequence[Load], times: Times, file: RunsFile) -> list[Result]:
    try:
        results, missing = measure(peers_, loads, times, file)
    except BenchError as error:
        raise click.ClickException(str(error)) from error
    for name, why in missing.items():
        click.echo(f"left out: {name}: {why}")
    return results


def _with(load: Load, connections: int) -> Load:
    return Load(load.name, load.partitions, load.record_bytes, connections=connections)


if __name__ == "__main__":
    main()

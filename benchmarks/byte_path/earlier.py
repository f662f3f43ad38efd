"""Compare the sidecar with an earlier commit of itself: has a byte become slower, or dearer?

    make quick-bench                    beside the commit before, in two minutes
    make quick-bench COMMIT=v1.2.0      beside any other
    python -m benchmarks.byte_path.earlier main --peers opaque --loads "small fetch" --starts 9

The same code costs up to a tenth more or less in another process: it depends on where its memory lies and on which core
the kernel keeps it. The first of three processes took up to a third less than the last. It also differs from one second
to the next, by what else the machine does. So processes are started anew `--starts` times, each time another one first.
Each run is paired with the one beside it in the same round. A second process of the present code, the control, shows
how much of a ratio is chance. Best are numbers of starts in which each process comes first equally often: 3, 6, 9.

Both commits run with this environment's interpreter and packages.
"""

from __future__ import annotations

import dataclasses
import io
import statistics
import subprocess
import tarfile
import tempfile
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from .contenders.every_peer import PEERS
from .contenders.sidecars import SIDECARS
from .loads import BULK, LOADS, SMALL
from .report.tables import disturbance
from .running import BenchError, running

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .contenders.peer import Peer, Place
    from .loads import Load
    from .running import Contender, Pair
    from .runs import Result

NAMES = [peer.name for peer in SIDECARS]
ROOT = Path(__file__).parents[2]
KAFKA_BUFFERS = dataclasses.replace(BULK[1], kafka_buffers=True)
CHOICES = {load.title: load for load in (*LOADS.values(), KAFKA_BUFFERS)}
QUICK = [load.title for load in (BULK[1], BULK[3], KAFKA_BUFFERS, SMALL)]
WARM_UP_SECONDS = 0.15
EARLIER, CONTROL = " earlier", " control"
"""How the names of the other two peers end: the one with the earlier code, and the one with the present code once
more."""


class Compared(NamedTuple):
    """Ratios of the present code to the process beside it, one for each pair of runs: throughput to the earlier code's
    and to the control's, and CPU per fetch to both."""

    peer: str
    load: str
    throughput: list[float]
    throughput_of_control: list[float]
    cpu: list[float]
    cpu_of_control: list[float]


def unpack(commit: str, folder: Path) -> None:
    """Write the files of `commit` into `folder`. Raises click.BadParameter if there is no such commit."""
    done = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        raise click.BadParameter(f"expected a commit, found {commit!r}: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")


def of_tree(peer: Peer, tree: Path) -> Peer:
    """Return the same peer, run with the code in `tree`."""

    def command(place: Place) -> list[str]:
        assert peer.command is not None
        return ["env", f"PYTHONPATH={tree}", *peer.command(place)]

    return dataclasses.replace(peer, name=peer.name + EARLIER, command=command)


def compare(results: Sequence[Result]) -> list[Compared]:
    """Pair the runs of each peer and load in the order in which they were done."""
    runs: dict[tuple[str, str], list[Result]] = {}
    for run in results:
        runs.setdefault((run.peer, run.load.title), []).append(run)
    return [
        Compared(peer, load, *(
            [figure(now) / figure(other) for now, other in zip(own, runs[peer + beside, load], strict=True)]
            for figure in (_throughput, _cpu)
            for beside in (EARLIER, CONTROL)
        ))
        for (peer, load), own in runs.items()
        if not peer.endswith((EARLIER, CONTROL))
    ]  # fmt: skip


def _throughput(run: Result) -> float:
    return run.fetches / run.seconds


def _cpu(run: Result) -> float:
    return run.cpu_us_per_fetch


def table(compared: Sequence[Compared]) -> str:
    """Return medians of ratios, and the bounds that half of the pairs lie between."""
    titles = "| peer | load | throughput, now / earlier | control | CPU per fetch, now / earlier | control |"
    lines = [titles, "|---|" + "---|" * 5]
    for peer, load, *ratios in compared:
        lines.append(f"| {peer} | {load} | {' | '.join(map(_median, ratios))} |")
    return "\n".join(lines)


def _median(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.3f}{_middle(ratios)}"


def _middle(ratios: Sequence[float]) -> str:
    if len(ratios) == 1:
        return ""
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return f" ({low:.2f} to {high:.2f})"


def _runs(peers: Sequence[Peer], loads: Sequence[Load], *, rounds: int, seconds: float) -> Iterator[Result]:
    """Start all processes once. Whoever came first in a round comes last in the next."""
    with tempfile.TemporaryDirectory(prefix="earlier-") as home, running(peers, Path(home)) as (pair, contenders, _):
        for number in range(rounds):
            for load in loads:
                yield from _round(pair, contenders[:: -1 if number % 2 else 1], load, seconds)


def _round(pair: Pair, contenders: Sequence[Contender], load: Load, seconds: float) -> list[Result]:
    return [pair.run(each, load, seconds=seconds, warm_up_seconds=WARM_UP_SECONDS) for each in contenders]


@click.command()
@click.argument("commit", default="HEAD^")
@click.option("--peers", multiple=True, type=click.Choice(NAMES), default=("opaque", "decoded"), show_default=True)
@click.option("--loads", multiple=True, type=click.Choice(list(CHOICES)), default=QUICK, show_default=True)
@click.option("--starts", default=3, show_default=True, type=click.IntRange(1), help="Times processes start anew.")
@click.option("--rounds", default=2, show_default=True, type=click.IntRange(1), help="Rounds of each start.")
@click.option("--seconds", default=0.5, show_default=True, type=click.FloatRange(0.1), help="Counted time of one run.")
def main(commit: str, peers: tuple[str, ...], loads: tuple[str, ...], starts: int, rounds: int, seconds: float) -> None:
    """Compare throughput and CPU of the code here with those of COMMIT (default: HEAD^)."""
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="earlier-code-") as code:
        unpack(commit, Path(code))
        groups = [
            (peer, of_tree(peer, Path(code)), dataclasses.replace(peer, name=peer.name + CONTROL))
            for peer in (PEERS[name] for name in peers)
        ]
        try:
            for start, group in product(range(starts), groups):
                click.echo(f"start {start + 1} of {starts}: {group[0].name}", err=True)
                first = start % len(group)
                in_turn = group[first:] + group[:first]
                results += _runs(in_turn, [CHOICES[name] for name in loads], rounds=rounds, seconds=seconds)
        except BenchError as error:
            raise click.ClickException(str(error)) from error
    click.echo(f"Beside {commit}: {starts} starts of {rounds} rounds of {seconds:g} s. {disturbance(results)}\n")
    click.echo(table(compare(results)))


if __name__ == "__main__":
    main()

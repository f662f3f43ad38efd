"""The sidecar beside an earlier commit of itself: has what a byte costs become more?

    git clone . /tmp/earlier && git -C /tmp/earlier checkout v1.2.0 && make -C /tmp/earlier setup
    python -m benchmarks.byte_path.earlier /tmp/earlier --peers opaque --loads "small fetch"

The same code costs up to a tenth more or less in another process: it depends on where its memory lies and on which core
the kernel keeps it. The first of three processes took up to a third less than the last. It also differs from one second
to the next, by what else the machine does. So processes are started anew `--starts` times, each time another one first.
Each run is paired with the one beside it in the same round. A second process of the present code, the control, says how
much of a ratio is chance. Best are numbers of starts in which each process comes first equally often: 3, 6, 9.
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from .loads import LOADS
from .peers import PEERS
from .reporting import disturbance
from .running import BenchError, running
from .sidecars import SIDECARS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .loads import Load
    from .peer import Peer, Place
    from .running import Contender, Pair
    from .runs import Result

NAMES = [peer.name for peer in SIDECARS]
WARM_UP_SECONDS = 0.25
EARLIER, CONTROL = " earlier", " control"
"""How the names of the other two peers end: the one with the earlier code, and the one with the present code once
more."""


class Compared(NamedTuple):
    """Ratios of the present code's cost per fetch to that of the process beside it, one ratio for each pair of runs:
    CPU to the earlier code's and to the control's, and time to both."""

    peer: str
    load: str
    cpu: list[float]
    cpu_of_control: list[float]
    time: list[float]
    time_of_control: list[float]


def of_clone(peer: Peer, clone: Path) -> Peer:
    """The same peer, by the program of another checkout. Raises click.BadParameter if there is none."""
    script = clone.resolve() / ".venv" / "bin" / "throttle-sidecar"
    if not script.exists():
        raise click.BadParameter(f"expected a clone after `make setup`, found no {script}", param_hint="CLONE")

    def command(place: Place) -> list[str]:
        assert peer.command is not None
        return [str(script), *peer.command(place)[1:]]

    return dataclasses.replace(peer, name=peer.name + EARLIER, command=command)


def compare(results: Sequence[Result]) -> list[Compared]:
    """Pair the runs of each peer and load in the order in which they were done."""
    runs: dict[tuple[str, str], list[Result]] = {}
    for run in results:
        runs.setdefault((run.peer, run.load.title), []).append(run)
    return [
        Compared(peer, load, *(
            [figure(now) / figure(other) for now, other in zip(own, runs[peer + beside, load], strict=True)]
            for figure in (_cpu, _time)
            for beside in (EARLIER, CONTROL)
        ))
        for (peer, load), own in runs.items()
        if not peer.endswith((EARLIER, CONTROL))
    ]  # fmt: skip


def _cpu(run: Result) -> float:
    return run.cpu_us_per_fetch


def _time(run: Result) -> float:
    return run.seconds / run.fetches


def table(compared: Sequence[Compared]) -> str:
    """Medians of ratios, and between what bounds half of the pairs lie."""
    titles = "| peer | load | CPU, now / earlier | control | time of a fetch, now / earlier | control |"
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
    """One start of all processes. Whoever came first in a round comes last in the next."""
    with tempfile.TemporaryDirectory(prefix="earlier-") as home, running(peers, Path(home)) as (pair, contenders, _):
        for number in range(rounds):
            for load in loads:
                yield from _round(pair, contenders[:: -1 if number % 2 else 1], load, seconds)


def _round(pair: Pair, contenders: Sequence[Contender], load: Load, seconds: float) -> list[Result]:
    return [pair.run(each, load, seconds=seconds, warm_up_seconds=WARM_UP_SECONDS) for each in contenders]


@click.command()
@click.argument("clone", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--peers", multiple=True, type=click.Choice(NAMES), default=("opaque", "decoded"), show_default=True)
@click.option("--loads", multiple=True, type=click.Choice(list(LOADS)), default=tuple(LOADS), show_default=True)
@click.option("--starts", default=6, show_default=True, type=click.IntRange(1), help="Times processes start anew.")
@click.option("--rounds", default=4, show_default=True, type=click.IntRange(1), help="Rounds of each start.")
@click.option("--seconds", default=1.0, show_default=True, type=click.FloatRange(0.1), help="Counted time of one run.")
def main(clone: Path, peers: tuple[str, ...], loads: tuple[str, ...], starts: int, rounds: int, seconds: float) -> None:
    """Compare the CPU of a fetch with that of the sidecar in CLONE, an earlier checkout after `make setup`."""
    groups = [
        (peer, of_clone(peer, clone), dataclasses.replace(peer, name=peer.name + CONTROL))
        for peer in (PEERS[name] for name in peers)
    ]
    results: list[Result] = []
    try:
        for start, group in product(range(starts), groups):
            click.echo(f"start {start + 1} of {starts}: {group[0].name}", err=True)
            first = start % len(group)
            in_turn = group[first:] + group[:first]
            results += _runs(in_turn, [LOADS[name] for name in loads], rounds=rounds, seconds=seconds)
    except BenchError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"{starts} starts of {rounds} rounds of {seconds:g} s. {disturbance(results)}\n")
    click.echo(table(compare(results)))


if __name__ == "__main__":
    main()

"""Simulates `auto` on a link: how much of what the load leaves is used, and how long producers wait.

python -m benchmarks.chosen_rates.simulated             every load on every link
python -m benchmarks.chosen_rates.simulated --trace     the rates that were chosen as well
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import NamedTuple

import click

from ..document_part import DocumentPart
from .full_link import MB, Catching, FullLink, Scene
from .shapes import LOADS, free_share

LINKS = (5 * MB, 20 * MB, 100 * MB)
MOVED_SECONDS = 9.0
"""The time that the move would take the link without a load: 90 MB at 10 MB/s."""
SEEDS = 3
PART = DocumentPart("simulated rates")
_HEAD = "| load | link, MB/s | used | done after, s | no move: p99, ms | p99, ms | met |"
MIN_USED, MAX_P99, MAX_P99_SECONDS = 0.8, 1.35, 0.010


class Found(NamedTuple):
    alone_p99: float
    p99: float
    seconds: float
    used: float
    run: FullLink

    @property
    def is_met(self) -> bool:
        return self.used >= MIN_USED and self.p99 <= MAX_P99 * self.alone_p99 + MAX_P99_SECONDS


def measure(load: str, link: float, late: float = 0.08, seeds: int = SEEDS, *, stalls: float = 0.0) -> Found:
    """Run it without a move and with one; the median of the seeds' figures."""
    found = []
    for seed in range(seeds):
        played = Scene(link, LOADS[load], late, stalls)
        run = FullLink(played, Catching(played), seed)
        seconds = run.run(moved_bytes=MOVED_SECONDS * link)
        alone = FullLink(played, None, seed)
        alone.run(seconds=max(seconds, 30.0))
        used = MOVED_SECONDS / free_share(played.load, seconds)
        found.append(Found(alone.percentile(0.99), run.percentile(0.99), seconds, used, run))
    alone_p99, p99, taken, used = map(statistics.median, zip(*(each[:4] for each in found), strict=True))
    return Found(alone_p99, p99, taken, used, found[0].run)


@click.command(context_settings={"show_default": True})
@click.option("--link", "links", multiple=True, type=float, help="In MB/s; only these.  [default: all]")
@click.option("--load", "loads", multiple=True, type=click.Choice(list(LOADS)), help="Only these.  [default: all]")
@click.option("--late", default=0.08, help="The share of fetches after which the follower is late.")
@click.option("--seeds", default=SEEDS, help="Runs of each; medians are shown.")
@click.option("--trace", is_flag=True, help="Show each rate of the first seed, and what held it.")
@click.option(
    "--write", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A document with the marks."
)
def main(
    links: tuple[float, ...], loads: tuple[str, ...], late: float, seeds: int, trace: bool, write: Path | None
) -> None:
    """Print a row for each load on each link."""
    lines = [_HEAD, "|" + "---|" * (_HEAD.count("|") - 1)]
    for load in loads or LOADS:
        for link in [each * MB for each in links] or LINKS:
            found = measure(load, link, late, seeds)
            lines.append(_line(load, link, found))
            if trace:
                lines += _trace(found.run)
    if write is None:
        click.echo("\n".join(lines))
    else:
        PART.write(write, "\n".join(lines))


def _line(load: str, link: float, found: Found) -> str:
    cells = [
        load,
        f"{link / MB:g}",
        f"{found.used:.2f}",
        f"{found.seconds:.0f}",
        f"{found.alone_p99 * 1000:.1f}",
        f"{found.p99 * 1000:.1f}",
        "yes" if found.is_met else "no",
    ]
    return f"| {' | '.join(cells)} |"


def _trace(run: FullLink) -> list[str]:
    assert run.catching is not None
    return [
        f"    {at:6.2f} s  {choice.bytes_per_second / MB:7.2f} MB/s  {choice.held_by}: {choice.words}"
        for at, choice in run.catching.trace
    ]


if __name__ == "__main__":
    main()

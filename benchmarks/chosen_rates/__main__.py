"""Runs each way of choosing a rate on a bounded link.

    python -m benchmarks.chosen_rates --rounds 1                   run each way once, and add to the results
    python -m benchmarks.chosen_rates --write docs/benchmarks.md   put the table of all results between its marks

Needs root, for network namespaces. A round of all ways takes about six minutes.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import click
import trio

from ..results import BUILD, keep, kept
from .run import Row, measure
from .scene import MB
from .shapes import LOADS
from .table import PART, table
from .ways import WAYS

RESULTS = BUILD / "chosen_rates.jsonl"


@click.command(context_settings={"show_default": True})
@click.option("--rounds", default=0, type=click.IntRange(min=0), help="Runs of each way; 0: only the table.")
@click.option("--way", "ways", multiple=True, type=click.Choice(list(WAYS)), help="Only these.  [default: all]")
@click.option("--load", "loads", multiple=True, type=click.Choice(list(LOADS)), default=["doubles and halves"])
@click.option("--link", default=20.0, type=click.FloatRange(min=1), help="What each card sends, in MB/s.")
@click.option("--megabytes", default=400, type=click.IntRange(min=8), help="To move.")
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="JSON lines; runs are added.")
@click.option(
    "--write", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A document with the marks."
)
def main(
    rounds: int,
    ways: tuple[str, ...],
    loads: tuple[str, ...],
    link: float,
    megabytes: int,
    results: Path,
    write: Path | None,
) -> None:
    """Compare who chooses the rate of a move: seconds until it is done, and what acks=all producers wait."""

    def record(row: Row) -> None:
        click.echo(json.dumps(row), err=True)
        keep(results, row)

    if rounds:
        size, tell = int(megabytes * MB), partial(click.echo, err=True)
        what = ways or tuple(WAYS), loads
        trio.run(partial(measure, *what, link=link * MB, rounds=rounds, moved_bytes=size, keep=record, tell=tell))
    text = table(kept(results, "run with --rounds first"))
    if write is None:
        click.echo(text)
    else:
        PART.write(write, text)


if __name__ == "__main__":
    main()

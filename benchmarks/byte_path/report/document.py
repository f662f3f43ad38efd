"""The measurements as a part of docs/benchmarks.md and its plots.

    python -m benchmarks.byte_path.report.document build/byte_path.jsonl                             print it
    python -m benchmarks.byte_path.report.document build/byte_path.jsonl --write docs/benchmarks.md  put it there

Knows the files of runs alone. Invariant: text outside the marks is never touched.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...document_part import DocumentPart
from ..runs import Machine, Runs, read
from .growth import idle_table, slope_table
from .summary import absolute_table, memory_table, over_time, ratio_table, variants
from .tables import disturbance, explain, tables

if TYPE_CHECKING:
    from collections.abc import Iterator

PART = DocumentPart("byte path")
LEFT_OUT = {"socat", "socat-256k", "nginx-256k", "kroxylicious-decode", "journal"}
"""Peers that are on the plots alone: their tables show nothing that others do not."""
AS_MEASURED = {"haproxy", "opaque", "decoded"}
"""Peers whose absolute figures are shown too."""


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--write", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A document with the marks."
)
def main(files: tuple[Path, ...], write: Path | None) -> None:
    """Make tables of the runs in FILES; with --write also plots, in a folder `plots` beside the document."""
    try:
        runs = read(files)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if write is None:
        click.echo("\n\n".join(sections(runs)))
        return
    # Imported here, because to print the tables needs no matplotlib.
    from .plots import draw

    PART.put(write.read_text("utf-8"), "", write)  # says what is wrong before anything is drawn
    plots = [f"![{plot.stem}](plots/{plot.name})" for plot in draw(runs, write.parent / "plots")]
    PART.write(write, "\n\n".join([*sections(runs), *plots]))
    click.echo(f"{write}: {sum(map(len, runs.suites.values()))} runs, {len(plots)} plots")


def sections(runs: Runs) -> Iterator[str]:
    """Yield Markdown, a table or a paragraph at a time; what was not run is left out."""
    yield explain(_everything(runs.machines))
    yield disturbance(run for suite in runs.suites.values() for run in suite)
    main_runs = [run for run in runs.suites.get("byte path", []) if run.peer not in LEFT_OUT]
    for number, (title, found) in enumerate(variants(main_runs).items()):
        rounds = max(Counter((run.peer, run.load) for run in found).values())
        yield f"**{title}**, medians of {rounds} rounds. Throughput / CPU per GB, small fetch p50 / CPU, HAProxy = 1:"
        yield ratio_table(found)
        if not number:
            yield "As measured: GB/s / CPU s/GB, small fetch µs / CPU µs:"
            yield absolute_table([run for run in found if run.peer in AS_MEASURED])
    if main_runs:
        yield memory_table(main_runs)
    for what, samples in runs.memory.items():
        yield over_time(what, samples)
    if "partitions" in runs.suites:
        yield slope_table(runs.suites["partitions"])
    if "idle" in runs.suites:
        yield idle_table(runs.suites["idle"])
    if "peers" in runs.suites:
        yield tables(runs.suites["peers"])


def _everything(machines: list[Machine]) -> Machine:
    """Return the last machine, with what all of them say about each peer: runs of several versions may be in one
    document."""
    if not machines:
        raise click.ClickException("the files hold no runs: expected what --json of byte_path wrote")
    last = machines[-1]
    said: dict[str, dict[str, None]] = {}
    for machine in machines:
        for name, about in machine.peers.items():
            said.setdefault(name, {})[about] = None
    peers = {name: "; ".join(abouts) for name, abouts in said.items() if name not in LEFT_OUT}
    return replace(last, peers=peers)


if __name__ == "__main__":
    main()

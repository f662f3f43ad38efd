"""Measures the cost of a sidecar at the rates of real clusters: its share of a core, added latency, memory.

    python -m benchmarks.byte_path.cost_card --rate 50    measure, two minutes for each rate
    python -m benchmarks.byte_path.cost_card --rate 0 --write docs/benchmarks.md    write the last of each

Ten followers fetch at a steady rate from this benchmark's leader, with and without a sidecar in between, in turns.
Every partition is listed under a quota that is never reached, so each frame is decoded and decided on. Results are
added to build/cost_card.jsonl. Invariant: both runs of a cell are of the same minute.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..document_part import DocumentPart
from ..results import BUILD, keep, kept
from .contenders.every_peer import PEERS
from .loads import Load
from .running import BenchError, SlowError, running

if TYPE_CHECKING:
    from collections.abc import Iterable

RESULTS = BUILD / "cost_card.jsonl"
PART = DocumentPart("cost card")
FOLLOWERS = 10
RATES = (50, 500, 5000)
PARTITIONS = (1, 100, 1000)
VERSION = 12
"""The last Fetch version whose requests have topics' names."""
RECORD_BYTES = 64
DIRECT, SIDECAR = "direct", "decoded"
WARM_UP_SECONDS = 1.0
REACHED = 0.97
"""The share of a rate that counts as all of it."""
MIB = 1 << 20
STATES = {True: "in sync", False: "behind"}


def load(rate: int, partitions: int, *, in_sync: bool) -> Load:
    """Return what all followers ask for together."""
    return Load(
        f"{rate} x {partitions}", partitions, RECORD_BYTES, VERSION, connections=FOLLOWERS, in_sync=in_sync,
        fetches_per_second=rate / FOLLOWERS,
    )  # fmt: skip


def measure(rates: Iterable[int], seconds: float) -> None:
    """Measure each cell without a sidecar and with one, and keep both. Raises BenchError."""
    peers = [PEERS[DIRECT], PEERS[SIDECAR]]
    for rate in rates:
        for partitions in PARTITIONS:
            for in_sync in STATES:
                # Memory is that of a sidecar which has served nothing else.
                with tempfile.TemporaryDirectory(prefix="cost-card-") as home, running(peers, Path(home)) as started:
                    pair, contenders, _ = started
                    for each in contenders:
                        row: dict[str, Any] = {"peer": each.peer.name, "rate": rate, "partitions": partitions}
                        row |= {"in_sync": in_sync, "fetches_per_second": 0.0}
                        try:
                            asked = load(rate, partitions, in_sync=in_sync)
                            done = pair.run(each, asked, seconds=seconds, warm_up_seconds=WARM_UP_SECONDS)
                        except SlowError:
                            keep(RESULTS, row)
                            continue
                        row["fetches_per_second"] = done.fetches / done.seconds
                        row |= {"cores": done.cores, "p50_us": done.p50_us, "p99_us": done.p99_us}
                        row |= {"resident": done.memory.resident, "others_cores": done.others_cores}
                        keep(RESULTS, row)
                        click.echo(row, err=True)


def table(rows: list[dict[str, Any]]) -> str:
    """Return Markdown: a row per rate, number of partitions and state, of the last run of each."""
    last = {(row["peer"], row["rate"], row["partitions"], row["in_sync"]): row for row in rows}
    lines = [
        "| fetches/s | partitions | | without: p50, p99, ms | added p50, p99, ms | of a core | MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for rate in RATES:
        for partitions in PARTITIONS:
            for in_sync, state in STATES.items():
                without, beside = (last.get((peer, rate, partitions, in_sync)) for peer in (DIRECT, SIDECAR))
                if without is not None and beside is not None:
                    cells = _cells(rate, without, beside)
                    lines.append(f"| {rate} | {partitions} | {state} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(rate: int, without: dict[str, Any], beside: dict[str, Any]) -> list[str]:
    """Return what stands in a row. Where a rate was not reached, there are no latencies to compare."""
    first = f"{without['p50_us'] / 1000:.2f}, {without['p99_us'] / 1000:.2f}"
    added = ", ".join(f"{(beside[key] - without[key]) / 1000:.2f}" for key in ("p50_us", "p99_us"))
    for row, who in ((without, "without it"), (beside, "with it")):
        if row["fetches_per_second"] < REACHED * rate:
            added = f"not reached: {row['fetches_per_second']:.0f} {who}"
    return [first, added, f"{beside['cores']:.3f}", f"{beside['resident'] / MIB:.0f}"]


@click.command()
@click.option("--rate", "rates", type=int, multiple=True, default=RATES, help="Fetches a second; 0: measure nothing.")
@click.option("--seconds", default=6.0, show_default=True, type=click.FloatRange(0.1), help="Counted time of each run.")
@click.option(
    "--write", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A document with the marks."
)
def main(rates: tuple[int, ...], *, seconds: float, write: Path | None) -> None:
    """Measure what a sidecar costs, beside none."""
    try:
        measure(filter(None, rates), seconds)
    except BenchError as error:
        raise click.ClickException(str(error)) from error
    text = table(kept(RESULTS, "run it with --rate 50 first"))
    click.echo(text)
    if write is not None:
        PART.write(write, text)


if __name__ == "__main__":
    main()

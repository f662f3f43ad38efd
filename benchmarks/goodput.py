"""Goodput: how many record bytes cross the wire for each byte that reaches a follower's log, on real brokers.

    python -m benchmarks.goodput                              measure every case, and print the table
    python -m benchmarks.goodput --case "60 kB"               measure one again
    python -m benchmarks.goodput --no-native --no-sidecars    print what was measured before
    python -m benchmarks.goodput --write docs/benchmarks.md   put the table between its marks there as well

Results are added to build/goodput.jsonl; the table shows the last of each. Invariant: rows of one case moved the same
batches.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import trio

from lab.brokers.releases import release
from lab.cluster.cluster import cluster
from lab.cluster.plan import ClusterPlan
from lab.errors import LabError
from lab.moves.move import MIB, Move
from lab.moves.mover import Mover
from lab.sidecars.sidecars import SidecarPlan
from lab.wire.records import Shape

from .document_part import DocumentPart
from .results import BUILD, keep, kept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.moves.move import How, Side

RESULTS = BUILD / "goodput.jsonl"
PART = DocumentPart("goodput")
BROKERS = (101, 102)
TOTAL_BYTES = 24 * MIB
FIRST = Move("unthrottled", bytes_per_partition=MIB)
"""The first move of brokers that have just started takes half a second longer."""


class Way(NamedTuple):
    """The throttle of a case, and its side."""

    title: str
    how: How
    side: Side


NATIVE = Way("broker", "native cold", "leader")
SIDECARS = (Way("**sidecar, leader**", "sidecar strict", "leader"), Way("**follower**", "sidecar strict", "follower"))


class Batches(NamedTuple):
    """The batches of a case, at 4 MiB/s: so many records of 1000 bytes each, of several sizes drawn at random."""

    name: str
    records: tuple[int, ...]
    partitions: int = 4
    codec: str | None = None
    """The compression of brokers (`compression.type`)."""

    def move(self, way: Way) -> Move:
        shape, *others = (Shape(batch_records=count, message_format="v2") for count in self.records)
        return Move(
            way.how,
            way.side,
            partitions=self.partitions,
            bytes_per_partition=TOTAL_BYTES // self.partitions,
            shape=shape,
            mixed_with=tuple(others),
            topic_configs={} if self.codec is None else {"compression.type": self.codec},
        )


CASES = (
    *(Batches(f"{count} kB", (count,)) for count in (1, 15, 60, 250, 1000)),
    Batches("1, 15, 60 and 200 kB mixed", (1, 15, 60, 200)),
    *(Batches(f"60 kB, {codec}", (60,), codec=codec) for codec in ("gzip", "snappy", "lz4", "zstd")),
    *(Batches(f"60 kB, {count} partitions", (60,), partitions=count) for count in (1, 40, 1000)),
)


async def measure(ways: Sequence[Way], cases: Sequence[Batches], *, sidecars: bool) -> None:
    """Move every case each way, and keep what came of it. Raises LabError."""
    plan = ClusterPlan(brokers=BROKERS, release=release(protocol="3.9"), sidecars=SidecarPlan() if sidecars else None)
    async with cluster(plan) as made:
        await Mover(made).run(FIRST)
        for case in cases:
            for way in ways:
                result = await Mover(made).run(case.move(way))
                if not result.equal:
                    raise LabError(f"{case.name}, {way.how}: the replicas differ")
                row = {"case": case.name, "way": way.title, **result.summary()}
                keep(RESULTS, row)
                click.echo(f"{case.name}, {way.title}: {row['wire_over_log']}", err=True)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return Markdown: one row per case, in the order of `CASES`; in each cell what came of it each way."""
    last = {(row["case"], row["way"]): row for row in rows}
    ways = [way.title for way in (NATIVE, *SIDECARS)]
    titles = (("wire / log", "wire_over_log", 3), ("mean / Q", "mean_over_quota", 2),
              ("worst second / Q", "worst_second_over_quota", 2), ("fetches/s", "fetches_per_second", 0))  # fmt: skip
    lines = [f"| batches | {' | '.join(title for title, _, _ in titles)} |", "|---" * (1 + len(titles)) + "|"]
    for case in CASES:
        found = [last.get((case.name, way), {}) for way in ways]
        if any(found):
            cells = (", ".join(_number(row.get(key), digits) for row in found) for _, key, digits in titles)
            lines.append(f"| {case.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


@click.command()
@click.option("--case", "names", type=click.Choice([case.name for case in CASES]), multiple=True, help="Only these.")
@click.option("--native/--no-native", default=True, help="Kafka's own quota beside.")
@click.option("--sidecars/--no-sidecars", default=True, help="The sidecar on either side.")
@click.option(
    "--write", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A document with the marks."
)
def main(names: tuple[str, ...], *, native: bool, sidecars: bool, write: Path | None) -> None:
    """Measure goodput at 4 MiB/s: bytes on the wire over bytes in the log."""
    cases = [case for case in CASES if not names or case.name in names]
    try:
        if native:
            trio.run(lambda: measure([NATIVE], cases, sidecars=False))
        if sidecars:
            trio.run(lambda: measure(SIDECARS, cases, sidecars=True))
    except LabError as error:
        raise click.ClickException(str(error)) from error
    text = table(kept(RESULTS, "run it with --native or --sidecars first"))
    click.echo(text)
    if write is not None:
        PART.write(write, text)


if __name__ == "__main__":
    main()

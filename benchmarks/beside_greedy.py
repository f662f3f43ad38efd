"""Fetches of a follower in sync beside eight greedy connections, and alone: their times.

    python -m benchmarks.beside_greedy --seconds 5 --rounds 3 --load "fetches of 5000 partitions"

The loads are those of the fuzzer's greedy scene, and fetches of 100 to 25 000 partitions, as many as eight connections
can send, half of them at the ingress and half at the egress. Fetches alone and beside a load are timed in turns, so
that whatever else the machine does meets both. A control, which an idle sidecar relays, is timed at the same moments.

A follower that waits for an answer does not ask. What it would have asked meanwhile, every 5 ms, is counted as waiting
too (as HdrHistogram corrects for coordinated omission). Otherwise a stall of seconds would be one slow fetch among
hundreds.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
import trio

from fuzz.scenes.fetches import fetch, many_partitions
from fuzz.scenes.greedy import BURST_BYTES, Greedy
from fuzz.scenes.greedy import loads as fuzzed
from fuzz.stage.modes import MODES
from fuzz.stage.priority import be_nice
from fuzz.stage.stage import Program, Stage, open_stage
from fuzz.stage.victim import PAUSE_SECONDS
from fuzz.stage.victim_process import PAIRS, Party
from lab.sidecars.sidecars import throttle_sidecar_script

if TYPE_CHECKING:
    from collections.abc import Mapping

ALONE = "alone"
SETTLE_SECONDS = 0.5
RECOVERY_SECONDS = 2.0
"""The pause after a load: what was sent has to be worked through first."""
ASKED_EVERY_TENTHS = int(PAUSE_SECONDS * 10_000)
IN_SYNC = 10**9
"""A fetch offset at the high watermark that the greedy connections' leader tells."""


def loads() -> dict[str, bytes]:
    """Return by name the bytes that are sent again and again. Replicas are behind, unless the name says otherwise."""
    hundred = many_partitions(3, 100)
    return {
        "fetches of 100 partitions": hundred * (BURST_BYTES // len(hundred)),
        "fetches of 1000 partitions": many_partitions(3, 1000),
        "fetches of 5000 partitions": many_partitions(3, 5000),
        "fetches of 5000 partitions, v12": many_partitions(12, 5000),
        "fetches of 5000 partitions, in sync": fetch(3, [("t", 5000)], fetch_offset=IN_SYNC),
        **fuzzed(),
    }


@dataclass(slots=True)
class Times:
    """Fetches by their time in tenths of a millisecond."""

    histogram: Counter[int] = field(default_factory=Counter)

    def quantile_ms(self, part: float) -> float:
        left = part * self.histogram.total()
        for tenth, count in sorted(self.histogram.items()):
            left -= count
            if left <= 0:
                return max(tenth, 1) / 10
        return 0.0

    def take(self, party: Party) -> None:
        """Add the fetches that both pairs have timed since they were reset."""
        for name in PAIRS:
            for tenths, count in party.observed[name].histogram.items():
                for waited in range(tenths, -1, -ASKED_EVERY_TENTHS):
                    self.histogram[waited] += count
            for waited in range(party.observed[name].pending_us // 100, -1, -ASKED_EVERY_TENTHS):
                self.histogram[waited] += 1


@dataclass(slots=True)
class Row:
    victim: Times = field(default_factory=Times)
    control: Times = field(default_factory=Times)
    sent: int = 0
    """How often a greedy connection sent its load meanwhile."""
    seconds: float = 0.0


async def measured(
    mode: str, program: str, chosen: Mapping[str, bytes], *, seconds: float, rounds: int
) -> dict[str, Row]:
    """Return times by load, `ALONE` among them, which is measured before each."""
    rows = {name: Row() for name in (ALONE, *chosen)}
    with tempfile.TemporaryDirectory(prefix="beside-") as home:
        async with open_stage(MODES[mode], Program(program), Path(home)) as stage:
            for _ in range(rounds):
                for load, data in chosen.items():
                    await _timed(stage, rows[ALONE], None, seconds)
                    await _timed(stage, rows[load], data, seconds)
    return rows


async def _timed(stage: Stage, row: Row, data: bytes | None, seconds: float) -> None:
    async with trio.open_nursery() as nursery:
        greedy = Greedy(seed=1)
        if data is not None:
            nursery.start_soon(greedy.beside, stage, data)
        await trio.sleep(SETTLE_SECONDS if data else RECOVERY_SECONDS)
        for party in (stage.victim, stage.control):
            party.forget()
        before = greedy.things
        await trio.sleep(seconds)
        row.sent += greedy.things - before
        row.seconds += seconds
        row.victim.take(stage.victim)
        row.control.take(stage.control)
        nursery.cancel_scope.cancel()


def table(rows: dict[str, Row]) -> str:
    """Return Markdown; the ratio is of the victim's p99 to what it is alone."""
    alone = rows[ALONE].victim.quantile_ms(0.99)
    lines = [
        "| beside | fetches | p50 ms | p99 ms | x alone | worst ms | control's p50, p99 ms meanwhile | loads/s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        p50, p99 = row.victim.quantile_ms(0.5), row.victim.quantile_ms(0.99)
        control = f"{row.control.quantile_ms(0.5):.1f}, {row.control.quantile_ms(0.99):.1f}"
        lines.append(
            f"| {name} | {row.victim.histogram.total()} | {p50:.1f} | {p99:.1f} | {p99 / alone:.1f} "
            f"| {row.victim.quantile_ms(1.0):.0f} | {control} | {row.sent / row.seconds:.0f} |"
        )
    return "\n".join(lines)


@click.command()
@click.option("--mode", default="quotas", show_default=True, type=click.Choice(list(MODES)))
@click.option("--seconds", default=5.0, show_default=True, type=click.FloatRange(0.1), help="Of each measurement.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--load", "only", multiple=True, type=click.Choice(list(loads())), help="Only these.  [default: all]")
@click.option("--program", default=None, help="The throttle-sidecar to measure.  [default: this environment's]")
def main(mode: str, seconds: float, rounds: int, only: tuple[str, ...], program: str | None) -> None:
    """Time an in-sync follower's fetches, alone and beside eight greedy connections."""
    be_nice()
    chosen = {name: data for name, data in loads().items() if name in only or not only}
    script = program or throttle_sidecar_script()
    rows = trio.run(partial(measured, mode, script, chosen, seconds=seconds, rounds=rounds))
    click.echo(table(rows))


if __name__ == "__main__":
    main()

"""Compare what stands between a follower and a leader: `python -m benchmarks.byte_path --help`."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from protocol.fetch.tables import SUPPORTED_FETCH_VERSIONS

from .contenders.every_peer import PEERS
from .loads import LOADS, REFERENCE_VERSION
from .measuring import Times, measure
from .report.tables import disturbance, explain, tables
from .running import BenchError
from .runs import RunsFile, this_machine

if TYPE_CHECKING:
    from collections.abc import Mapping

WARM_UP_SECONDS = 0.25
QUICK_ROUNDS, QUICK_SECONDS, QUICK_WARM_UP_SECONDS = 3, 0.5, 0.15


@click.command(context_settings={"show_default": True})
@click.option("--peers", default="", help=f"Names, by commas; default all: {', '.join(PEERS)}.")
@click.option("--loads", default="", help=f"Names, by commas; default all: {', '.join(LOADS)}.")
@click.option("--connections", default=1, type=click.IntRange(1, 500), help="Followers that fetch at once.")
@click.option("--kafka-buffers", is_flag=True, help="Socket buffers as brokers set them: 64 KiB and 100 KiB.")
@click.option("--copies", is_flag=True, help="A follower that copies what it receives, instead of discarding it.")
@click.option(
    "--fetch-version",
    default=REFERENCE_VERSION,
    type=click.IntRange(SUPPORTED_FETCH_VERSIONS[0], SUPPORTED_FETCH_VERSIONS[-1]),
    help="Of the Fetch requests.",
)
@click.option("--rounds", default=5, type=click.IntRange(1), help="Times each load goes through each peer, in turns.")
@click.option("--seconds", default=1.0, type=click.FloatRange(0.1), help="Counted time of one run.")
@click.option("--json", "file", type=click.Path(path_type=Path, dir_okay=False), help="Append every run to FILE.")
@click.option("--quick", is_flag=True, help="The sidecar beside HAProxy's defaults and its splicing, in a minute.")
def main(
    peers: str, loads: str, connections: int, kafka_buffers: bool, copies: bool, fetch_version: int, rounds: int,
    seconds: float, file: Path | None, quick: bool,
) -> None:  # fmt: skip
    """Send the loads through the peers, in turns, and print medians beside each other.

    \b
    Every peer runs as its own process on loopback, between a leader and a follower that cost next to nothing.
    A round sends every load through every peer once; the medians of all rounds are shown, with their ratios to
    HAProxy's defaults. CPU is that of the peer's whole process tree. What is not installed is named and left out.

    \b
        python -m benchmarks.byte_path --quick
        python -m benchmarks.byte_path --peers opaque,haproxy-splice --loads "10 x 1 MB" --rounds 9
    """
    chosen = [PEERS[name] for name in _names(peers, PEERS, "--peers")]
    if quick:
        chosen = [peer for peer in chosen if peer.quick or peers]
        rounds, seconds = QUICK_ROUNDS, QUICK_SECONDS
    wanted = [
        dataclasses.replace(
            LOADS[name], connections=connections, kafka_buffers=kafka_buffers, version=fetch_version, copies=copies
        )
        for name in _names(loads, LOADS, "--loads")
    ]
    began = time.monotonic()
    try:
        warm_up = QUICK_WARM_UP_SECONDS if quick else WARM_UP_SECONDS
        times = Times(rounds, seconds, warm_up)
        results, missing = measure(chosen, wanted, times, RunsFile(file, "byte path"))
    except BenchError as error:
        raise click.ClickException(str(error)) from error
    for name, why in missing.items():
        click.echo(f"left out: {name}: {why}")
    click.echo(explain(this_machine(peer for peer in chosen if peer.name not in missing)))
    click.echo(f"{rounds} rounds of {seconds:g} s, {time.monotonic() - began:.0f} s in all. {disturbance(results)}\n")
    click.echo(tables(results))


def _names(given: str, known: Mapping[str, object], option: str) -> list[str]:
    names = [name.strip() for name in given.split(",") if name.strip()] or list(known)
    for name in names:
        if name not in known:
            raise click.BadParameter(f"expected names of {', '.join(known)}, found {name!r}", param_hint=option)
    return names


if __name__ == "__main__":
    main()

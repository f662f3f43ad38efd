"""The lab's command line: clusters to play with, moves to measure. `python -m lab --help`.

Thin: options in, values to `lab.cluster.cluster` and `lab.moves.mover`, tables or JSON out.
Invariant: standard output carries only the answer; progress and errors go to standard error. Exit status 1
means the lab failed, 3 that a move ended with replicas that differ, 130 that it was stopped.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast

import click
import trio
from rich.console import Console
from rich.table import Table

from . import stopping
from .brokers.fetch_jars import fetch_jars
from .brokers.releases import EVERY_RELEASE
from .cluster.cluster import Cluster, cluster
from .cluster.plan import ClusterPlan
from .cluster_options import BINARIES, PROTOCOLS, RATE, SIZE, cluster_options, cluster_plan, security_option
from .errors import LabError
from .host.addresses import KAFKA_PORT
from .measuring.figures import fetch_versions
from .moves.move import HOWS, SIDES, How, Move, MoveResult, Side
from .moves.mover import Mover
from .reporting import ProgressLine, moves_table
from .sidecars.sidecars import SidecarPlan
from .wire.records import BIG, SMALL

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from .brokers.releases import Release

DIFFERENT_REPLICAS = 3
_VERSION_SECONDS = 10.0


@click.group(context_settings={"max_content_width": 110, "show_default": True, "help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Run real Kafka brokers on this machine, with taps (and sidecars, if wanted) on their replication path.

    Needs Java 17 and, the first time, Maven. A cluster of three takes about 400 MB and 3 to 10 seconds.
    Nothing outside of a temporary folder is touched; Ctrl-C ends everything.

    \b
    python -m lab up --sidecars                      a cluster to play with, until Ctrl-C
    python -m lab move --how "sidecar strict"        8 x 8 MiB at 4 MiB/s through the sidecar, measured
    python -m lab move --how "native warm" --json    the same by the brokers' own quota
    python -m lab native --quota 1MiB/s --quota 4MiB/s       what the brokers' own quota really does
    python -m lab versions                           which Fetch version followers send, by protocol
    python -m lab up --protocol 3.9                  brokers in KRaft mode (any command takes --protocol)
    python -m lab fetch                              the jars of every release, before anything waits for them
    """


@cli.command()
@click.option("--brokers", type=click.IntRange(1, 9), default=3, help="How many.")
@cluster_options
@click.option("--sidecars/--no-sidecars", default=False, help="A sidecar beside every broker, both roles.")
@click.option("--policy", type=click.Choice(["strict", "kip73"]), default="strict")
@security_option
@click.option("--keep", is_flag=True, help="Leave the cluster's files when done.")
@click.option("--json", "as_json", is_flag=True, help="Print addresses as one JSON line.")
def up(**options: Any) -> None:
    """Start a cluster, print where everything is, and wait for Ctrl-C.

    Names like kafka-101 are known only to the brokers' own hosts files. A Java client reaches the cluster
    with -Djdk.net.hosts.file set to the file that is printed; others go by address.
    """
    sidecars = SidecarPlan(policy=options["policy"]) if options["sidecars"] else None
    brokers = tuple(range(101, 101 + options["brokers"]))
    plan = cluster_plan(brokers, options, sidecars=sidecars, keep=options["keep"])
    _run(partial(_up, plan, as_json=options["as_json"]))


async def _up(plan: ClusterPlan, *, as_json: bool) -> int:
    async with cluster(plan) as kafka:
        places = _places(kafka)
        if as_json:
            click.echo(json.dumps(places))
        else:
            for key, value in places.items():
                click.echo(f"{key:15}{value}")
            click.echo("Ctrl-C ends it.", err=True)
        await trio.sleep_forever()


@cli.command()
@click.option("--how", type=click.Choice(HOWS), default="sidecar strict", help="Who throttles.")
@click.option("--side", type=click.Choice(SIDES), default="leader", help="Which role does.")
@click.option("--quota", type=RATE, default="4MiB/s", help="Of each broker that throttles.")
@click.option("--partitions", type=click.IntRange(1), default=8, help="Spread over the leaders.")
@click.option("--size", type=SIZE, default="8MiB", help="Of each partition.")
@click.option("--leaders", type=click.IntRange(1, 8), default=1, help="How many brokers to move from.")
@click.option("--followers", type=click.IntRange(1, 8), default=1, help="How many brokers to move to.")
@click.option("--records", type=click.Choice(["small", "big"]), default="small", help="1000 B or 100 kB.")
@click.option("--live", is_flag=True, help="Measure an acks=all producer on another partition meanwhile.")
@click.option("--repeat", type=click.IntRange(1), default=1, help="Moves, one after the other.")
@security_option
@cluster_options
@click.option("--json", "as_json", is_flag=True, help="One JSON line per move.")
def move(**options: Any) -> None:
    """Move partitions under a quota and say how well it was kept.

    Columns, over the quota: mean (from the request to the last byte), worst sliding second, worst 11 seconds
    (Kafka's own window), first second, standard deviation of a second. "equal" means that every replica holds
    the same bytes as its leader.
    """
    brokers = tuple(range(101, 101 + options["leaders"] + options["followers"]))
    wanted = _wanted(
        how=cast("How", options["how"]),
        side=cast("Side", options["side"]),
        quota_bytes_per_second=options["quota"],
        partitions=options["partitions"],
        bytes_per_partition=options["size"],
        leaders=brokers[: options["leaders"]],
        followers=brokers[options["leaders"] :],
        shape=SMALL if options["records"] == "small" else BIG,
        live=options["live"],
    )
    plan = cluster_plan(brokers, options, sidecars=_sidecars_for(wanted))
    _run(partial(_moves, plan, [wanted] * options["repeat"], as_json=options["as_json"]))


@cli.command()
@click.option("--quota", "quotas", type=RATE, multiple=True, default=("1MiB/s", "4MiB/s"))
@click.option("--side", "sides", type=click.Choice(SIDES), multiple=True, default=("leader", "follower"),
              show_default=True)  # fmt: skip
@click.option("--seconds", type=click.IntRange(5), default=22, help="Ideal length of each move.")
@click.option("--partitions", type=click.IntRange(1), default=8)
@cluster_options
@click.option("--json", "as_json", is_flag=True, help="One JSON line per move.")
def native(**options: Any) -> None:
    """Measure the brokers' own quota, cold and (for leaders) warm: the yardstick of everything else.

    Warm is what a broker is that other followers fetch from, so it is what production is.
    """
    wanted = [
        Move(
            how=how,
            side=side,
            quota_bytes_per_second=quota,
            partitions=options["partitions"],
            bytes_per_partition=int(quota * options["seconds"] / options["partitions"]),
        )
        for quota in options["quotas"]
        for side in options["sides"]
        for how in (("native cold", "native warm") if side == "leader" else ("native cold",))
    ]
    _run(partial(_moves, cluster_plan((101, 102), options), wanted, as_json=options["as_json"]))


@cli.command()
@click.argument("protocols", nargs=-1, type=click.Choice(PROTOCOLS), metavar="[PROTOCOL]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON line per protocol.")
def versions(protocols: Sequence[str], *, as_json: bool) -> None:
    """Show which Fetch version followers send, by what their brokers are told to speak, as seen on the wire.

    Without any PROTOCOL, all of them are tried, one cluster of two brokers after the other; binaries of before 2.4
    too.
    """
    rows = [row for row in EVERY_RELEASE if not protocols or row.name in protocols]
    _run(partial(_versions, rows, as_json=as_json))


@cli.command()
@click.argument("versions", nargs=-1, type=click.Choice(BINARIES), metavar="[KAFKA]...")
def fetch(versions: Sequence[str]) -> None:
    """Fetch Kafka's jars into the cache by Maven, unless they are there: every release that the lab runs, or KAFKA.

    Other commands fetch those of their own release when they need them. A test that has to wait for them has less
    time for what it tests.
    """

    async def each() -> int:
        for version in versions or BINARIES:
            await trio.to_thread.run_sync(fetch_jars, Console(stderr=True), version)
        return 0

    _run(each)


async def _moves(plan: ClusterPlan, wanted: Sequence[Move], *, as_json: bool) -> int:
    results: list[MoveResult] = []
    with ProgressLine() as progress:
        progress.phase("starting the cluster")
        async with cluster(plan) as kafka:
            mover = Mover(kafka, tell=progress.tell)
            for index, each in enumerate(wanted, 1):
                progress.title = f"{index}/{len(wanted)} {each.how}, {each.side}"
                results.append(await mover.run(each))
                if as_json:
                    click.echo(json.dumps(results[-1].summary()))
    if not as_json:
        Console().print(moves_table(results))
    return 0 if all(result.equal for result in results) else DIFFERENT_REPLICAS


async def _versions(rows: Sequence[Release], *, as_json: bool) -> int:
    table = Table("Kafka", "mode", "protocol", "records", "Fetch version expected", "seen")
    for row in rows:
        click.echo(f"starting two brokers {row.kafka} that speak {row.protocol} ({row.mode})", err=True)
        async with cluster(ClusterPlan(brokers=(101, 102), release=row)) as kafka:
            seen = await _versions_seen(kafka)
        if as_json:
            found = {"kafka": row.kafka, "mode": row.mode, "protocol": row.protocol, "fetch_versions": seen}
            click.echo(json.dumps(found))
        table.add_row(row.kafka, row.mode, row.protocol, row.records, str(row.fetch_version), ", ".join(map(str, seen)))
    if not as_json:
        Console().print(table)
    return 0


async def _versions_seen(kafka: Cluster) -> list[int]:
    await trio.to_thread.run_sync(kafka.admin.create_topic, "seen", {0: [101, 102]})
    with trio.move_on_after(_VERSION_SECONDS):
        while kafka.taps:
            if seen := fetch_versions(kafka.taps.samples()):
                return sorted(seen)
            await trio.sleep(0.1)
    raise LabError("no replica fetched anything")


def _wanted(**fields: Any) -> Move:
    """Return a move, or raise a usage error that says why there can be none like it."""
    try:
        return Move(**fields)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _sidecars_for(wanted: Move) -> SidecarPlan | None:
    """Return a plan of only the sidecars that the move needs: those that throttle."""
    if not wanted.how.startswith("sidecar"):
        return None
    return SidecarPlan(
        policy=wanted.how.removeprefix("sidecar "),
        leader=frozenset(wanted.leaders if "leader" in wanted.roles else ()),
        follower=frozenset(wanted.followers if "follower" in wanted.roles else ()),
    )


def _places(kafka: Cluster) -> dict[str, object]:
    addresses = kafka.addresses
    security = kafka.plan.security
    return {
        "brokers": {b: f"{addresses.direct(b)}:9092" for b in kafka.plan.brokers},
        "kafka": kafka.plan.release.kafka,
        "protocol": kafka.plan.release.protocol,
        **({"zookeeper": kafka.zookeeper.connect} if kafka.zookeeper else {}),
        **({"replication": f"{security.protocol} on port {security.port}"} if security.port != KAFKA_PORT else {}),
        **({"authority": str(kafka.keys.authority.certificate)} if security.network_encrypts else {}),
        "hosts_file": str(kafka.admin.hosts),
        "files": str(kafka.home),
        "sidecars": {b: sidecar.url for b, sidecar in kafka.sidecars.items()},
    }


def _run(work: Callable[[], Awaitable[int]]) -> NoReturn:
    """Run to the end, Ctrl-C, SIGTERM or SIGHUP, and exit with the status that came of it."""
    status, failures = stopping.run(work)
    if failures:
        click.echo("\n".join(["Error: " + failures[0], *failures[1:]]), err=True)
        sys.exit(1)
    if status is None:
        click.echo("stopped", err=True)
        sys.exit(stopping.STOPPED)
    sys.exit(status)


def main() -> None:
    """Run the command line: the entry point of `python -m lab`."""
    cli(prog_name="python -m lab")

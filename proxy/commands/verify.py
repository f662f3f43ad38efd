"""``verify``: is a reassignment done, and is its throttle gone? Asks the cluster, a file, sidecars; removes if told to.

What is done and what is left behind is decided in `proxy.moves`. Invariant: nothing is removed while a partition of the
reassignment is under way; exit status 0 exactly when it is done and nothing is left behind.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console

from reassignment import ReassignmentError, read_assignment

from ..errors import ConfigurationError
from ..file_reading import read_text
from ..file_replacement import edit_file
from ..moves.leftovers import leftovers_in_file
from ..moves.options import DURATION, FILE, cluster_options, connected
from ..moves.sidecars import still_throttled
from ..moves.verification import Verification, native_leftovers, progress
from ..moves.verify_report import left_behind, summary, verify_json, verify_table

if TYPE_CHECKING:
    from pathlib import Path

    from reassignment import Assignment

    from ..moves.cluster import Cluster

_PLAIN_WIDTH = 160
_POLL_SECONDS = 1.0
_EFFECT_SECONDS = 5.0
"""Within which brokers and sidecars must have heard of what was removed; they take a quarter of a second."""
_EFFECT_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Places:
    """Where a throttle may be left behind, beside the cluster."""

    quotas: Path | None
    urls: tuple[str, ...]


@click.command("verify", short_help="Is a reassignment done, and its throttle gone?")
@click.argument("reassignment", type=FILE, metavar="REASSIGNMENT.json")
@cluster_options
@click.option("--quotas", type=FILE, metavar="FILE", help="The quotas file, if it shall be looked at.")
@click.option("--url", "urls", multiple=True, help="A sidecar to ask what it throttles; may be repeated.")
@click.option("--wait", type=DURATION, metavar="TIME", help="Wait so long for it to be done, such as 2h.")
@click.option("--remove", is_flag=True, help="Remove what is left behind, if nothing is under way.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    reassignment: Path,
    bootstrap: tuple[str, ...],
    properties: Path | None,
    hosts: Path | None,
    quotas: Path | None,
    urls: tuple[str, ...],
    wait: float | None,
    remove: bool,
    as_json: bool,
) -> None:
    """Say whether REASSIGNMENT.json is done and whether a throttle is left behind.

    Done: every partition has the replicas it shall have, all in sync, nothing under way. Left behind: entries of the
    quotas file that name these partitions, rates that throttle nothing any more, and the brokers' own throttles
    (leader. and follower.replication.throttled.*) in the configs of topics and brokers. A throttle that is forgotten
    slows the next broker that restarts.

    --remove takes them out: of the file with one rename, comments kept; of the cluster as kafka-reassign-partitions
    --verify does, rates only if no other reassignment is under way. Not while this one is.

    Exit status 0: done, and nothing left behind. 1: not so.

    \b
    Examples:
      throttle-sidecar verify move.json --bootstrap kafka-101:9092 --quotas quotas.toml
      throttle-sidecar verify move.json --bootstrap kafka-101:9092 --quotas quotas.toml --wait 2h --remove
      throttle-sidecar verify move.json --bootstrap kafka-101:9092 --url http://kafka-101:9404 --url http://kafka-102:9404
    """
    if not bootstrap:
        raise click.UsageError("expected --bootstrap: only the cluster knows whether it is done")
    places = Places(quotas, urls)
    try:
        proposed = read_assignment(read_text(reassignment), str(reassignment)).assignment
    except ReassignmentError as error:
        raise ConfigurationError(error.problems) from error
    removed: list[str] = []
    with connected(bootstrap, properties, hosts) as cluster:
        found = _look(cluster, proposed, places)
        if wait:
            found = _wait(cluster, proposed, places, found, seconds=wait)
        if remove and not found.under_way and not found.clean:
            removed = _remove(cluster, proposed, places, found)
            found = _look_again(cluster, proposed, places)
    file = None if quotas is None else str(quotas)
    _print(found, file, removed, as_json=as_json)
    ctx.exit(0 if found.done and found.clean else 1)


def _look(cluster: Cluster, proposed: Assignment, places: Places) -> Verification:
    topics = sorted({partition.topic for partition in proposed})
    view = cluster.look(topics)
    existing = sorted({partition.topic for partition in view.partitions})
    native, notes = native_leftovers(cluster.throttles(existing, sorted(view.brokers)), proposed, view)
    file: tuple[Any, ...] = ()
    if places.quotas is not None:
        findings = leftovers_in_file(
            read_text(places.quotas), proposed, datetime.now(UTC), source=str(places.quotas)
        )  # fmt: skip
        file, notes = findings.leftovers, (*notes, *findings.notes)
    sidecars = tuple(left for url in places.urls for left in still_throttled(url, proposed))
    return Verification(progress(proposed, view), file, native, sidecars, notes)


def _wait(
    cluster: Cluster, proposed: Assignment, places: Places, found: Verification, *, seconds: float
) -> Verification:
    """Until it is done or the time is over; says on stderr what changes."""
    deadline, said = time.monotonic() + seconds, ""
    while not found.done and time.monotonic() < deadline:
        if summary(found) != said:
            said = summary(found)
            click.echo(said, err=True)
        time.sleep(min(_POLL_SECONDS, max(deadline - time.monotonic(), 0.0)))
        found = _look(cluster, proposed, places)
    return found


def _remove(cluster: Cluster, proposed: Assignment, places: Places, found: Verification) -> list[str]:
    """What was removed, one line each."""
    if places.quotas is not None and found.file:
        source = str(places.quotas)
        now = datetime.now(UTC)
        # Read again, under the lock: a colleague may have been faster.
        edit_file(
            places.quotas,
            lambda before: (leftovers_in_file(before.decode(), proposed, now, source=source).text.encode(), None),
        )
    cluster.remove(found.native)
    gone = Verification(found.progress, found.file, found.native)
    return left_behind(gone, None if places.quotas is None else str(places.quotas))


def _look_again(cluster: Cluster, proposed: Assignment, places: Places) -> Verification:
    deadline = time.monotonic() + _EFFECT_SECONDS
    while not (found := _look(cluster, proposed, places)).clean and time.monotonic() < deadline:
        time.sleep(_EFFECT_POLL_SECONDS)
    return found


def _print(found: Verification, file: str | None, removed: list[str], *, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(verify_json(found, quotas_file=file, removed=removed)).decode())
        return
    console = Console()
    (console if console.is_terminal else Console(width=_PLAIN_WIDTH)).print(
        verify_table(found, quotas_file=file, removed=removed), soft_wrap=True
    )

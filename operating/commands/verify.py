"""``verify``: is a reassignment done, and is its throttle gone? Asks the cluster, a file, sidecars; removes if told to.

What is done and what is left behind is decided in `operating.moves`. Invariant: nothing is removed while a partition
of the reassignment is under way; exit status 0 exactly when it is done and nothing is left behind. The others tell a
script to wait (1), to look for who is away (3) or to correct what was given (4).
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from proxy.errors import ClusterError, ConfigurationError, UnreachableError
from proxy.files.reading import read_text
from reassignment import ReassignmentError, read_assignment

from ..editing.sweeping import swept
from ..fleet.changing import Place, Rewritten, known_places, plan, write
from ..fleet.file import load_fleet
from ..fleet.stores import FileStore
from ..moves.leftovers import leftovers_in_file
from ..moves.options import DURATION, FILE, cluster_options, connected
from ..moves.sidecars import still_throttled
from ..moves.verification import Verification, native_leftovers, progress
from ..moves.verify_report import left_behind, summary, verify_json, verify_table
from ..terminal import Console, encoded, problems_as_json, say, say_json
from .options import SIDECAR_URL, fleet_option
from .telling import tell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reassignment import Assignment

    from ..moves.cluster import Cluster
    from ..moves.leftovers import FileLeftover

_NOT_DONE, _NOT_REACHABLE, _BAD_INPUT = 1, 3, 4
"""Exit statuses; 2 is wrong usage, as everywhere."""
_POLL_SECONDS = 1.0
_EFFECT_SECONDS = 5.0
"""Within which brokers and sidecars must have heard of what was removed; they take a quarter of a second."""
_EFFECT_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Places:
    """Where a throttle may be left behind, beside the cluster."""

    quotas: tuple[Place, ...]
    urls: tuple[str, ...]

    @classmethod
    def of(cls, quotas: tuple[Path, ...], urls: tuple[str, ...], fleet_path: Path | None) -> Places:
        """Raises ConfigurationError."""
        files = tuple(Place(FileStore(path), ()) for path in dict.fromkeys(quotas))
        if fleet_path is None:
            return cls(files, urls)
        fleet = load_fleet(fleet_path)
        return cls((*files, *known_places(fleet)), (*urls, *(member.url for member in fleet.members)))


@click.command("verify", short_help="Is a reassignment done, and its throttle gone?")
@click.argument("reassignment", type=FILE, metavar="REASSIGNMENT.json")
@cluster_options
@click.option("--quotas", type=FILE, multiple=True, metavar="FILE", help="A quotas file to look at; may be repeated.")
@click.option(
    "--url", "urls", type=SIDECAR_URL, multiple=True, help="A sidecar to ask what it throttles; may be repeated."
)
@fleet_option
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
    quotas: tuple[Path, ...],
    urls: tuple[str, ...],
    fleet_path: Path | None,
    wait: float | None,
    remove: bool,
    as_json: bool,
) -> None:
    """Say whether REASSIGNMENT.json is done and whether a throttle is left behind.

    Done: every partition has the replicas it shall have, all in sync, nothing under way. Left behind: entries of
    quotas files that name these partitions, rates that throttle nothing any more, what set --for put before them, and
    the brokers' own throttles (leader. and follower.replication.throttled.*) in the configs of topics and brokers. A
    throttle that is forgotten slows the next broker that restarts.

    --remove takes them out: of each file with one rename, comments kept; of the cluster as kafka-reassign-partitions
    --verify does, rates only if no other reassignment is under way. Not while this one is.

    \b
    Exit status
      0  done, and nothing is left behind
      1  not done, or something is left behind
      2  wrong usage
      3  a broker or a sidecar cannot be reached, or refuses to answer
      4  what was given is wrong: a file, an address (other commands say 1)

    \b
    Examples:
      throttle-sidecar verify move.json --bootstrap kafka-101:9092 --quotas quotas.toml
      throttle-sidecar verify move.json --bootstrap kafka-101:9092 --quotas quotas.toml --wait 2h --remove
      throttle-sidecar verify move.json --bootstrap kafka-101:9092 --quotas quotas-101.toml --quotas quotas-102.toml
      throttle-sidecar verify move.json --bootstrap kafka-101:9092 --url http://kafka-101:9404 --url http://kafka-102:9404
      throttle-sidecar verify move.json --bootstrap kafka-101:9092 --fleet fleet.toml --remove
    """
    if not bootstrap:
        raise click.UsageError("expected --bootstrap: only the cluster knows whether it is done")
    removed: list[str] = []
    with _exit_statuses(ctx, as_json=as_json):
        proposed, places = _read(reassignment), Places.of(quotas, urls, fleet_path)
        # Before a cluster is asked: it may take long to answer.
        _in_files(proposed, places)
        with connected(bootstrap, properties, hosts) as cluster:
            found = _look(cluster, proposed, places)
            if wait:
                found = _wait(cluster, proposed, places, found, seconds=wait)
            if remove and not found.under_way and not found.clean:
                removed = _remove(cluster, proposed, places, found)
                found = _look_again(cluster, proposed, places)
    _print(found, removed, as_json=as_json)
    ctx.exit(0 if found.done and found.clean else _NOT_DONE)


@contextmanager
def _exit_statuses(ctx: click.Context, *, as_json: bool) -> Iterator[None]:
    """Print what is wrong, and end with the status for it."""
    try:
        with problems_as_json(as_json=as_json):
            yield
    except (ClusterError, UnreachableError) as error:
        say(f"Error: {error}", err=True)
        ctx.exit(_NOT_REACHABLE)
    except ConfigurationError as error:
        say(f"Error: {error}", err=True)
        ctx.exit(_BAD_INPUT)


def _read(reassignment: Path) -> Assignment:
    try:
        return read_assignment(read_text(reassignment), str(reassignment)).assignment
    except ReassignmentError as error:
        raise ConfigurationError(error.problems) from error


def _look(cluster: Cluster, proposed: Assignment, places: Places) -> Verification:
    topics = sorted({partition.topic for partition in proposed})
    view = cluster.look(topics)
    existing = sorted({partition.topic for partition in view.partitions})
    native, notes = native_leftovers(cluster.throttles(existing, sorted(view.brokers)), proposed, view)
    file, more = _in_files(proposed, places)
    notes = (*notes, *more)
    sidecars = tuple(left for url in places.urls for left in still_throttled(url, proposed))
    return Verification(progress(proposed, view), file, native, sidecars, notes)


def _in_files(proposed: Assignment, places: Places) -> tuple[tuple[FileLeftover, ...], tuple[str, ...]]:
    """What is left there, and notes."""
    found = [
        leftovers_in_file(_text(place.store.read(), place), proposed, datetime.now(UTC), source=place.store.name)
        for place in places.quotas
    ]
    return tuple(left for each in found for left in each.leftovers), tuple(n for each in found for n in each.notes)


def _text(content: bytes, place: Place) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{place.store.name}: cannot be read: {error}") from error


def _wait(
    cluster: Cluster, proposed: Assignment, places: Places, found: Verification, *, seconds: float
) -> Verification:
    """Until it is done or the time is over; says on stderr what changes.

    Raises what `_look` does, if it does so when the time is over: who restarts in between is back before that, and what
    was good when the waiting began will be again.
    """
    deadline, said, told = time.monotonic() + seconds, "", summary(found)
    while not found.done and time.monotonic() < deadline:
        if told != said:
            said = told
            say(said, err=True)
        time.sleep(min(_POLL_SECONDS, max(deadline - time.monotonic(), 0.0)))
        try:
            found = _look(cluster, proposed, places)
            told = summary(found)
        except (ConfigurationError, UnreachableError) as error:
            if time.monotonic() >= deadline:
                raise
            told = f"{error}: looking again until the time is over"
    return found


def _remove(cluster: Cluster, proposed: Assignment, places: Places, found: Verification) -> list[str]:
    """What was removed, one line each."""
    now = datetime.now(UTC)
    gone: list[FileLeftover] = []

    def clean(place: Place, before: bytes) -> Rewritten:
        # Read again: a colleague may have been faster.
        findings = leftovers_in_file(_text(before, place), proposed, now, source=place.store.name)
        gone.extend(findings.leftovers)
        return Rewritten(before, swept(findings.text, now).text.encode() if findings.leftovers else before)

    planned = plan(places.quotas, clean)
    write(planned)
    tell([each for each in planned if any(member.configmap is not None for member in each.place.members)])
    cluster.remove(found.native)
    return left_behind(Verification(found.progress, tuple(gone), found.native))


def _look_again(cluster: Cluster, proposed: Assignment, places: Places) -> Verification:
    deadline = time.monotonic() + _EFFECT_SECONDS
    while not (found := _look(cluster, proposed, places)).clean and time.monotonic() < deadline:
        time.sleep(_EFFECT_POLL_SECONDS)
    return found


def _print(found: Verification, removed: list[str], *, as_json: bool) -> None:
    if as_json:
        say_json(encoded(verify_json(found, removed=removed)))
        return
    Console().print(verify_table(found, removed=removed), soft_wrap=True)

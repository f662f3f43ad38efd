"""``verify``: is a reassignment done, and is its throttle gone? Asks the cluster, a file, sidecars; removes if told to.

What is done and what is left behind is decided in `operating.moves`. Invariant: nothing is removed while a partition
of the reassignment is under way; exit status 0 exactly when it is done and nothing is left behind. The others tell a
script to wait (1), to look for who is away (3) or to correct what was given (4).
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from proxy.errors import ClusterError, ConfigurationError, UnreachableError
from proxy.files.reading import read_bytes
from reassignment import ReassignmentError, read_assignment, text_of

from ..editing.sweeping import swept
from ..fleet.changing import Place, Rewritten, known_places, plan, write
from ..fleet.file import load_fleet
from ..fleet.stores import FileStore
from ..moves.leftovers import leftovers_in_file
from ..moves.native_throttle import NativeFindings, native_findings, needs_every_list
from ..moves.options import DURATION, FILE, cluster_options, connected
from ..moves.sidecars import still_throttled
from ..moves.verification import UNDER_WAY, Stage, Verification, progress
from ..moves.verify_report import left_behind, summary, verify_json, verify_table
from ..moves.view import LOG_DIR_RATE, NativeConfigs
from ..terminal import Console, encoded, problems_as_json, say, say_json
from .options import SIDECAR_URL, fleet_option
from .telling import tell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reassignment import Assignment, Document

    from ..moves.cluster import Cluster
    from ..moves.leftovers import FileLeftover
    from ..moves.verification import Progress
    from ..moves.view import ClusterView

_NOT_DONE, _NOT_REACHABLE, _BAD_INPUT = 1, 3, 4
"""Exit statuses; 2 is wrong usage, as everywhere."""
_POLL_SECONDS = 1.0
_EFFECT_SECONDS = 5.0
"""Within which brokers and sidecars must have heard of what was removed; they take a quarter of a second."""
_EFFECT_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Places:
    """Where a throttle may be left behind. `native`: in the configs of topics and brokers as well."""

    quotas: tuple[Place, ...]
    urls: tuple[str, ...]
    native: bool = True

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
@click.option("--force", is_flag=True, help="With --remove: although brokers of the move do not answer.")
@click.option("--preserve-throttles", is_flag=True, help="Leave the brokers' own throttles alone, whoever set them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    reassignment: Path,
    quotas: tuple[Path, ...],
    urls: tuple[str, ...],
    fleet_path: Path | None,
    wait: float | None,
    remove: bool,
    force: bool,
    preserve_throttles: bool,
    as_json: bool,
    **reach: Any,
) -> None:
    """Say whether REASSIGNMENT.json is done and whether a throttle is left behind.

    Done: every partition has the replicas it shall have, all in sync and in the log directories that are named,
    nothing under way. Left behind: entries of quotas files that name these partitions, rates that throttle nothing any
    more, what set --for put before them, and the brokers' own throttles in the configs of topics and brokers that
    kafka-reassign-partitions --throttle sets for such a move; others stay, and are named. A throttle that is forgotten
    slows the next broker that restarts.

    --remove takes them out: of each file with one rename, comments kept; of the cluster only if nothing moves at all,
    as kafka-reassign-partitions --verify does. Not while this move is under way, nor while a broker of it does not
    answer, unless --force says so.

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
    if not reach["bootstrap"]:
        raise click.UsageError("expected --bootstrap: only the cluster knows whether it is done")
    removed: list[str] = []
    with _exit_statuses(ctx, as_json=as_json):
        move = _read(reassignment)
        places = replace(Places.of(quotas, urls, fleet_path), native=not preserve_throttles)
        # Before a cluster is asked: it may take long to answer.
        _in_files(move.assignment, places)
        with connected(**reach) as cluster:
            found = _look(cluster, move, places)
            if wait:
                found = _wait(cluster, move, places, found, seconds=wait)
            if remove and not found.under_way and (force or not found.is_away) and not found.clean:
                removed = _remove(cluster, move.assignment, places, found, force=force)
                found = _look_again(cluster, move, places) if removed else found
    _print(found, removed, as_json=as_json)
    ctx.exit(_status(found))


def _status(found: Verification) -> int:
    if found.done and found.clean:
        return 0
    only_silent = not (found.file or found.native.left or found.sidecars)
    away = all(each.stage in (Stage.DONE, Stage.AWAY) for each in found.progress)
    return _NOT_REACHABLE if only_silent and away else _NOT_DONE


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


def _read(reassignment: Path) -> Document:
    try:
        content = read_bytes(reassignment, takes_pipes=True)
        return read_assignment(text_of(content, str(reassignment)), str(reassignment))
    except ReassignmentError as error:
        raise ConfigurationError(error.problems) from error


def _look(cluster: Cluster, move: Document, places: Places) -> Verification:
    view = cluster.look(sorted({partition.topic for partition in move.assignment}))
    found = progress(move, view)
    native = _native(cluster, move, view, found) if places.native else NativeFindings()
    file, notes = _in_files(move.assignment, places)
    sidecars = tuple(left for url in places.urls for left in still_throttled(url, move.assignment))
    return Verification(found, file, native, sidecars, notes)


def _native(cluster: Cluster, move: Document, view: ClusterView, found: tuple[Progress, ...]) -> NativeFindings:
    topics = {partition.topic for partition in view.partitions}
    throttles = tuple(cluster.throttles(sorted(topics), sorted(view.brokers)))
    on_disks = {str(broker) for broker, _ in move.directories}
    limited = {int(each.name) for each in throttles if each.key == LOG_DIR_RATE and each.name in on_disks}
    seen = NativeConfigs(throttles, view.brokers, cluster.copying(limited) if limited else frozenset())
    if needs_every_list(move, seen):
        others = {partition.topic for partition in cluster.every_partition()} - topics
        seen = seen._replace(throttles=(*throttles, *cluster.throttles(sorted(others), ())))
    return native_findings(move, view, seen, under_way=[each.partition for each in found if each.stage in UNDER_WAY])


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


def _wait(cluster: Cluster, move: Document, places: Places, found: Verification, *, seconds: float) -> Verification:
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
            found = _look(cluster, move, places)
            told = summary(found)
        except (ConfigurationError, UnreachableError) as error:
            if time.monotonic() >= deadline:
                raise
            told = f"{error}: looking again until the time is over"
    return found


def _remove(cluster: Cluster, proposed: Assignment, places: Places, found: Verification, *, force: bool) -> list[str]:
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
    native = found.native.removable(force=force)
    cluster.remove(native)
    return left_behind(Verification(found.progress, tuple(gone), NativeFindings(native)))


def _look_again(cluster: Cluster, move: Document, places: Places) -> Verification:
    deadline = time.monotonic() + _EFFECT_SECONDS
    while not (found := _look(cluster, move, places)).clean and time.monotonic() < deadline:
        time.sleep(_EFFECT_POLL_SECONDS)
    return found


def _print(found: Verification, removed: list[str], *, as_json: bool) -> None:
    if as_json:
        say_json(encoded(verify_json(found, removed=removed)))
        return
    Console().print(verify_table(found, removed=removed), soft_wrap=True)

"""``verify``: is a reassignment done, and is its throttle gone? Asks the cluster and sidecars; removes if told to.

What is done and what is left behind is decided in `operating.moves`. Invariant: nothing is removed while a partition
of the reassignment is under way; exit status 0 exactly when it is done and nothing is left behind. The others tell a
script to wait (1), to look for who is away (3) or to correct what was given (4).
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from proxy.control.override_routes import PATH, UNDO_PATH
from proxy.errors import ClusterError, ConfigurationError, UnreachableError
from proxy.files.reading import read_bytes
from reassignment import ReassignmentError, read_assignment, text_of

from ..fleet.members import at_all, author, get, post
from ..fleet.replies import whom
from ..moves.applying import label_of
from ..moves.native_throttle import NativeFindings, native_findings, needs_every_list
from ..moves.options import DURATION, cluster_options, connected
from ..moves.verification import (
    UNDER_WAY,
    MoveOverride,
    Stage,
    Verification,
    progress,
    summary,
    verify_json,
    verify_table,
)
from ..moves.view import LOG_DIR_RATE, NativeConfigs
from ..terminal import Console, encoded, problems_as_json, say, say_json
from .options import FILE, json_option, whole_fleet_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reassignment import Document

    from ..fleet.members import Member
    from ..moves.cluster import Cluster
    from ..moves.verification import Progress
    from ..moves.view import ClusterView
    from .options import Where

_NOT_DONE, _NOT_REACHABLE, _BAD_INPUT = 1, 3, 4
"""The exit statuses; 2 is wrong usage, as everywhere."""
_POLL_SECONDS = 1.0
_EFFECT_SECONDS = 5.0
"""The time within which brokers and sidecars must have received what was removed; they take a quarter of a second."""
_EFFECT_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Places:
    """The places where a throttle may be left behind.

    Args:
        members: the sidecars to ask.
        label: of the move's overrides.
        native: in the configs of topics and brokers as well.
    """

    members: tuple[Member, ...]
    label: str
    native: bool = True


@click.command("verify", short_help="Is a reassignment done, and its throttle gone?")
@click.argument("reassignment", type=FILE, metavar="REASSIGNMENT.json")
@cluster_options
@whole_fleet_options
@click.option("--label", metavar="TEXT", help="Label of the move's overrides.  [default: from the file, as plan]")
@click.option("--wait", type=DURATION, metavar="TIME", help="Wait at most so long until it is done, e.g. 2h.")
@click.option("--remove", is_flag=True, help="Remove what is left behind, once it is done.")
@click.option("--force", is_flag=True, help="With --remove: even if brokers of the move do not answer.")
@click.option("--preserve-throttles", is_flag=True, help="Leave the brokers' own throttles alone.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    reassignment: Path,
    where: Where,
    label: str | None,
    wait: float | None,
    remove: bool,
    force: bool,
    preserve_throttles: bool,
    as_json: bool,
    **reach: Any,
) -> None:
    """Show whether REASSIGNMENT.json is done and whether a throttle is left behind.

    Done: every partition has its replicas, all in sync and in the log directories that the file names, and nothing is
    under way. Left behind: overrides with the move's label at --fleet or --url, and the configs that
    kafka-reassign-partitions --throttle sets. A forgotten throttle slows the next broker that restarts.

    --remove undoes the label, and removes Kafka's configs once nothing moves in the cluster. It does neither while this
    move is under way or, without --force, while a broker of it does not answer.

    \b
    Exit status
      0  done, and nothing is left behind
      1  not done, or something is left behind
      2  wrong usage
      3  a broker or a sidecar does not answer, or refuses
      4  a file or an address is wrong (1 with other commands)

    \b
    Examples:
      throttle-sidecar verify move.json --bootstrap kafka-101:9092 --fleet fleet.toml
      throttle-sidecar verify move.json --bootstrap kafka-101:9092 --fleet fleet.toml --wait 2h --remove
      throttle-sidecar verify move.json --bootstrap kafka-101:9092 --url http://kafka-101:9404
    """
    if not reach["bootstrap"]:
        raise click.UsageError("expected --bootstrap: only the cluster knows whether it is done")
    removed: list[str] = []
    with _exit_statuses(ctx, as_json=as_json):
        move = _read(reassignment)
        asked = tuple(where.members()) if any(where) else ()
        places = Places(asked, label or label_of(reassignment, move), native=not preserve_throttles)
        with connected(**reach) as cluster:
            found = _look(cluster, move, places)
            if wait:
                found = _wait(cluster, move, places, found, seconds=wait)
            if remove and not found.under_way and (force or not found.is_away) and not found.clean:
                removed = _remove(cluster, places, found, force=force)
                found = _look_again(cluster, move, places) if removed else found
    _print(found, removed, as_json=as_json)
    ctx.exit(_status(found))


def _status(found: Verification) -> int:
    if found.done and found.clean:
        return 0
    only_silent = not (found.native.left or found.overrides)
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
    return _with_overrides(Verification(found, native=native), places)


def _with_overrides(found: Verification, places: Places) -> Verification:
    """Add what sidecars have under the label of the move."""
    replies = at_all(places.members, partial(get, page=PATH))
    left = tuple(
        MoveOverride(whom([reply]), each["id"], places.label)
        for reply in replies
        if reply.error is None
        for each in (reply.answer or {}).get("overrides", [])
        if each["label"] == places.label
    )
    silent = tuple(f"{whom([reply])}: {reply.error}" for reply in replies if reply.error is not None)
    notes = () if places.members else ("no sidecar was asked for overrides of the move: --fleet or --url",)
    return replace(found, overrides=left, silent_sidecars=silent, notes=notes)


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


def _wait(cluster: Cluster, move: Document, places: Places, found: Verification, *, seconds: float) -> Verification:
    """Wait until the move is done or the time is over; changes are reported on stderr.

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


def _remove(cluster: Cluster, places: Places, found: Verification, *, force: bool) -> list[str]:
    """Return what was removed, one line each."""
    body = {"label": places.label, "by": author()}
    replies = at_all(places.members, partial(post, page=UNDO_PATH, body=body)) if found.overrides else []
    undone = {whom([reply]) for reply in replies if reply.error is None}
    native = found.native.removable(force=force)
    cluster.remove(native)
    return [*(str(each) for each in found.overrides if each.where in undone), *map(str, native)]


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

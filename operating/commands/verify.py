"""``verify``: is a reassignment done, and is its throttle gone? Asks the cluster and sidecars; removes if told to.

`operating.moves` decides what is done and left behind. Invariant: nothing is removed while a partition
of the reassignment is under way; exit status 0 exactly when it is done and nothing is left behind. The others tell a
script to wait (1), to look for who is away (3) or to correct what was given (4).
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from proxy.errors import ClusterError, ConfigurationError, UnreachableError

from ..moves.applying import label_of
from ..moves.inspection import Places, look, read_move, remove
from ..moves.options import DURATION, cluster_options, connected
from ..moves.verification import Stage, Verification, summary, verify_json, verify_table
from ..terminal import Console, encoded, problems_as_json, say, say_json
from .options import FILE, json_option, whole_fleet_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reassignment import Document

    from ..moves.cluster import Cluster
    from .options import Where

NOT_DONE, NOT_REACHABLE, _BAD_INPUT = 1, 3, 4
"""The exit statuses; 2 is wrong usage, as everywhere."""
_POLL_SECONDS = 1.0


@click.command("verify", short_help="Is a reassignment done, and its throttle gone?")
@click.argument("reassignment", type=FILE, metavar="REASSIGNMENT.json")
@cluster_options
@whole_fleet_options
@click.option("--label", metavar="TEXT", help="Label of the move's overrides.  [default: from the file, as plan]")
@click.option("--wait", type=DURATION, metavar="TIME", help="Wait at most so long until it is done, e.g. 2h.")
@click.option("--remove", "removes", is_flag=True, help="Remove what is left behind, once it is done.")
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
    removes: bool,
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
      3  a broker or a sidecar does not answer, refuses, or is not among those asked
      4  a file or an address is wrong (1 with other commands)

    \b
    Examples:
      throttle-sidecar verify move.json --bootstrap kafka-101:9092 --fleet fleet.toml
      throttle-sidecar verify move.json --bootstrap kafka-101:9092 --fleet fleet.toml --wait 2h --remove
      throttle-sidecar verify move.json --bootstrap kafka-101:9092 --url http://kafka-101:9404 --url http://kafka-104:9404
    """
    if not reach["bootstrap"]:
        raise click.UsageError("expected --bootstrap: only the cluster knows whether it is done")
    removed: list[str] = []
    with exit_statuses(ctx, as_json=as_json):
        move = read_move(reassignment)
        asked = tuple(where.members()) if any(where) else ()
        places = Places(asked, label or label_of(reassignment, move), native=not preserve_throttles)
        with connected(**reach) as cluster:
            found = look(cluster, move, places)
            if wait:
                found = _wait(cluster, move, places, found, seconds=wait)
            if removes:
                removed, found = remove(cluster, move, places, found, force=force)
    _print(found, removed, as_json=as_json)
    ctx.exit(status_of(found))


def status_of(found: Verification) -> int:
    """Return the exit status that says how far it is."""
    if found.done and found.clean:
        return 0
    away = all(each.stage in (Stage.DONE, Stage.AWAY) for each in found.progress)
    return NOT_REACHABLE if away and not found.has_leftovers else NOT_DONE


@contextmanager
def exit_statuses(ctx: click.Context, *, as_json: bool) -> Iterator[None]:
    """Print the problems, and end with their exit status."""
    try:
        with problems_as_json(as_json=as_json):
            yield
    except (ClusterError, UnreachableError) as error:
        say(f"Error: {error}", err=True)
        ctx.exit(NOT_REACHABLE)
    except ConfigurationError as error:
        say(f"Error: {error}", err=True)
        ctx.exit(_BAD_INPUT)


def _wait(cluster: Cluster, move: Document, places: Places, found: Verification, *, seconds: float) -> Verification:
    """Wait until the move is done or the time is over; changes are reported on stderr.

    Raises what `look` does, if it does so when the time is over: who restarts in between is back before that, and what
    was good when the waiting began will be again.
    """
    deadline, said, told = time.monotonic() + seconds, "", summary(found.progress)
    while not found.done and time.monotonic() < deadline:
        if told != said:
            said = told
            say(said, err=True)
        time.sleep(min(_POLL_SECONDS, max(deadline - time.monotonic(), 0.0)))
        try:
            found = look(cluster, move, places)
            told = summary(found.progress)
        except (ConfigurationError, UnreachableError) as error:
            if time.monotonic() >= deadline:
                raise
            told = f"{error}: looking again until the time is over"
    return found


def _print(found: Verification, removed: list[str], *, as_json: bool) -> None:
    if as_json:
        say_json(encoded(verify_json(found, removed=removed)))
        return
    Console().print(verify_table(found, removed=removed), soft_wrap=True)

"""``plan``: from a reassignment to the quotas that hold while it runs. Reads files, asks a cluster if told to, prints.

`operating.moves.planning` decides about moves and rates. Invariant: without ``--apply`` nothing is changed anywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from proxy.errors import ConfigurationError, InvalidValueError
from proxy.files.reading import read_bytes
from proxy.quotas.rate_source import parse_rate_or_source
from reassignment import (
    Heading,
    ReassignmentError,
    has_heading,
    quotas_toml,
    read_assignment,
    text_of,
    throttle,
)

from ..moves.applying import apply, end_of_throttle, label_of
from ..moves.by_hand import ByHand, cluster_words
from ..moves.inspection import survey
from ..moves.options import CAPACITY, LASTING, RATE, SIZE, SPAN, cluster_options, connected
from ..moves.plan_report import plan_json, plan_table
from ..moves.planning import Ground, ground_of_files, plan_move, wanted
from ..quota_words import format_distance, format_duration, format_time
from ..terminal import Console, encoded, problems_as_json, say, say_json
from .options import FILE, json_option, whole_fleet_options

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.quotas.rate_source import Deadline
    from reassignment import Document, Throttle

    from ..fleet.members import Member
    from ..moves.planning import MovePlan
    from .options import Where


_NEXT = """\
next: execute {file}, watch it with {watch},
      end it with {verify}"""


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of a plan.

    Args:
        reassignment: the wanted replicas.
        current: the present replicas, from a file.
        bootstrap, properties, hosts: the present replicas, from a cluster.
        measure: seconds to watch it being written to.
        finish_by: when it is to be over, as quotas.toml takes it.
        size_bytes: of all that moves, without a cluster.
        applies, prints: the use of the quotas.
        where: the sidecars.
        label, lasting: of the overrides; lasting in seconds.
    """

    reassignment: Path
    current: Path | None
    bootstrap: tuple[str, ...]
    properties: Path | None
    hosts: Path | None
    measure: float | None
    size_bytes: float | None
    finish_by: str | None
    applies: bool
    prints: bool
    where: Where
    label: str | None
    lasting: float | None


@click.command("plan", short_help="Find the quotas of a reassignment and its time; apply them.")
@click.argument("reassignment", type=FILE, metavar="REASSIGNMENT.json")
@click.option("--current", type=FILE, metavar="FILE", help="Current assignment, instead of --bootstrap.")
@cluster_options
@click.option("--measure", type=SPAN, metavar="TIME", help="Measure IN for so long, e.g. 30s.")
@click.option("--bytes", "size_bytes", type=SIZE, metavar="SIZE", help="Size of all that moves, e.g. 300GiB.")
@click.option("--rate", type=RATE, help="Of every broker that sends or fetches, e.g. 20MiB/s.")
@click.option(
    "--finish-by",
    metavar="TIME",
    help="Sidecars adapt their rates to end by then, e.g. 06:00 (UTC), up to --rate.",
)
@click.option("--within", type=SPAN, metavar="TIME", help="Find the smallest rate that ends in time, e.g. 2h.")
@click.option("--capacity", type=CAPACITY, help="N, a broker's network, e.g. 1.25GB/s.")
@click.option("--apply", "applies", is_flag=True, help="Store the overrides, at --fleet or --url.")
@click.option("--print", "prints", is_flag=True, help="Print the quotas as TOML, for quotas.toml.")
@whole_fleet_options
@click.option("--label", metavar="TEXT", help="Label of the overrides.  [default: from the file]")
@click.option(
    "--for", "lasting", type=LASTING, metavar="TIME", help="How long they last.  [default: the planned time and more]"
)
@json_option
def command(
    *,
    rate: float | None,
    within: float | None,
    capacity: float | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Show the moves of REASSIGNMENT.json, how long they take, and the quotas that throttle them.

    The file is that of kafka-reassign-partitions --execute, or the whole output of --generate, which needs no
    --current. Nothing is executed. Existing replicas are throttled as leaders, because any of them may lead, added ones
    as followers. --apply stores one override at the sidecar of each broker concerned, with the move's label; verify
    --remove undoes it. Exit status 1: a file, an option or a sidecar is wrong.

    \b
    Which rate T is right?  IN < T < N - IN/R
      IN  bytes/s that a broker fetches in sync: --measure 30s; at T <= IN a move may never end
      N   bytes/s of its network: --capacity; above N - IN/R clients have nothing left. R: replication factor

    \b
    Examples:
      throttle-sidecar plan move.json --bootstrap kafka-101:9092                   what is there to move?
      throttle-sidecar plan move.json --bootstrap kafka-101:9092 --rate 20MiB/s    how long would it take?
      throttle-sidecar plan move.json --bootstrap kafka-101:9092 --within 2h --measure 30s --apply --fleet fleet.toml
      throttle-sidecar plan generated.txt --bytes 300GiB --rate 50MiB/s --print
    """
    what = Asked(**asked)
    if what.prints and as_json:
        raise click.UsageError("expected --print or --json, not both")
    _refuse_what_does_not_go_together(rate, within, what)
    with problems_as_json(as_json=as_json):
        deadline = deadline_to_come(what.finish_by, rate, datetime.now(UTC))
        targets = what.where.members() if what.applies else []
        ground, document = _ground_or_refused(what)
        now = datetime.now(UTC)  # measuring takes its time
        plan = plan_move(ground, wanted(ground, rate, within, capacity))
        until = end_of_throttle(plan, what.lasting, now, deadline and deadline.moment(now))
    found = replace(throttle(ground.moves, plan.rates), finish_by=what.finish_by)
    if what.prints:
        say(quotas_toml(found, comment=f"Written by throttle-sidecar plan for {what.reassignment.name}.", until=until))
        return
    # The plan may have taken long to make: it is shown whatever becomes of the throttle.
    _print(plan, as_json=as_json)
    for line in about_deadline(plan, deadline, now):
        say(line, err=as_json)
    if what.applies and found.rates:
        label = what.label or label_of(what.reassignment, document)
        _throttle(what, found, targets, label, until, as_json=as_json)


def _throttle(
    what: Asked, found: Throttle, targets: list[Member], label: str, until: datetime | None, *, as_json: bool
) -> None:
    where, reason = str(what.where), f"plan of {what.reassignment.name}"
    applied = apply(found, targets, label=label, reason=reason, until=until, where=where)
    for line in [*applied.lines, *about_end(until), _next(what, label, where)]:
        say(line, err=as_json)
    if not applied.is_complete:
        raise click.exceptions.Exit(1)


def about_end(until: datetime | None) -> list[str]:
    """Return that the throttle has no end, if it has none."""
    if until is not None:
        return []
    return ["the throttle has no end, since how long the move takes is not known: verify --remove ends it"]


def _refuse_what_does_not_go_together(rate: float | None, within: float | None, what: Asked) -> None:
    if what.finish_by is not None and rate is None:
        raise click.UsageError("--finish-by needs --rate, the most that the rates may be")
    if rate is not None and within is not None:
        raise click.UsageError("expected --rate or --within, not both")
    if (what.applies or what.prints) and rate is None and within is None:
        raise click.UsageError("--apply and --print need --rate or --within")
    if what.applies and what.prints:
        raise click.UsageError("expected --apply or --print, not both")
    if rate is not None and math.isinf(rate):
        raise click.UsageError("--rate: expected a limit: a move without one needs no quotas")


def _ground_or_refused(what: Asked) -> tuple[Ground, Document]:
    try:
        return _ground(what)
    except ReassignmentError as error:
        raise ConfigurationError(error.problems) from error


def _ground(what: Asked) -> tuple[Ground, Document]:
    text = _text(what.reassignment)
    proposed = read_assignment(text, str(what.reassignment))
    if what.bootstrap:
        if what.current or what.size_bytes is not None:
            raise click.UsageError("--bootstrap asks the cluster: leave out --current and --bytes")
        with connected(what.bootstrap, what.properties, what.hosts) as cluster:
            return survey(cluster, proposed, what.measure), proposed
    if what.measure is not None:
        raise click.UsageError("--measure needs a cluster: --bootstrap")
    if what.current:
        current = read_assignment(_text(what.current), str(what.current), wanted=Heading.CURRENT)
    elif has_heading(text, Heading.CURRENT):
        current = read_assignment(text, str(what.reassignment), wanted=Heading.CURRENT)
    else:
        raise click.UsageError("expected --bootstrap or --current: what is there now?")
    return ground_of_files(proposed, current, what.size_bytes), proposed


def _text(path: Path) -> str:
    return text_of(read_bytes(path, takes_pipes=True), str(path))


def _next(what: Asked, label: str, where: str) -> str:
    cluster = cluster_words(what.bootstrap, what.properties, what.hosts)
    by_hand = ByHand(str(what.reassignment), cluster, where, label)
    return _NEXT.format(file=by_hand.file, watch=by_hand.watch(), verify=by_hand.verify("--wait 2h --remove"))


def _print(plan: MovePlan, *, as_json: bool) -> None:
    if as_json:
        say_json(encoded(plan_json(plan)))
        return
    Console().print(plan_table(plan), crop=False)


def deadline_to_come(finish_by: str | None, most: float | None, now: datetime) -> Deadline | None:
    """Return the deadline that ``--finish-by`` names; None without it, or without `most` (the most that the rate may
    be). Raises ConfigurationError if the time cannot be read or has passed, or if `most` is no rate to end anything."""
    if finish_by is None or most is None:
        return None
    if int(most) <= 0:
        raise ConfigurationError(f"--rate: with --finish-by it has to be above 0, found {most:g}")
    try:
        _, source = parse_rate_or_source({"finish_by": finish_by, "max": int(most)})
    except InvalidValueError as error:
        raise ConfigurationError(f"--finish-by: {error}") from error
    if source is None or source.deadline is None:
        raise AssertionError("a table with finish_by is a rate source with a deadline")
    if source.deadline.at is not None and source.deadline.at <= now:
        # A date of last year is a dangerous slip: after the deadline, catch-up goes at the highest rate.
        found = f"found {finish_by} (it is {now:%Y-%m-%dT%H:%M:%SZ})"
        raise ConfigurationError(f"--finish-by: expected a time in the future, {found}")
    return source.deadline


def about_deadline(plan: MovePlan, deadline: Deadline | None, now: datetime) -> list[str]:
    """Return lines that say whether the move meets its deadline at the highest rate it may have."""
    if deadline is None or not plan.rates:
        return []
    moment, seconds = deadline.moment(now), plan.total_seconds
    by = f"to be over by {format_time(moment)} ({format_distance(moment, now)})"
    if math.isnan(seconds):
        return [f"{by}; how long it takes at the full rate is not known"]
    left = (moment - now).total_seconds()
    if seconds > left:
        takes = "it never ends" if math.isinf(seconds) else f"it takes {format_duration(seconds)}"
        return [f"warning: {by}, and even at the full rate {takes}, so it will be late"]
    return [f"{by}; at the full rate it takes {format_duration(seconds)}, the sidecars find the least that will do"]

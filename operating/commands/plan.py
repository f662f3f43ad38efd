"""``plan``: from a reassignment to the quotas that hold while it runs. Reads files, asks a cluster if told to, prints.

What moves and at which rates is decided in `operating.moves.planning`. Invariant: without ``--write`` or
``--per-broker`` nothing is changed anywhere.
"""

from __future__ import annotations

import math
import shlex
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from proxy.errors import ConfigurationError
from proxy.files.reading import read_bytes
from reassignment import (
    Capacity,
    Heading,
    ReassignmentError,
    has_heading,
    moving,
    read_assignment,
    text_of,
    throttle,
)

from ..moves.in_force import in_force
from ..moves.options import CAPACITY, FILE, LASTING, RATE, SIZE, SPAN, cluster_options, connected
from ..moves.plan_report import plan_json, plan_table
from ..moves.planning import Ground, Wanted, ground_of_cluster, ground_of_files, inflow_of, plan_move
from ..moves.settling import settled
from ..terminal import Console, encoded, problems_as_json, say, say_json
from .deadline import about_deadline, deadline_to_come
from .fleet_plan import write_fleet
from .plan_writing import write_files

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.quotas.rate_source import Deadline
    from reassignment import Document

    from ..moves.cluster import Cluster
    from ..moves.planning import MovePlan
    from .fleet_plan import Written

_DEFAULT_REPLICATION_FACTOR = 3
_NEXT = """\
next: let the sidecars read it (throttle-sidecar check says what it means), execute {reassignment},
      watch it with throttle-sidecar status, end it with throttle-sidecar verify {verify}"""


@dataclass(frozen=True, slots=True)
class Asked:
    """The options that say what is known and wanted.

    Args:
        reassignment: what shall be.
        current: what is, from a file.
        bootstrap, properties, hosts: what is, from a cluster.
        measure: seconds to watch it being written to.
        finish_by: when it is to be over, as quotas.toml takes it.
        size_bytes: of all that moves, without a cluster.
    """

    reassignment: Path
    current: Path | None
    bootstrap: tuple[str, ...]
    properties: Path | None
    hosts: Path | None
    measure: float | None
    size_bytes: float | None
    finish_by: str | None


@click.command("plan", short_help="From a reassignment to its quotas, its time and its load.")
@click.argument("reassignment", type=FILE, metavar="REASSIGNMENT.json")
@click.option("--current", type=FILE, metavar="FILE", help="What is now, in the same form: no cluster is asked then.")
@cluster_options
@click.option("--measure", type=SPAN, metavar="TIME", help="Watch producers so long, for IN: such as 30s.")
@click.option(
    "--bytes", "size_bytes", type=SIZE, metavar="SIZE", help="Of all that moves, such as 300GiB, without a cluster."
)
@click.option("--rate", type=RATE, help="For every broker that sends or fetches, such as 20MiB/s.")
@click.option(
    "--finish-by",
    metavar="TIME",
    help="Let sidecars find the least rates that end by then (06:00 is UTC), up to --rate.",
)
@click.option("--within", type=SPAN, metavar="TIME", help="Find the smallest rates that end by then, such as 2h.")
@click.option("--capacity", type=CAPACITY, help="N, what a broker's network carries, such as 1.25GB/s: T < N - IN/R.")
@click.option("--write", type=FILE, metavar="FILE", help="Write the quotas there; a file that exists keeps its rest.")
@click.option("--per-broker", type=FILE, metavar="DIRECTORY", help="Write quotas-N.toml for each broker there instead.")
@click.option(
    "--fleet", "fleet_path", type=FILE, metavar="FILE", help="Write them wherever this fleet.toml says instead."
)
@click.option(
    "--for", "lasting", type=LASTING, metavar="TIME", help="Let them end by themselves, such as 1d12h: `until`."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    *,
    rate: float | None,
    within: float | None,
    capacity: float | None,
    write: Path | None,
    per_broker: Path | None,
    fleet_path: Path | None,
    lasting: float | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """Say what REASSIGNMENT.json moves, how long it takes, and which quotas hold it.

    It is the file that kafka-reassign-partitions executes; the whole output of its --generate will do as well, and
    then needs no --current. Replicas that exist are throttled as leaders (any of them may lead), replicas to be added
    as followers, as `kafka-reassign-partitions --throttle` does it, but in quotas.toml instead of the cluster's
    configs. Nothing is executed. What is written may not be what holds (a schedule, another section, mode.enforce): the
    time that is told is by what the written file means, and warnings say where that is something else. Exit status 1:
    something is wrong with what was given, or a sidecar of the --fleet that answers does not have it in force.

    \b
    Which rate T is right?  IN < T < N - IN/R
      IN  what a broker takes in from leaders anyway: --measure 30s
      N   what its network carries: --capacity        R  replication factor
    At T <= IN a move may never end; above N - IN/R clients have nothing left.

    \b
    Examples:
      throttle-sidecar plan move.json --bootstrap kafka-101:9092                   what is there to move?
      throttle-sidecar plan move.json --bootstrap kafka-101:9092 --rate 20MiB/s    how long would it take?
      throttle-sidecar plan move.json --bootstrap kafka-101:9092 --within 2h --measure 30s --write quotas.toml
      throttle-sidecar plan generated.txt --bytes 300GiB --rate 50MiB/s --per-broker quotas/
      throttle-sidecar plan move.json --bootstrap kafka-101:9092 --rate 20MiB/s --fleet fleet.toml
      throttle-sidecar plan move.json --bytes 300GiB --finish-by 06:00 --rate 300MiB/s --write quotas.toml
    """
    what = Asked(**asked)
    _refuse_what_does_not_go_together(rate, within, what.finish_by, writes=(write, per_broker, fleet_path))
    with problems_as_json(as_json=as_json):
        deadline = deadline_to_come(what.finish_by, rate, datetime.now(UTC))
        ground = _ground_or_refused(what)
        plan = _planned(ground, rate, within, capacity)
    found = replace(throttle(ground.moves, plan.rates), finish_by=what.finish_by)
    try:
        if fleet_path is None:
            written = write_files(found, what.reassignment, write, per_broker, lasting)
        else:
            written = write_fleet(found, fleet_path, lasting, settled)
    except ConfigurationError:
        # What was found out may have taken long: it is shown all the same.
        _print(plan, as_json=as_json)
        raise
    if written.files:
        plan = _in_force(plan, written, deadline, fleet_path)
        written.lines.append(_next(what, written, fleet_path))
    _print(plan, as_json=as_json)
    for line in [*about_deadline(plan, deadline, datetime.now(UTC)), *written.lines]:
        say(line, err=as_json)
    if not written.is_in_force:
        raise click.exceptions.Exit(1)


def _refuse_what_does_not_go_together(
    rate: float | None, within: float | None, finish_by: str | None, *, writes: tuple[Path | None, ...]
) -> None:
    if finish_by is not None and rate is None:
        raise click.UsageError("--finish-by needs --rate, the most that the rates may be")
    if rate is not None and within is not None:
        raise click.UsageError("expected --rate or --within, not both")
    if any(writes) and rate is None and within is None:
        raise click.UsageError("--write, --per-broker and --fleet need --rate or --within")
    if sum(path is not None for path in writes) > 1:
        raise click.UsageError("expected one of --write, --per-broker and --fleet")
    if rate is not None and math.isinf(rate):
        raise click.UsageError("--rate: expected a limit: a move without one needs no quotas")


def _ground_or_refused(what: Asked) -> Ground:
    """Raises ConfigurationError."""
    try:
        return _ground(what)
    except ReassignmentError as error:
        raise ConfigurationError(error.problems) from error


def _ground(what: Asked) -> Ground:
    text = _text(what.reassignment)
    proposed = read_assignment(text, str(what.reassignment))
    if what.bootstrap:
        if what.current or what.size_bytes is not None:
            raise click.UsageError("--bootstrap asks the cluster: leave out --current and --bytes")
        with connected(what.bootstrap, what.properties, what.hosts) as cluster:
            return _ask(cluster, proposed, what.measure)
    if what.measure is not None:
        raise click.UsageError("--measure needs a cluster: --bootstrap")
    if what.current:
        current = read_assignment(_text(what.current), str(what.current), wanted=Heading.CURRENT)
    elif has_heading(text, Heading.CURRENT):
        current = read_assignment(text, str(what.reassignment), wanted=Heading.CURRENT)
    else:
        raise click.UsageError("expected --bootstrap or --current: what is there now?")
    return ground_of_files(proposed, current, what.size_bytes)


def _text(path: Path) -> str:
    return text_of(read_bytes(path, takes_pipes=True), str(path))


def _planned(ground: Ground, rate: float | None, within: float | None, capacity: float | None) -> MovePlan:
    factor = max((len(move.sources) for move in moving(ground.moves).values()), default=_DEFAULT_REPLICATION_FACTOR)
    carries = Capacity(capacity, factor) if capacity is not None else Capacity(replication_factor=factor)
    return plan_move(ground, Wanted(rate, within, carries))


def _in_force(plan: MovePlan, written: Written, deadline: Deadline | None, fleet_path: Path | None) -> MovePlan:
    files = written.files
    if fleet_path is not None:
        # There may be no file that `set` could be given: quotas may be in a ConfigMap.
        at = {broker: ("--fleet", str(fleet_path), "--at", str(broker)) for broker in files}
        files = {broker: file._replace(where=at[broker]) for broker, file in files.items()}
    return in_force(plan, files, datetime.now(UTC).replace(microsecond=0), deadline)


def _next(what: Asked, written: Written, fleet_path: Path | None) -> str:
    paths = dict.fromkeys(file.path for file in written.files.values())
    options = [
        *(("--bootstrap", server) for server in what.bootstrap or ("HOST:PORT",)),
        *(() if what.properties is None else (("--command-config", str(what.properties)),)),
        *(() if what.hosts is None else (("--hosts", str(what.hosts)),)),
        *((("--quotas", path) for path in paths) if fleet_path is None else (("--fleet", str(fleet_path)),)),
    ]
    reassignment = str(what.reassignment)
    verify = shlex.join([reassignment, *(word for option in options for word in option)])
    return _NEXT.format(reassignment=shlex.quote(reassignment), verify=verify)


def _ask(cluster: Cluster, proposed: Document, measure: float | None) -> Ground:
    topics = {partition.topic for partition in proposed.assignment}
    view = cluster.look(sorted(topics))
    others = {partition.topic for partition in view.ongoing or ()} - topics
    if others:
        view = cluster.look(sorted(topics | others))
    written = inflow = None
    if measure is not None:
        every = cluster.every_partition()
        at_leaders = {partition: state.leader for partition, state in every.items() if state.leader is not None}
        before, began = cluster.sizes(every, view.brokers), time.monotonic()
        time.sleep(measure)
        after, seconds = cluster.sizes(every, view.brokers), time.monotonic() - began
        written = {
            # Retention may have taken more than producers brought: then nobody knows, and it counts nothing.
            partition: max(after.get((leader, partition), 0) - before.get((leader, partition), 0), 0) / seconds
            for partition, leader in at_leaders.items()
        }
        inflow = inflow_of(every, written)
    return ground_of_cluster(proposed, view, written=written, inflow=inflow)


def _print(plan: MovePlan, *, as_json: bool) -> None:
    if as_json:
        say_json(encoded(plan_json(plan)))
        return
    Console().print(plan_table(plan), crop=False)

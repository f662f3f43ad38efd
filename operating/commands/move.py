"""``move``: a reassignment from the plan to a clean cluster, in one command; or the rest of one, or the way back.

Parses options, asks for consent and prints; `operating.moves.moving` does it. Invariants: nothing is changed
before somebody has agreed; exit status 0 exactly when all that was asked for is done and seen to be done everywhere.
"""

from __future__ import annotations

import math
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from rich.live import Live

from proxy.errors import ConfigurationError
from proxy.logs.terminal_text import printable
from proxy.quotas import format_rate
from proxy.quotas.rate_source import MIN_RATE
from reassignment import STEP, throttle
from reassignment.throttle import written_rate

from ..moves.applying import end_of_throttle, label_of
from ..moves.bars import screen
from ..moves.by_hand import NO_FILE, ByHand, cluster_words
from ..moves.inspection import Places, ask_held, read_move
from ..moves.moving import Chosen, Mover
from ..moves.next_step import reassignment_of, unknown_label
from ..moves.options import CAPACITY, LASTING, RATE, SPAN, cluster_options, connected
from ..moves.plan_report import plan_json, plan_table
from ..moves.planning import plan_move, wanted
from ..moves.verification import summary, verify_json, verify_table
from ..terminal import Console, encoded, held_interrupts, say, say_json
from .options import FILE, json_option, whole_fleet_options
from .plan import about_deadline, about_end, deadline_to_come
from .verify import NOT_DONE, NOT_REACHABLE, exit_statuses, status_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from reassignment import Document

    from ..moves.bars import Bar
    from ..moves.moving import Outcome, Proposal, Show
    from ..moves.next_step import Held
    from ..moves.planning import Ground, MovePlan
    from ..moves.verification import Progress
    from .options import Where

_HEADROOM = 2
"""The factor by which --within without --rate may exceed the rates that would do if nothing came in between."""
_LINE_SECONDS = 30.0
"""The interval between lines of progress where there is no terminal."""
_HELP = """Plan, throttle, start, watch and clean up a reassignment, after asking once.

All that it knows is in the cluster and in the overrides with its label: stopped by Ctrl-C or killed, it goes on by
--resume on any machine, or is taken back by --cancel; what is in place by then stays. Brokers: 2.4 or later.

\b
Exit status
  0  done everywhere, and nothing is left behind; or taken back, everywhere
  1  not done, left running, refused, or something is left behind
  2  wrong usage
  3  a broker or a sidecar does not answer, refuses, or is not among those asked
  4  a file, a label or an address is wrong (1 with other commands)

\b
Examples:
  throttle-sidecar move move.json --bootstrap kafka-101:9092 --fleet fleet.toml --rate 50MiB/s
  throttle-sidecar move move.json --bootstrap kafka-101:9092 --fleet fleet.toml --within 2h --measure 60s
  throttle-sidecar move --resume move-5d1c70 --bootstrap kafka-101:9092 --fleet fleet.toml
  throttle-sidecar move --cancel move-5d1c70 --bootstrap kafka-101:9092 --fleet fleet.toml
"""


class Throttling(NamedTuple):
    """The throttle that was typed."""

    rate: float | None
    within: float | None
    capacity: float | None
    lasting: float | None

    @property
    def is_chosen(self) -> bool:
        return self.rate is not None or self.within is not None

    def choose(self, ground: Ground) -> Chosen:
        """Return the rates and their plan. Raises ConfigurationError if no rate, or not this rate, ends in time."""
        now, most, finish_by = datetime.now(UTC), self.rate, None
        if self.within is not None:
            least = plan_move(ground, wanted(ground, None, self.within, self.capacity)).rates.values()
            needed = max(least, default=0)
            if most is not None and most < needed:
                needs = f"to end in {self.within:g} s takes {format_rate(needed)}"
                raise ConfigurationError(f"--rate: expected enough for --within, found {format_rate(most)}: {needs}")
            most = max(_HEADROOM * needed if most is None else most, MIN_RATE)
            finish_by = f"{now + timedelta(seconds=math.ceil(self.within)):%Y-%m-%dT%H:%M:%SZ}"
        highest = math.ceil((most or 0) / STEP) * STEP if self.rate is None else int(most or 0)
        plan = plan_move(ground, wanted(ground, highest, None, self.capacity))
        deadline = deadline_to_come(finish_by, highest, now)
        until = end_of_throttle(plan, self.lasting, now, deadline and deadline.moment(now))
        found = replace(throttle(ground.moves, plan.rates), finish_by=finish_by)
        typed = f"--rate {written_rate(highest)}" + (f" --finish-by {finish_by}" if finish_by else "")
        return Chosen(plan, found, until, [*about_deadline(plan, deadline, now), *about_end(until)], typed)


class Printed:
    """Prints on the terminal, or as lines; with --json all but the result on stderr."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.planned: MovePlan | None = None

    def say(self, *lines: str) -> None:
        for line in lines:
            say(line, err=self.as_json)

    def plan(self, plan: MovePlan) -> None:
        self.planned = plan
        if not self.as_json:
            Console().print(plan_table(plan), crop=False)

    @contextmanager
    def watching(self) -> Iterator[Show]:
        console = Console()
        if self.as_json or not console.is_terminal:
            yield self._lines()
            return
        with Live(console=console, auto_refresh=False, transient=True) as live:
            hint = "Ctrl-C leaves it running and says how to go on."
            yield lambda found, bars, lines: live.update(screen(found, bars, [*lines, hint]), refresh=True)

    @staticmethod
    def _lines() -> Show:
        told: tuple[str, ...] = ()
        again = 0.0

        def show(found: Sequence[Progress], _: Sequence[Bar], lines: Sequence[str]) -> None:
            nonlocal told, again
            so_far = [summary(found)] if found else []
            # Bytes change all the time.
            news = (*(text.partition(",")[0] for text in so_far), *lines)
            if news != told or time.monotonic() >= again:
                told, again = news, time.monotonic() + _LINE_SECONDS
                say("; ".join([*so_far, *lines]), err=True)

        return show


@click.command("move", short_help="Do a reassignment under a throttle, from plan to clean.", help=_HELP)
@click.argument("reassignment", type=FILE, metavar="[REASSIGNMENT.json]", required=False)
@cluster_options
@whole_fleet_options
@click.option("--rate", type=RATE, help="Of every broker that sends or fetches, e.g. 50MiB/s.")
@click.option(
    "--within", type=SPAN, metavar="TIME", help="Sidecars find the least rate that ends in time, up to --rate."
)
@click.option("--measure", type=SPAN, metavar="TIME", help="Measure first what is written, e.g. 30s.")
@click.option("--capacity", type=CAPACITY, help="N, a broker's network, e.g. 1.25GB/s.")
@click.option("--for", "lasting", type=LASTING, metavar="TIME", help="How long the throttle lasts at most.")
@click.option("--label", metavar="TEXT", help="Label of the move.  [default: from the file]")
@click.option("--resume", metavar="LABEL", help="Go on with this move, from any machine; --rate changes its rate.")
@click.option("--cancel", metavar="LABEL", help="Take this move back: its reassignment and its throttle.")
@click.option("--preserve-throttles", is_flag=True, help="Leave the brokers' own throttles alone.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where there is no terminal.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    reassignment: Path | None,
    where: Where,
    label: str | None,
    resume: str | None,
    cancel: str | None,
    measure: float | None,
    preserve_throttles: bool,
    yes: bool,
    as_json: bool,
    **rest: Any,
) -> None:
    """Execute the command once the operator has agreed."""
    typed, reach = Throttling(*(rest.pop(field) for field in Throttling._fields)), rest
    _refuse_usage(reassignment, resume, cancel, label, typed, where, reach["bootstrap"])
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("standard input is no terminal, so nobody can be asked: --yes agrees to all of it")
    report = Printed(as_json=as_json)
    with exit_statuses(ctx, as_json=as_json):
        members = where.members()
        held = ask_held(members)
        chosen_label, move = _which(reassignment, resume if resume is not None else cancel, label, held)
        cluster = cluster_words(**reach)
        file = NO_FILE if reassignment is None else str(reassignment)
        by_hand = ByHand(
            file, cluster, str(where), chosen_label, bootstrap=reach["bootstrap"], properties=reach["properties"]
        )
        places = Places(tuple(members), chosen_label, native=not preserve_throttles)
        with connected(**reach) as found:
            mover = Mover(found, move, places, by_hand, report, measure)
            if cancel is not None:
                proposal = mover.cancel(held)
            elif resume is not None:
                proposal = mover.resume(held, typed.choose if typed.is_chosen else None)
            else:
                proposal = mover.begin(held, typed.choose, lambda: ask_held(members))
            _agreed(proposal, yes=yes, as_json=as_json)
            with held_interrupts() as interrupted:
                outcome = proposal.act(interrupted)
    _print(outcome, report, by_hand)
    ctx.exit(_status(outcome))


def _refuse_usage(
    reassignment: Path | None,
    resume: str | None,
    cancel: str | None,
    label: str | None,
    typed: Throttling,
    where: Where,
    bootstrap: tuple[str, ...],
) -> None:
    goes_on = resume is not None or cancel is not None
    problems = {
        "expected --bootstrap: the cluster does the move": not bootstrap,
        "expected --fleet or --url: the sidecars of the brokers concerned": not any(where),
        "expected --resume or --cancel, not both": resume is not None and cancel is not None,
        "expected REASSIGNMENT.json, --resume or --cancel": reassignment is None and not goes_on,
        "--label names a new move: --resume and --cancel have theirs": label is not None and goes_on,
        "--cancel needs no rate": cancel is not None and typed.is_chosen,
        "expected --rate or --within": not goes_on and not typed.is_chosen,
        "--rate: expected a limit: a move without one needs no sidecar": typed.rate is not None
        and math.isinf(typed.rate),
    }
    for problem, is_so in problems.items():
        if is_so:
            raise click.UsageError(problem)


def _which(file: Path | None, goes_on: str | None, label: str | None, held: Held) -> tuple[str, Document]:
    """Return the label and the reassignment of the move. Raises ConfigurationError."""
    move = None if file is None else read_move(file)
    if move is not None and move.directories:
        raise ConfigurationError(
            f"{file}: log_dirs: move leaves disks alone: leave them out, or use kafka-reassign-partitions"
        )
    if goes_on is None:
        if file is None or move is None:
            raise AssertionError("a new move has its file")
        return label or label_of(file, move), move
    default = None if file is None or move is None else label_of(file, move)
    if not held.of(goes_on) and goes_on != default:
        raise ConfigurationError(unknown_label(goes_on, held))
    kept = reassignment_of(goes_on, held)
    if move is None and kept is None:
        raise ConfigurationError(f"{goes_on}: the sidecars do not keep its reassignment: name its file as well")
    if move is not None and kept is not None and dict(move.assignment) != dict(kept.assignment):
        raise ConfigurationError(f"{file}: is not the reassignment of {goes_on}: leave it out")
    found = kept if move is None else move
    if found is None:
        raise AssertionError("one of them is there")
    return goes_on, found


def _agreed(proposal: Proposal, *, yes: bool, as_json: bool) -> None:
    """Ask, and end the command without consent."""
    if proposal.question and not yes and not click.confirm(printable(proposal.question), err=as_json):
        say("nothing is changed", err=as_json)
        raise click.exceptions.Exit(NOT_DONE)


def _status(outcome: Outcome) -> int:
    if outcome.is_complete:
        return 0
    if outcome.name in ("finished", "in_place") and outcome.found is not None:
        return status_of(outcome.found)
    return NOT_REACHABLE if outcome.found is not None and outcome.found.unknown else NOT_DONE


def _print(outcome: Outcome, report: Printed, by_hand: ByHand) -> None:
    found, removed = outcome.found, outcome.removed
    if report.as_json:
        document = {
            "label": by_hand.label,
            "outcome": outcome.name,
            "complete": outcome.is_complete,
            "plan": None if report.planned is None else plan_json(report.planned),
            "verification": None if found is None else verify_json(found, removed=removed),
            "resume": by_hand.resume(),
            "cancel": by_hand.cancel(),
        }
        say_json(encoded(document))
    elif outcome.name in ("finished", "in_place") and found is not None:
        Console().print(verify_table(found, removed=removed), soft_wrap=True)
        if not outcome.is_complete:
            keeps_label = found.overrides or found.silent_sidecars
            say(f"again: {by_hand.resume() if keeps_label else by_hand.verify()}")
    elif outcome.name == "cancelled":
        say(f"{by_hand.label}: taken back, and nothing of its throttle is left")

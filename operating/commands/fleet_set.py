"""``set --fleet``: one change at the sidecars that fleet.toml lists, shown broker by broker, all or nothing.

Thin: where quotas are kept, and writing them everywhere or nowhere, is `operating.fleet`; what a change does to one
file is `operating.editing.changing`.
Invariant: nothing is written before every place has been worked out and found good.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from proxy.errors import ConfigurationError

from ..editing.changing import ShadowedError
from ..fleet.changing import PartlyWrittenError, PlacesRefusedError, places_of, plan, worker, write
from ..fleet.file import load_fleet
from ..terminal import encoded, say, say_json
from .change_words import Told, refusal_json, refusal_lines
from .status_words import whom
from .telling import tell

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from ..editing.asks import Ask
    from ..editing.changing import QuotaChange
    from ..fleet.changing import Place, Planned
    from .confirming import Confirmation


@dataclass(frozen=True, slots=True)
class FleetSet:
    """What was typed. `at`: only where the quotas of these brokers are kept; empty: everywhere."""

    path: Path
    asked: Sequence[Ask]
    at: tuple[int, ...]
    now: datetime
    later: bool
    dry_run: bool
    as_json: bool


def run(ctx: click.Context, wanted: FleetSet) -> None:
    """Raises ConfigurationError: nothing was written, unless it says so."""
    try:
        planned = _plan(wanted)
        if not wanted.dry_run:
            write(planned)
    except ConfigurationError as error:
        if wanted.as_json:
            say_json(encoded(_refusals(wanted, error)))
        raise _in_words(wanted, error) from error
    told = [_told(wanted, each) for each in planned]
    if not wanted.as_json:
        _print(wanted, told)
    changing = [each for each in planned if each.change.changes_something]
    confirmed = [] if wanted.dry_run else tell(planned)
    if wanted.as_json:
        say_json(encoded(_json(wanted, planned, told, confirmed)))
    else:
        _print_confirmed(confirmed, written=len(changing))
    if not all(each.good for each in confirmed):
        ctx.exit(1)


def _plan(wanted: FleetSet) -> list[Planned[QuotaChange]]:
    fleet = load_fleet(wanted.path)
    named = [str(ask.place.section[1]) for ask in wanted.asked if ask.place.section[0] == "brokers"]
    everywhere = len(named) < len(wanted.asked) or any(not name.isdecimal() for name in named)
    concerned = None if everywhere else {int(name) for name in named}
    if wanted.at:
        concerned = set(wanted.at) if concerned is None else concerned & set(wanted.at)
        if not concerned:
            raise ConfigurationError(f"--at {wanted.at[0]}: nothing that is asked for concerns that broker's quotas")
    return plan(places_of(fleet, concerned), worker(wanted.asked, wanted.now, later=wanted.later))


def _where(wanted: FleetSet, place: Place) -> tuple[str, ...]:
    return ("--fleet", str(wanted.path), "--at", str(place.brokers[0]))


def _told(wanted: FleetSet, planned: Planned[QuotaChange]) -> Told:
    only = planned.place.brokers[0] if len(planned.place.brokers) == 1 else None
    return Told(planned.change, planned.place.store.name, _where(wanted, planned.place), wanted.now, only)


def _print(wanted: FleetSet, told: Sequence[Told]) -> None:
    for each in told:
        say("\n".join(each.lines()))
        if wanted.dry_run and each.change.changes_something:
            before, after = (content.decode().splitlines() for content in (each.change.before, each.change.after))
            say("\n".join(("", *difflib.unified_diff(before, after, each.source, each.source, lineterm=""), "")))
        elif each.change.changes_something:
            say("\n".join(each.undo_lines()))
    if wanted.dry_run:
        click.echo("dry run: nothing is written")


def _print_confirmed(confirmed: Sequence[Confirmation], *, written: int) -> None:
    if written > 1:
        click.echo(f"written at {written} places")
    good = [each.broker for each in confirmed if each.in_force and each.broker is not None]
    if good:
        click.echo(f"in force: {whom(good)}")
    for each in confirmed:
        if not each.in_force:
            say(each.line, err=not each.good)


def _in_words(wanted: FleetSet, error: ConfigurationError) -> ConfigurationError:
    """With the command that does it, for each place where another section goes first."""
    if isinstance(error, PartlyWrittenError):
        written = ", ".join(each.place.store.name for each in error.written)
        return ConfigurationError([*error.problems, f"written at: {written}"])
    if not isinstance(error, PlacesRefusedError):
        return error
    lines: list[str] = []
    for place, refusal in error.refused:
        if isinstance(refusal, ShadowedError):
            lines += refusal_lines(refusal, _where(wanted, place))
        else:
            lines += refusal.problems
    return ConfigurationError([*lines, *error.problems[sum(len(each.problems) for _, each in error.refused) :]])


def _refusals(wanted: FleetSet, error: ConfigurationError) -> dict[str, Any]:
    refused = error.refused if isinstance(error, PlacesRefusedError) else ()
    written = error.written if isinstance(error, PartlyWrittenError) else ()
    return {
        "fleet": str(wanted.path),
        "problems": error.problems,
        "places": [refusal_json(each, place.store.name, _where(wanted, place)) for place, each in refused],
        "written": [each.place.store.name for each in written],
    }


def _json(
    wanted: FleetSet, planned: Sequence[Planned[QuotaChange]], told: Sequence[Told], confirmed: Sequence[Confirmation]
) -> dict[str, Any]:
    return {
        "fleet": str(wanted.path),
        "places": [
            {
                **each.as_json(),
                "read_by": one.place.brokers,
                "written": one.change.changes_something and not wanted.dry_run,
            }
            for one, each in zip(planned, told, strict=True)
        ],
        "sidecars": [
            {"url": each.url, "broker": each.broker, "in_force": each.in_force, "said": each.line} for each in confirmed
        ],
    }

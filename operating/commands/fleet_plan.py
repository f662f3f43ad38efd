"""``plan --fleet``: the throttle of a move, written where the quotas of the brokers that it concerns are kept.

Each place gets the part of the brokers that read it; all are worked out before anything is written, and all are written
or none. Invariant: a broker of the move that the fleet does not have is an error, never left unthrottled in silence.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple, Protocol

from proxy.errors import ConfigurationError

from ..fleet.changing import Rewritten, places_of, plan, write
from ..fleet.file import load_fleet
from ..moves.in_force import WrittenFile
from .telling import tell

if TYPE_CHECKING:
    from pathlib import Path

    from reassignment import Throttle

    from ..fleet.changing import Place


class Settle(Protocol):
    """A file with a throttle in it, and what to say about it. Raises ConfigurationError."""

    def __call__(
        self, before: bytes, found: Throttle, now: datetime, *, until: datetime | None, source: str
    ) -> tuple[bytes, list[str]]: ...


def until_of(lasting: float | None, now: datetime) -> datetime | None:
    """When what is written ends, `lasting` seconds from now. Raises ConfigurationError beyond what a date can be."""
    try:
        return None if lasting is None else now + timedelta(seconds=lasting)
    except OverflowError as error:
        raise ConfigurationError("--for: expected a time that ends before the year 10000") from error


class Written(NamedTuple):
    """What to say, the file that each broker of the move reads, and whether no sidecar that answers lacks it."""

    lines: list[str]
    files: dict[int, WrittenFile]
    is_in_force: bool = True


def write_fleet(found: Throttle, fleet_path: Path, lasting: float | None, settle: Settle) -> Written:
    """Raises ConfigurationError: nothing is written."""
    if not found.rates:
        return Written([], {})
    now = datetime.now(UTC).replace(microsecond=0)
    until = until_of(lasting, now)
    brokers = set(found.brokers())
    lines: list[str] = []

    def work(place: Place, before: bytes) -> Rewritten:
        mine = [broker for broker in place.brokers if broker in brokers]
        part = found.of_broker(mine[0]) if len(mine) == 1 else found
        after, said = settle(before, part, now, until=until, source=place.store.name)
        lines.extend(said)
        return Rewritten(before, after)

    planned = plan(places_of(load_fleet(fleet_path), brokers), work)
    write(planned)
    confirmed = tell(planned)
    lines += [each.line for each in confirmed]
    files = {
        broker: WrittenFile.of(each.place.store.name, each.change.before, each.change.after)
        for each in planned
        for broker in each.place.brokers
        if broker in brokers
    }
    return Written(lines, files, is_in_force=all(each.good for each in confirmed))

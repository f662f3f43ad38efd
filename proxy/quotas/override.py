"""An override as a value: its changes, their duration, author and reason; and how commands add and undo overrides.

A place is written like a section of quotas.toml:

    broker            this broker, the one beside the sidecar
    peers.102         its traffic with broker 102
    racks.eu-1b       its traffic with a rack
    topics.orders     a topic; topics.clicks-* is a glob
    clients.etl       a client id or glob; clients.default every other client id
    users.alice       a user or glob; users.alice.clients.etl a client id of that user
    listener          everything that leaves through the ingress, with the key `rate`
    mode              with the key `enforce`

Pure; time is an argument. Invariants: an `Override` that `validated` returns is one that `layer_of` turns into
sections; undoing an override leaves every other one as it is.
"""

from __future__ import annotations

import json
import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import ConfigurationError
from .client_entity import CLIENTS, USERS, parse_place
from .keys import RATES, SectionKind
from .names import GLOB_WILDCARD
from .reading import MAX_CLIENTS, MAX_GLOBS, MAX_RATES, parse_layer
from .units import YEARS, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .sections import Layer


BROKER = "broker"
"""The place of the broker beside the sidecar."""
_OF_SIDECAR = tuple(kind.value for kind in (SectionKind.MODE, SectionKind.LISTENER))
_NAMED = tuple(kind.value for kind in (SectionKind.PEER, SectionKind.RACK, SectionKind.TOPIC))
MAX_CHANGES, MAX_OVERRIDES = 10_000, 500
MAX_ENDED, KEPT_AFTER_END = 50, timedelta(days=1)
"""The most overrides that are kept after their end, and for how long."""
MAX_LABEL_CHARACTERS, MAX_TEXT_CHARACTERS, MAX_REASSIGNMENT_CHARACTERS = 100, 500, 2**18
_MAX_CHARACTERS = {
    "by": MAX_TEXT_CHARACTERS,
    "reason": MAX_TEXT_CHARACTERS,
    "reassignment": MAX_REASSIGNMENT_CHARACTERS,
}
_ID = re.compile(r"[0-9a-f]{4,16}")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]*")
Overrides = tuple["Override", ...]


class PlacedValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change: `key` has `value` at `place`."""

    place: str
    key: str
    value: bool | int | float | str | dict[str, Any]

    def __str__(self) -> str:
        return self.key if self.place == BROKER else f"{self.place}.{self.key}"

    @property
    def text(self) -> str:
        """The change as an operator types it: ``mode.enforce = false``."""
        value = self.value
        if isinstance(value, dict):
            inline = ", ".join(f"{key} = {json.dumps(each, default=str)}" for key, each in value.items())
            return f"{self} = {{ {inline} }}"
        if isinstance(value, bool):
            return f"{self} = {str(value).lower()}"
        return f"{self} = {value}" if value != "" else f'{self} = ""'


class Override(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Changes that were made together, and that are undone together."""

    id: str
    """Four or more hexadecimal digits; the same on all members of a fleet that were changed together."""
    label: str | None = None
    """The name of overrides that belong together, such as a move's; None: it belongs to no others."""
    by: str
    """The author."""
    since: datetime
    until: datetime | None = None
    """The end; None: it stays until it is undone."""
    reason: str | None = None
    reassignment: str | None = None
    """The JSON of the reassignment that it throttles, for any machine that goes on with it; None: none is kept."""
    changes: tuple[PlacedValue, ...]

    def is_active(self, now: datetime) -> bool:
        return self.until is None or now < self.until


def new_id(taken: Iterable[str] = ()) -> str:
    """Return an id that is not `taken`."""
    known = set(taken)
    while (found := secrets.token_hex(3)) in known:
        pass
    return found


def validated(override: Override, broker_id: int) -> tuple[Override, Layer]:
    """Return the override with its times in UTC, and its sections. Raises ConfigurationError with every problem
    found."""
    problems, layer = list(_problems(override)), None
    if not problems:
        until = None if override.until is None else override.until.astimezone(UTC)
        override = msgspec.structs.replace(override, since=override.since.astimezone(UTC), until=until)
        try:
            layer = layer_of(override, broker_id)
            problems = list(_past_deadlines(layer, override.since))
        except ConfigurationError as error:
            problems = [each.removeprefix(f"override {override.id}: ") for each in error.problems]
    if problems or layer is None:
        raise ConfigurationError(problems)
    return override, layer


def _problems(override: Override) -> Iterable[str]:
    if not _ID.fullmatch(override.id):
        yield f"id: expected 4 to 16 hexadecimal digits, found {shown(override.id)}"
    label = override.label
    if label is not None and (len(label) > MAX_LABEL_CHARACTERS or not _LABEL.fullmatch(label)):
        yield (f"label: expected at most {MAX_LABEL_CHARACTERS} letters, digits and ._:@/+-, found {shown(label)}")
    for name, most in _MAX_CHARACTERS.items():
        text = getattr(override, name)
        if text is not None and (len(text) > most or not text.isprintable()):
            yield f"{name}: expected one line of at most {most} characters, found {shown(text)}"
    if not 0 < len(override.changes) <= MAX_CHANGES:
        yield f"changes: expected 1 to {MAX_CHANGES}, found {len(override.changes)}"
    for name, moment in (("since", override.since), ("until", override.until)):
        if moment is not None and (moment.tzinfo is None or moment.year not in YEARS):
            yield f"{name}: expected a time with an offset, like 2026-12-01T06:00:00Z, found {moment.isoformat()}"
    seen = set[tuple[str, str]]()
    for change in override.changes:
        if (change.place, change.key) in seen:
            yield f"{change}: set twice"
        seen.add((change.place, change.key))


def _past_deadlines(layer: Layer, since: datetime) -> Iterable[str]:
    """Yield deadlines that have passed, since last year's is a dangerous slip of the pen: after a deadline, catch-up
    goes at the highest rate."""
    for section in layer.sections():
        for role, source in section.sources.items():
            deadline = source.deadline
            if deadline is not None and deadline.at is not None and deadline.at <= since:
                expected = f"expected a time in the future, found {deadline.at:%Y-%m-%dT%H:%M:%SZ}"
                yield f"{RATES[role].name}: finish_by: {expected}"


def layer_of(override: Override, broker_id: int) -> Layer:
    """Return its sections. Raises ConfigurationError for a place, key or value that is not understood."""
    document: dict[str, Any] = {}
    for change in override.changes:
        _table_of(change.place, broker_id, document)[change.key] = change.value
    source = f"override {override.id}"
    return parse_layer(document, source=source, override=override.id, until=override.until, since=override.since)


def in_order(overrides: Sequence[Override], layers: Mapping[str, Layer]) -> tuple[Layer, ...]:
    """Return the layers, by id, of overrides that are in the order in which they were made: the newest first."""
    return tuple(layers[override.id] for override in reversed(overrides))


def _table_of(place: str, broker_id: int, document: dict[str, Any]) -> dict[str, Any]:
    kind, _, name = place.partition(".")
    if place == BROKER:
        kind, name = "brokers", str(broker_id)
    elif place in _OF_SIDECAR:
        table: dict[str, Any] = document.setdefault(place, {})
        return table
    elif (entity := parse_place(place)) is not None:
        for named, part in ((USERS, entity.user), (CLIENTS, entity.client)):
            if part is not None:
                document = document.setdefault(named, {}).setdefault(part, {})
        return document
    elif kind not in _NAMED or not name:
        named = "peers.ID, racks.NAME, topics.NAME, clients.NAME or users.NAME"
        expected = f"expected {BROKER}, {', '.join(_OF_SIDECAR)}, {named}"
        raise ConfigurationError(f"place: {expected}, found {shown(place)}")
    section: dict[str, Any] = document.setdefault(kind, {}).setdefault(name, {})
    return section


def kind_of(place: str) -> SectionKind:
    """Return the kind of section of a place, as `parse_layer` has understood it."""
    return SectionKind.BROKER if place == BROKER else SectionKind(place.partition(".")[0])


class Selector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The overrides to undo: exactly one of the three is given."""

    id: str | None = None
    label: str | None = None
    last: bool = False
    """True to choose the override that was made last."""
    by: str | None = None
    """The user who undoes them."""

    def chosen(self, overrides: Overrides) -> Overrides:
        """Return those that it selects. Raises ConfigurationError if it selects none, several ways, or one that does
        not exist."""
        if (self.id is not None) + (self.label is not None) + self.last != 1:
            raise ConfigurationError("expected one of id, label and last")
        if self.last:
            found = overrides[-1:]
        elif self.id is not None:
            found = tuple(each for each in overrides if each.id == self.id)
        else:
            found = tuple(each for each in overrides if each.label == self.label)
        if not found:
            raise NothingSelectedError(
                f"no override {self}" if overrides else f"no override {self}: there is none at all"
            )
        return found

    def __str__(self) -> str:
        if self.last:
            return "at all"
        return f"with the id {self.id}" if self.id is not None else f"with the label {self.label}"


class NothingSelectedError(ConfigurationError):
    """No override is the one asked for."""


def active(overrides: Overrides, now: datetime) -> Overrides:
    """Return those that have not ended."""
    return tuple(each for each in overrides if each.is_active(now))


def _kept(overrides: Overrides, now: datetime) -> Overrides:
    """Return those that have not ended, and the last that have: the clock may be wrong at the moment."""
    ended = [each for each in overrides if each.until is not None and each.until <= now]
    kept = {each.id for each in ended[-MAX_ENDED:] if each.until is not None and now - each.until < KEPT_AFTER_END}
    return tuple(each for each in overrides if each.is_active(now) or each.id in kept)


def added(overrides: Overrides, new: Override, now: datetime) -> Overrides:
    """Return the overrides with `new` as the newest. The same one again, as after an answer that was lost, changes
    nothing. Raises ConfigurationError if another has its id, if it ends before it begins to count, or if they are
    too many."""
    if not new.is_active(now):
        raise ConfigurationError(f"until: expected a time in the future, found {new.until:%Y-%m-%dT%H:%M:%SZ}")
    left = _kept(overrides, now)
    known = next((each for each in left if each.id == new.id), None)
    if known is None:
        _refuse_too_many((*active(left, now), new))
        return (*left, new)
    if (known.changes, known.label, known.until) != (new.changes, new.label, new.until):
        raise ConfigurationError(
            f"id: {new.id} is another override's: {known.label or 'without a label'}, by {known.by}"
        )
    return overrides


def _refuse_too_many(overrides: Overrides) -> None:
    """Raise ConfigurationError if there are more than traffic and memory allow, whoever made how many of them."""
    changes = [change for each in overrides for change in each.changes]
    placed = {(change.place.partition(".")[0], change.place, change.key) for change in changes}
    places = {(kind, place) for kind, place, _ in placed}
    globs = sum(kind == "topics" and GLOB_WILDCARD.search(place) is not None for kind, place in places)
    found = {
        "overrides": (len(overrides), MAX_OVERRIDES),
        "changes": (len(changes), MAX_CHANGES),
        "globs": (globs, MAX_GLOBS),
        "clients and users": (sum(kind in (CLIENTS, USERS) for kind, _ in places), MAX_CLIENTS),
    }
    rate_keys = {key.name for key in RATES.values()}
    for kind in _NAMED:
        rates = len({place for each, place, key in placed if each == kind and key in rate_keys})
        found[f"{kind} with a rate"] = rates, MAX_RATES
    problems = [
        f"expected at most {most} {what} in all overrides, found {number}: undo some, or move them into quotas.toml"
        for what, (number, most) in found.items()
        if number > most
    ]
    if problems:
        raise ConfigurationError(problems)


def undone(overrides: Overrides, selector: Selector, now: datetime) -> Overrides:
    """Return the overrides without those that are selected. Raises NothingSelectedError."""
    gone = {each.id for each in selector.chosen(active(overrides, now))}
    return tuple(each for each in _kept(overrides, now) if each.id not in gone)

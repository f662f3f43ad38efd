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

`layer_values` finds the layer of an effective value, and the values that it hides. Pure; time is an argument.
Invariants: the first that `layer_values` returns is what `rules.effective` makes of the same layers; an `Override` that
`validated` returns is one that `layer_of` turns into sections; undoing an override leaves every other one as it is;
overrides that have ended are dropped at each change.
"""

from __future__ import annotations

import json
import re
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ..errors import ConfigurationError
from .client_entity import CLIENTS, USERS, parse_place
from .client_rates import in_order
from .keys import BY_KIND, OF_CLIENTS, RATES, REPLICAS, SectionKind
from .names import DEFAULT, GLOB_WILDCARD, glob_of, specificity
from .reading import parse_layer
from .units import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from .keys import QuotaKey
    from .sections import Layer, QuotaFile, Section


BROKER = "broker"
"""The place of the broker beside the sidecar."""
_OF_SIDECAR = tuple(kind.value for kind in (SectionKind.MODE, SectionKind.LISTENER))
_NAMED = tuple(kind.value for kind in (SectionKind.PEER, SectionKind.RACK, SectionKind.TOPIC))
MAX_CHANGES = 10_000
MAX_LABEL_CHARACTERS, MAX_TEXT_CHARACTERS = 100, 500
_ID = re.compile(r"[0-9a-f]{4,16}")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]*")
Overrides = tuple["Override", ...]
DEFAULT_LAYER = DEFAULT
MAX_CHARACTERS = 200


class PlacedValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change: `key` has `value` at `place`."""

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


class Override(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes that were made together, and that are undone together."""

    id: str
    """Four or more hexadecimal digits; the same on all members of a fleet that were changed together."""
    label: str | None = None
    """The name of what belongs together, such as a move; None: nothing."""
    by: str
    """The author."""
    since: datetime
    until: datetime | None = None
    """The end; None: it stays until it is undone."""
    reason: str | None = None
    changes: tuple[PlacedValue, ...]

    def is_active(self, now: datetime) -> bool:
        return self.until is None or now < self.until


def new_id(taken: Iterable[str] = ()) -> str:
    """Return an id that is not `taken`."""
    known = set(taken)
    while (found := secrets.token_hex(3)) in known:
        pass
    return found


def validated(override: Override, broker_id: int) -> Override:
    """Return the override with its times in UTC. Raises ConfigurationError with every problem found."""
    problems = list(_problems(override))
    if not problems:
        try:
            problems = list(_past_deadlines(layer_of(override, broker_id), override.since))
        except ConfigurationError as error:
            problems = [each.removeprefix(f"override {override.id}: ") for each in error.problems]
    if problems:
        raise ConfigurationError(problems)
    until = None if override.until is None else override.until.astimezone(UTC)
    return msgspec.structs.replace(override, since=override.since.astimezone(UTC), until=until)


def _problems(override: Override) -> Iterable[str]:
    if not _ID.fullmatch(override.id):
        yield f"id: expected 4 to 16 hexadecimal digits, found {shown(override.id)}"
    label = override.label
    if label is not None and (len(label) > MAX_LABEL_CHARACTERS or not _LABEL.fullmatch(label)):
        yield (f"label: expected at most {MAX_LABEL_CHARACTERS} letters, digits and ._:@/+-, found {shown(label)}")
    for name, text in (("by", override.by), ("reason", override.reason)):
        if text is not None and (len(text) > MAX_TEXT_CHARACTERS or not text.isprintable()):
            yield f"{name}: expected one line of at most {MAX_TEXT_CHARACTERS} characters, found {shown(text)}"
    if not 0 < len(override.changes) <= MAX_CHANGES:
        yield f"changes: expected 1 to {MAX_CHANGES}, found {len(override.changes)}"
    for name, moment in (("since", override.since), ("until", override.until)):
        if moment is not None and moment.tzinfo is None:
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


def layers_of(overrides: Sequence[Override], broker_id: int) -> tuple[Layer, ...]:
    """Return the layers of overrides that are in the order in which they were made: the newest first."""
    return tuple(layer_of(override, broker_id) for override in reversed(overrides))


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


class Selector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The overrides to undo: exactly one of the three is given."""

    id: str | None = None
    label: str | None = None
    last: bool = False
    """True to choose the override that was made last."""
    by: str | None = None
    """The user who undoes them."""

    def chosen(self, overrides: Overrides) -> Overrides:
        """Return those that it selects. Raises ConfigurationError if it says none, several, or what is not there."""
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
    """No override is what was asked for."""


def active(overrides: Overrides, now: datetime) -> Overrides:
    """Return those that have not ended."""
    return tuple(each for each in overrides if each.is_active(now))


def added(overrides: Overrides, new: Override, now: datetime) -> Overrides:
    """Return the overrides with `new` as the newest. The same one again, as after an answer that was lost, changes
    nothing. Raises ConfigurationError if another one has its id, or if it ends before it begins to count."""
    if not new.is_active(now):
        raise ConfigurationError(f"until: expected a time in the future, found {new.until:%Y-%m-%dT%H:%M:%SZ}")
    left = active(overrides, now)
    known = next((each for each in left if each.id == new.id), None)
    if known is None:
        return (*left, new)
    if (known.changes, known.label, known.until) != (new.changes, new.label, new.until):
        raise ConfigurationError(
            f"id: {new.id} is another override's: {known.label or 'without a label'}, by {known.by}"
        )
    return overrides


def undone(overrides: Overrides, selector: Selector, now: datetime) -> Overrides:
    """Return the overrides without those that are selected. Raises NothingSelectedError."""
    left = active(overrides, now)
    gone = {each.id for each in selector.chosen(left)}
    return tuple(each for each in left if each.id not in gone)


class LayerValue(NamedTuple):
    """The value of a key at a place in one layer."""

    value: str
    """The value as people read it: ``10.00 MiB/s (10485760 B/s)``, or the listed partitions."""
    layer: str
    """The override, or the section of the file; ``default`` if neither says anything."""
    until: datetime | None = None


def kind_of(place: str) -> SectionKind:
    """Return the kind of section of a place, as `parse_layer` has understood it."""
    return SectionKind.BROKER if place == BROKER else SectionKind(place.partition(".")[0])


def layer_values(quota_file: QuotaFile, broker_id: int, now: datetime, place: str, key: str) -> list[LayerValue]:
    """Return the values of `key` at `place` in all layers that have one, the effective value first. It hides those
    after it; the last one is the default."""
    kind = kind_of(place)
    declared = BY_KIND[kind][key]
    sought = declared.beside or declared
    if declared in OF_CLIENTS:
        entity = parse_place(place)
        found = in_order(sought, quota_file.layers, now)
        sections = [section for each, section in found if entity is not None and each.counts_for(entity)]
    else:
        of_layers = (_section(layer, broker_id, now, place, sought) for layer in quota_file.layers)
        sections = [section for section in of_layers if section is not None]
    told = [LayerValue(_in_words(each, declared, broker_id), each.path, each.until) for each in sections]
    return [*told, LayerValue(declared.default_in_words(kind, broker_id), DEFAULT_LAYER)]


def _section(layer: Layer, broker_id: int, now: datetime, place: str, key: QuotaKey[Any]) -> Section | None:
    """Return the section of one layer that says it."""
    found = _sections(layer, broker_id, place, key)
    return next((each for each in found if each.holds(now) and key in each.values), None)


def _sections(layer: Layer, broker_id: int, place: str, key: QuotaKey[Any]) -> Iterator[Section]:
    """Yield the sections of one layer that may say it, in the order in which they count."""
    kind, _, name = place.partition(".")
    own = {
        "mode": lambda: layer.mode,
        "listener": lambda: layer.listener,
        "peers": lambda: layer.peers.get(int(name)),
        "racks": lambda: layer.racks.get(name),
        "topics": lambda: layer.topics.get(name),
    }
    if kind in own and (section := own[kind]()) is not None:
        yield section
    if kind == "topics":
        yield from _matching(layer.globs, name)
    if kind == "broker" or (kind == "topics" and key in REPLICAS.values()):
        yield from (each for each in (layer.brokers.get(broker_id), layer.broker_default) if each is not None)


def _in_words(section: Section, key: QuotaKey[Any], broker_id: int) -> str:
    words = key.in_words(section.values.get(key, key.default), broker_id)
    return words if len(words) <= MAX_CHARACTERS else f"{words[:MAX_CHARACTERS]}…"


def _matching(globs: Mapping[str, Section], name: str) -> Iterator[Section]:
    if GLOB_WILDCARD.search(name):
        if name in globs:
            yield globs[name]
        return
    for glob in sorted(globs, key=specificity):
        if glob_of(glob).matches(name):
            yield globs[glob]

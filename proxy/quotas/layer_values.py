"""The layers' words on one key at one place: the value that is effective, those that it hides, and the effect of a
change on it.

Pure; time is an argument. Invariant: the first value that `LayerIndex.values` yields is that of `rules.effective` for
the same layers.
"""

from __future__ import annotations

import itertools
from datetime import datetime  # noqa: TC003 - msgspec reads the annotations
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from .client_entity import parse_place
from .keys import BY_KIND, OF_CLIENTS, REPLICAS
from .names import DEFAULT, GLOB_WILDCARD, glob_of, specificity
from .override import BROKER, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from .client_entity import ClientEntity
    from .keys import QuotaKey
    from .sections import Layer, QuotaFile, Section

DEFAULT_LAYER = DEFAULT
MAX_CHARACTERS = 200


class LayerValue(NamedTuple):
    """The value of a key at a place in one layer."""

    value: str
    """The value as people read it: ``10.00 MiB/s (10485760 B/s)``, or the listed partitions."""
    layer: str
    """The override, or the section of the file; ``default`` if neither says anything."""
    until: datetime | None = None


class LayerIndex:
    """Finds the layers' words on a key at a place, without a look at every layer. Made of one `QuotaFile`, in a time
    that grows with the number of its overrides' changes; results are cached."""

    def __init__(self, quota_file: QuotaFile, broker_id: int) -> None:
        self._layers = quota_file.layers
        self._broker_id = broker_id
        self._places: dict[tuple[str, object], list[int]] = {}
        """The numbers of the overrides' layers that have a section, by table and name, the newest first."""
        self._clients: dict[ClientEntity, list[int]] = {}
        self._with_globs: list[int] = []
        for number, layer in enumerate(quota_file.overrides):
            for table in _TABLES:
                for name in getattr(layer, table):
                    self._places.setdefault((table, name), []).append(number)
            for table in ("mode", "listener"):
                if getattr(layer, table) is not None:
                    self._places.setdefault((table, ""), []).append(number)
            for entity in layer.clients:
                self._clients.setdefault(entity, []).append(number)
            if layer.globs:
                self._with_globs.append(number)
        for entity in quota_file.base.clients:
            self._clients.setdefault(entity, []).append(len(quota_file.overrides))
        self._known: dict[tuple[str, str], list[_Words]] = {}

    def values(self, place: str, key: str, now: datetime) -> Iterator[LayerValue]:
        """Yield the values of `key` at `place` in all layers that have one, the effective value first. It hides those
        after it; the last is the default."""
        for words in self._words(place, key):
            section = words.section(now)
            if section is not None:
                yield self._value(section, place, key)
        yield self._default(place, key)

    def of_override(self, override: str, place: str, key: str, now: datetime) -> tuple[bool, LayerValue, LayerValue]:
        """Return whether an override's value is the effective one, the value, and the next below it. An override
        that has ended says what would hold without it."""
        found = self._words(place, key)
        number = next((number for number, each in enumerate(found) if each.override == override), len(found))
        is_effective = all(each.section(now) is None for each in found[:number])
        sections = (each.section(now) for each in found[number:])
        told = [self._value(section, place, key) for section in itertools.islice(filter(None, sections), 2)]
        told += [self._default(place, key)] * 2
        return is_effective, told[0], told[1]

    def _value(self, section: Section, place: str, key: str) -> LayerValue:
        declared = BY_KIND[kind_of(place)][key]
        words = declared.in_words(section.values.get(declared, declared.default), self._broker_id)
        shown = words if len(words) <= MAX_CHARACTERS else f"{words[:MAX_CHARACTERS]}…"
        return LayerValue(shown, section.path, section.until)

    def _default(self, place: str, key: str) -> LayerValue:
        kind = kind_of(place)
        return LayerValue(BY_KIND[kind][key].default_in_words(kind, self._broker_id), DEFAULT_LAYER)

    def _words(self, place: str, key: str) -> list[_Words]:
        """Return the layers' words in the order in which they count."""
        found = self._known.get((place, key))
        if found is None:
            declared = BY_KIND[kind_of(place)][key]
            words = self._client_words if declared in OF_CLIENTS else self._layer_words
            found = words(place, declared.beside or declared)
            self._known[place, key] = found
        return found

    def _layer_words(self, place: str, key: QuotaKey[Any]) -> list[_Words]:
        kind, _, name = place.partition(".")
        numbers = set(self._places.get(_in_table(kind, name, self._broker_id), ()))
        if kind == "topics" and not GLOB_WILDCARD.search(name):
            numbers.update(self._with_globs)
        if kind == "topics" and key in REPLICAS.values():
            numbers.update(self._places.get(("brokers", self._broker_id), ()))
        layers = [self._layers[number] for number in [*sorted(numbers), len(self._layers) - 1]]
        words = (
            _Words(
                layer.override, [each for each in _sections(layer, self._broker_id, place, key) if key in each.values]
            )
            for layer in layers
        )
        return [each for each in words if each.sections]

    def _client_words(self, place: str, key: QuotaKey[Any]) -> list[_Words]:
        asked = parse_place(place)
        if asked is None:
            return []
        entities = [each for each in self._clients if each.counts_for(asked)]
        found = sorted((each.level, n, each.specificity, each) for each in entities for n in self._clients[each])
        layers = [(self._layers[number], each) for _, number, _, each in found]
        return [
            _Words(layer.override, [layer.clients[each]]) for layer, each in layers if key in layer.clients[each].values
        ]


_TABLES = ("brokers", "peers", "racks", "topics", "globs")


def _in_table(kind: str, name: str, broker_id: int) -> tuple[str, object]:
    if kind == "broker":
        return "brokers", broker_id
    if kind == "topics":
        return ("globs" if GLOB_WILDCARD.search(name) else "topics"), name
    return kind, int(name) if kind == "peers" else name


class _Words(NamedTuple):
    """One layer's sections that have a value, the first that has not ended counts."""

    override: str
    sections: list[Section]

    def section(self, now: datetime) -> Section | None:
        return next((each for each in self.sections if each.holds(now)), None)


def _sections(layer: Layer, broker_id: int, place: str, key: QuotaKey[Any]) -> Iterator[Section]:
    """Yield the sections of a layer that may say it, in the order in which they count."""
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


def _matching(globs: Mapping[str, Section], name: str) -> Iterator[Section]:
    if GLOB_WILDCARD.search(name):
        if name in globs:
            yield globs[name]
        return
    for glob in sorted(globs, key=specificity):
        if glob_of(glob).matches(name):
            yield globs[glob]


Key = tuple[str, str]
"""A place, as an override has it, and the name of a key."""


class Effect(msgspec.Struct, frozen=True):
    """The effect of a change on one key at one place; values and layers as they are printed."""

    place: str
    key: str
    before: str
    before_layer: str
    after: str
    after_layer: str
    until: datetime | None = None
    """The end of the layer that says `after`; None: it does not end."""
    file: str | None = None
    """The new value in quotas.toml where an override hides it; None: nothing is hidden."""


def effects_of(
    keys: Iterable[Key], before: LayerIndex, after: LayerIndex, since: datetime, now: datetime
) -> Iterator[Effect]:
    """Yield the effect on each key between two moments: `since`, by the layers `before`, and `now`, by `after`."""
    for place, key in keys:
        old, new = next(before.values(place, key, since)), next(after.values(place, key, now))
        yield Effect(place, key, old.value, old.layer, new.value, new.layer, new.until)


def with_file(effects: Iterable[Effect], after: LayerIndex, now: datetime) -> Iterator[Effect]:
    """Yield effects of an edited file, each with the file's own value where an override hides it."""
    for each in effects:
        words = list(after.values(each.place, each.key, now))
        own = next(word for word in words if not is_override(word.layer))
        yield each if own is words[0] else msgspec.structs.replace(each, file=own.value)


def is_override(layer: str) -> bool:
    """Return True if a layer, as it is printed, is an override's."""
    return layer.startswith("override ")


def differing(before: Layer, after: Layer, broker_id: int) -> list[Key]:
    """Return the keys that two files give this broker differently, or until another moment."""
    old, new = _by_place(before, broker_id), _by_place(after, broker_id)
    found: dict[Key, None] = {}
    for name in dict.fromkeys((*old, *new)):
        was, is_now = old.get(name), new.get(name)
        if was == is_now:
            continue
        keys = dict.fromkeys(key for each in (was, is_now) if each is not None for key in each.values)
        is_moved = was is not None and is_now is not None and was.until != is_now.until
        for key in keys:
            values = [None if each is None else each.get(key) for each in (was, is_now)]
            if is_moved or values[0] != values[1]:
                found[name[0], key.name] = None
    return list(found)


def ended(layer: Layer, since: datetime, now: datetime, broker_id: int) -> list[Key]:
    """Return the keys of sections that have ended between two moments."""
    return [
        (place, key.name)
        for (place, _), section in _by_place(layer, broker_id).items()
        if section.holds(since) and not section.holds(now)
        for key in section.values
    ]


def _by_place(layer: Layer, broker_id: int) -> dict[tuple[str, bool], Section]:
    """Return the sections that mean something to this broker, by place; the broker has two, one of them by default."""
    own, default = layer.brokers.get(broker_id), layer.broker_default
    found = {} if own is None else {(BROKER, False): own}
    if default is not None:
        found[BROKER, True] = default
    for kind, named in (
        ("peers", layer.peers),
        ("racks", layer.racks),
        ("topics", layer.topics),
        ("topics", layer.globs),
    ):
        found |= {(f"{kind}.{name}", False): section for name, section in named.items()}
    found |= {(str(entity), False): section for entity, section in layer.clients.items()}
    for kind, section in (("mode", layer.mode), ("listener", layer.listener)):
        if section is not None:
            found[kind, False] = section
    return found

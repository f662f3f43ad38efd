"""The effect of a change on what is in force: the value of each changed key before and after, with their layers.

Pure; time is an argument.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - msgspec reads the annotations
from typing import TYPE_CHECKING

import msgspec

from .override import BROKER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .layer_values import LayerIndex
    from .sections import Layer, Section

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
    old, new = _sections(before, broker_id), _sections(after, broker_id)
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
        for (place, _), section in _sections(layer, broker_id).items()
        if section.holds(since) and not section.holds(now)
        for key in section.values
    ]


def _sections(layer: Layer, broker_id: int) -> dict[tuple[str, bool], Section]:
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

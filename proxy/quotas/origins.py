"""Finds the layer of an effective value, and the values that it hides.

Pure; time is an argument. Invariant: the first that `said` returns is what `rules.effective` makes of the same layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from .names import GLOB_WILDCARD, glob_of
from .rules import specificity
from .sections import RATE_KEYS, REPLICAS_KEYS
from .units import UNLIMITED, format_rate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from .sections import Layer, QuotaFile, Section

DEFAULT_LAYER = "default"
MOST_CHARACTERS = 200


class Said(NamedTuple):
    """One layer's word on a key at a place."""

    value: str
    """As people read it: ``10.00 MiB/s (10485760 B/s)``, or the listed partitions."""
    layer: str
    """The override, or the section of the file; ``default`` if neither says anything."""
    until: datetime | None = None


def said(quota_file: QuotaFile, broker_id: int, now: datetime, place: str, key: str) -> list[Said]:
    """Return what the layers say of `key` at `place` (`proxy.quotas.override`), the effective value first. What
    comes after it is hidden by it; the last one is what holds where no layer says anything."""
    found = []
    for layer in quota_file.layers:
        section = next(
            (each for each in _sections(layer, broker_id, place, key) if each.holds(now) and _says(each, key)), None
        )
        if section is not None:
            found.append(Said(_in_words(section, key, broker_id), section.path, section.until))
    return [*found, Said(_default(place, key), DEFAULT_LAYER)]


def _sections(layer: Layer, broker_id: int, place: str, key: str) -> Iterator[Section]:
    """Yield the sections of one layer that may say it, in the order in which they count."""
    kind, _, name = place.partition(".")
    own = {
        "mode": lambda: layer.mode,
        "peers": lambda: layer.peers.get(int(name)),
        "racks": lambda: layer.racks.get(name),
        "topics": lambda: layer.topics.get(name),
    }
    if kind in own and (section := own[kind]()) is not None:
        yield section
    if kind == "topics":
        yield from _matching(layer, name)
    if kind == "broker" or (kind == "topics" and key in REPLICAS_KEYS):
        yield from (each for each in (layer.brokers.get(broker_id), layer.broker_default) if each is not None)


def _matching(layer: Layer, name: str) -> Iterator[Section]:
    if GLOB_WILDCARD.search(name):
        if name in layer.globs:
            yield layer.globs[name]
        return
    for glob in sorted(layer.globs, key=specificity):
        if glob_of(glob).matches(name):
            yield layer.globs[glob]


def _says(section: Section, key: str) -> bool:
    if key in RATE_KEYS:
        return RATE_KEYS[key] in section.rates
    if key in REPLICAS_KEYS:
        return REPLICAS_KEYS[key] in section.replicas
    return section.enforce is not None


def _in_words(section: Section, key: str, broker_id: int) -> str:
    if key in RATE_KEYS:
        rate = section.rate_of(RATE_KEYS[key])
        return format_rate(rate) if isinstance(rate, int | float) else str(rate)
    if key in REPLICAS_KEYS:
        listed = str(section.replicas[REPLICAS_KEYS[key]].partitions_on(broker_id)) or "none"
        return listed if len(listed) <= MOST_CHARACTERS else f"{listed[:MOST_CHARACTERS]}…"
    return str(section.enforce).lower()


def _default(place: str, key: str) -> str:
    if key in RATE_KEYS:
        return UNLIMITED if place == "broker" else "no rate of its own"
    return "none" if key in REPLICAS_KEYS else "true"

"""Rates inside a role's rate: of the traffic with a broker or a rack, of a topic or of the topics of a glob.

Bytes sent to a peer, or fetched from it, keep to the peer's rate, to that of its rack and to the role's; those of
a topic keep to the topic's rate as well. A glob's rate bounds all its topics together. Of several sections that match
a topic only the most specific one counts. Pure. Invariant: every rate that bounds something is finite. A section that
says ``unlimited`` bounds nothing, and for its topics no less specific section counts either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from .names import glob_of
from .units import UNLIMITED, format_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PEER = "peer"
RACK = "rack"
TOPIC = "topic"


class Entity(NamedTuple):
    """The entity of an inner rate: a `kind` (PEER, RACK, TOPIC) and a `name`: a broker's id, a rack, a topic's name or
    glob."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class FinerRates:
    """The finer rates of a role of a broker, in bytes per second. `math.inf` is no rate; for a topic it also keeps
    away the rate of a less specific glob."""

    peers: Mapping[int, float] = field(default_factory=dict)
    topics: Mapping[str, float] = field(default_factory=dict)
    """Rates of topics, by exact name."""
    globs: tuple[tuple[str, float], ...] = ()
    """The rates of globs, most specific first."""
    racks: Mapping[str, float] = field(default_factory=dict)
    """Rates of racks, by broker.rack."""

    def __bool__(self) -> bool:
        """Return True if anything is bounded by them."""
        return any(True for _ in self.bounds())

    def bounds(self) -> Iterator[tuple[Entity, float]]:
        """Return the entities that are bounded, and their bytes per second."""
        return ((entity, rate) for entity, rate in self.entries() if not math.isinf(rate))

    def entries(self) -> Iterator[tuple[Entity, float]]:
        """Yield the same, and with `math.inf` the topics and globs that say ``unlimited``, which keep a glob's rate
        away."""
        of_kinds = (
            (RACK, self.racks.items()),
            (PEER, self.peers.items()),
            (TOPIC, (*self.topics.items(), *self.globs)),
        )
        for kind, rates in of_kinds:
            for name, rate in rates:
                if kind == TOPIC or not math.isinf(rate):
                    yield Entity(kind, str(name)), rate

    def meant(self) -> FinerRates:
        """Return the same without each ``unlimited`` that keeps no other rate away. A section that begins or ends to
        say it is then no change, since traffic meets none."""
        bounded = _any_bounds(self.globs)
        globs = tuple(
            (glob, rate)
            for number, (glob, rate) in enumerate(self.globs, 1)
            if not math.isinf(rate) or _any_bounds(self.globs[number:])
        )
        return FinerRates(
            peers={peer: rate for peer, rate in self.peers.items() if not math.isinf(rate)},
            topics={
                topic: rate
                for topic, rate in self.topics.items()
                if not math.isinf(rate) or (bounded and not math.isinf(self._by_glob(topic)[1]))
            },
            globs=globs,
            racks={rack: rate for rack, rate in self.racks.items() if not math.isinf(rate)},
        )

    def of_topic(self, topic: str) -> Entity | None:
        """Return the topic or glob whose rate bounds this topic; None: no rate of a topic or glob does."""
        rate, found = self.topics.get(topic), topic
        if rate is None:
            found, rate = self._by_glob(topic)
        return None if math.isinf(rate) else Entity(TOPIC, found)

    def _by_glob(self, topic: str) -> tuple[str, float]:
        """Return the most specific glob that matches the topic, and its rate; without one the topic and `math.inf`."""
        return _first_that_matches(topic, self.globs) or (topic, math.inf)

    def in_words(self, entity: Entity) -> str:
        """Describe the bound, also where no section of its own has any: ``10.00 MiB/s (10485760 B/s)``."""
        kind, name = entity
        if kind == PEER:
            return format_rate(self.peers.get(int(name), math.inf))
        if kind == RACK:
            return format_rate(self.racks.get(name, math.inf))
        own = self.topics.get(name)
        if own is None:
            own = next((rate for glob, rate in self.globs if glob == name), None)
        if own is not None:
            return format_rate(own)
        if not _any_bounds(self.globs):
            return UNLIMITED
        if any(each in name for each in "*?["):
            # Some of its topics may have the rate of another glob, others none.
            return "no rate of its own"
        glob, rate = self._by_glob(name)
        return UNLIMITED if math.isinf(rate) else f"{format_rate(rate)} shared with topic {glob}"


@lru_cache(maxsize=8192)
def _first_that_matches(topic: str, globs: tuple[tuple[str, float], ...]) -> tuple[str, float] | None:
    """Return the first glob that matches, with its rate. It is cached, because overrides and `until` make the same
    comparisons again and again."""
    return next(((glob, rate) for glob, rate in globs if glob_of(glob).matches(topic)), None)


def _any_bounds(globs: Iterable[tuple[str, float]]) -> bool:
    return any(not math.isinf(rate) for _, rate in globs)


NO_FINER_RATES = FinerRates()

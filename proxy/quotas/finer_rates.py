"""Rates inside a role's rate: of the traffic with one broker or one rack, of one topic or of the topics of a glob.

What is sent to a peer, or fetched from it, keeps to the peer's rate, to that of its rack and to the role's; what is of
a topic keeps to the topic's rate as well. A glob's rate bounds all its topics together. Of several sections that match
a topic only the most specific one counts. Pure. Invariant: every rate that bounds something is finite. A section that
says ``unlimited`` bounds nothing, and for its topics no less specific section counts either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .globs import glob_of
from .units import format_rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PEER = "peer"
RACK = "rack"
TOPIC = "topic"


class Entity(NamedTuple):
    """What has a rate of its own: a `kind` (PEER, RACK, TOPIC) and a `name`: a broker's id, a rack, a topic's name or
    glob."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class FinerRates:
    """The finer rates of one role of one broker, in bytes per second. `math.inf` is no rate; for a topic it also keeps
    away the rate of a less specific glob."""

    peers: Mapping[int, float] = field(default_factory=dict)
    topics: Mapping[str, float] = field(default_factory=dict)
    """By exact name."""
    globs: tuple[tuple[str, float], ...] = ()
    """Most specific first."""
    racks: Mapping[str, float] = field(default_factory=dict)
    """By broker.rack."""

    def __bool__(self) -> bool:
        """Whether anything is bounded by them."""
        return any(True for _ in self.bounds())

    def bounds(self) -> Iterator[tuple[Entity, float]]:
        """What is bounded, and by how many bytes per second."""
        of_kinds = (
            (RACK, self.racks.items()),
            (PEER, self.peers.items()),
            (TOPIC, (*self.topics.items(), *self.globs)),
        )
        for kind, rates in of_kinds:
            for name, rate in rates:
                if not math.isinf(rate):
                    yield Entity(kind, str(name)), rate

    def of_topic(self, topic: str) -> Entity | None:
        """Return the topic or glob whose rate bounds this topic; None: no rate of a topic or glob does."""
        rate, found = self.topics.get(topic), topic
        if rate is None:
            found, rate = next(
                ((glob, rate) for glob, rate in self.globs if glob_of(glob).matches(topic)), (topic, math.inf)
            )
        return None if math.isinf(rate) else Entity(TOPIC, found)

    def in_words(self) -> dict[str, str]:
        """``{"peer 102": "10.0 MiB/s (10485760 B/s)"}``."""
        return {str(entity): format_rate(rate) for entity, rate in self.bounds()}


NO_FINER_RATES = FinerRates()

"""Client quotas: what a client may send and fetch, by its user and its client id (KIP-13's and KIP-55's keys).

The most specific section wins, key by key, in Kafka's order: the user, each other user, no user; and for each of them
the client id, each other client id, none. A glob, which Kafka does not have, counts like a name, after exact ones and
the longest first. Of sections that are equally specific in Kafka's sense, those of overrides go before the file's, the
newest first. Pure. Invariant: ``unlimited`` exempts; every other rate is above 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .sections import ClientTraffic
from .units import format_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from .client_entity import ClientEntity
    from .sections import Layer, Section


class ClientQuota(NamedTuple):
    """All connections that have the same `entity` share it."""

    entity: ClientEntity
    bytes_per_second: float
    section: ClientEntity
    """The entity of the section that says so."""
    catch_up_only: bool = False
    """True if what consumers read at the tail does not count."""


@dataclass(frozen=True, slots=True)
class TrafficRates:  # noqa: PLW1641 - a mapping has no hash either
    """The rates of one kind of traffic in bytes per second; `math.inf` exempts."""

    sections: Mapping[ClientEntity, float] = field(default_factory=dict)
    """The rate of each section, in the order in which they count: the first that matches."""
    catch_up_only: frozenset[ClientEntity] = frozenset()
    """The sections whose rate is for catching up alone."""

    def __eq__(self, other: object) -> bool:
        """Compare the order of the sections as well: it tells which of two that match a client counts."""
        if not isinstance(other, TrafficRates):
            return NotImplemented
        return (list(self.sections.items()), self.catch_up_only) == (list(other.sections.items()), other.catch_up_only)

    @property
    def is_unlimited(self) -> bool:
        return all(map(math.isinf, self.sections.values()))

    def of(self, user: str | None, client_id: str) -> ClientQuota | None:
        """Return the quota of a client; None if it has none."""
        for section in self.sections:
            if section.matches(user, client_id):
                return self.by_section(section, section.of(user, client_id))
        return None

    def by_section(self, section: ClientEntity, entity: ClientEntity) -> ClientQuota | None:
        """Return the quota that a section gives an entity; None if it gives none."""
        rate = self.sections.get(section, math.inf)
        return None if math.isinf(rate) else ClientQuota(entity, rate, section, section in self.catch_up_only)

    def in_words(self) -> dict[str, str]:
        """Return each section's label, and its rate as people read it."""
        catch_up_only = self.catch_up_only
        return {
            entity.label: format_client_rate(rate, catch_up_only=entity in catch_up_only)
            for entity, rate in self.sections.items()
        }

    def entries(self) -> Iterator[tuple[str, float]]:
        """Yield each section's label and its rate, in the order in which they count."""
        return ((entity.label, rate) for entity, rate in self.sections.items())


@dataclass(frozen=True, slots=True)
class ClientRates:
    """The client quotas in effect."""

    producer: TrafficRates = field(default_factory=TrafficRates)
    consumer: TrafficRates = field(default_factory=TrafficRates)

    def of(self, traffic: ClientTraffic) -> TrafficRates:
        return self.producer if traffic is ClientTraffic.PRODUCER else self.consumer

    def __bool__(self) -> bool:
        """Return True if any client has a quota."""
        return not (self.producer.is_unlimited and self.consumer.is_unlimited)


NO_CLIENT_RATES = ClientRates()


def client_rates(layers: Iterable[Layer], now: datetime) -> ClientRates:
    """Return the client quotas that the layers make, the first of which counts most."""
    layers = tuple(layers)
    return ClientRates(*(_traffic_rates(traffic, layers, now) for traffic in ClientTraffic))


def _traffic_rates(traffic: ClientTraffic, layers: Iterable[Layer], now: datetime) -> TrafficRates:
    found: dict[ClientEntity, Section] = {}
    for entity, section in in_order(traffic, layers, now):
        found.setdefault(entity, section)
    rates = {entity: section.client_rates[traffic] for entity, section in found.items()}
    is_consumer = traffic is ClientTraffic.CONSUMER
    return TrafficRates(
        rates, frozenset(entity for entity, each in found.items() if each.catch_up_only and is_consumer)
    )


def format_client_rate(bytes_per_second: float, *, catch_up_only: bool) -> str:
    """Return a rate as people read it."""
    return format_rate(bytes_per_second) + (", catch-up only" if catch_up_only else "")


def in_order(traffic: ClientTraffic, layers: Iterable[Layer], now: datetime) -> list[tuple[ClientEntity, Section]]:
    """Return the sections that say a rate now, in the order in which they count."""
    found = [
        (entity.level, number, entity.specificity, entity, section)
        for number, layer in enumerate(layers)
        for entity, section in layer.clients.items()
        if traffic in section.client_rates and section.holds(now)
    ]
    return [(entity, section) for *_, entity, section in sorted(found, key=lambda each: each[:3])]

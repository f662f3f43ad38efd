"""Client quotas: a client's rates of sending and fetching, by user and client id (KIP-13's and KIP-55's keys).

The most specific section wins, key by key, in Kafka's order: the user, each other user, no user; and for each of them
the client id, each other client id, none. A glob, which Kafka does not have, counts like a name, after exact ones and
the longest first. Of sections that are equally specific in Kafka's sense, those of overrides go before the file's, the
newest first. Keys that are no rates go with a rate: with the one of their own section (`QuotaKey.beside`), or else with
those of all sections that theirs counts for. Pure. Invariant: ``unlimited`` exempts; every other rate is above 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from .keys import CATCH_UP_ONLY, CLIENT_RATES, OF_CLIENTS, ClientTraffic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from .client_entity import ClientEntity
    from .keys import QuotaKey, T
    from .sections import Layer, Section


class ClientQuota(NamedTuple):
    """All connections that have the same `entity` share it."""

    entity: ClientEntity
    bytes_per_second: float
    section: ClientEntity
    """The entity of the section that says so."""
    others: Mapping[QuotaKey[Any], Any] = {}
    """The values of the keys that go with the rate, without those that no section has."""

    def get(self, key: QuotaKey[T]) -> T:
        """Return the value of a key that goes with the rate."""
        value: T = self.others.get(key, key.default)
        return value

    @property
    def catch_up_only(self) -> bool:
        """True if bytes that consumers read at the tail do not count."""
        return self.get(CATCH_UP_ONLY)


@dataclass(frozen=True, slots=True)
class TrafficRates:  # noqa: PLW1641 - a mapping has no hash either
    """The rates of one kind of traffic in bytes per second; `math.inf` exempts."""

    sections: Mapping[ClientEntity, float] = field(default_factory=dict)
    """The rate of each section, in the order in which they count: the first that matches."""
    others: Mapping[QuotaKey[Any], Mapping[ClientEntity, Any]] = field(default_factory=dict)
    """The values of the keys that go with a rate, by section in the same order."""

    def __eq__(self, other: object) -> bool:
        """Compare the order of the sections as well: it tells which of two that match a client counts."""
        if not isinstance(other, TrafficRates):
            return NotImplemented
        return self._in_order() == other._in_order()

    def _in_order(self) -> tuple[list[Any], dict[Any, list[Any]]]:
        return list(self.sections.items()), {key: list(values.items()) for key, values in self.others.items()}

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
        if math.isinf(rate):
            return None
        return ClientQuota(entity, rate, section, {key: self.value(key, section) for key in self.others})

    def value(self, key: QuotaKey[T], section: ClientEntity) -> T:
        """Return the value of a key that goes with the rate of a section."""
        values: Mapping[ClientEntity, T] = self.others.get(key, {})
        if key.beside is not None:
            return values.get(section, key.default)
        return next((value for each, value in values.items() if each.counts_for(section)), key.default)


@dataclass(frozen=True, slots=True)
class ClientRates:
    """The client quotas in effect."""

    producer: TrafficRates = field(default_factory=TrafficRates)
    consumer: TrafficRates = field(default_factory=TrafficRates)

    def of(self, traffic: ClientTraffic) -> TrafficRates:
        return self.producer if traffic is ClientTraffic.PRODUCER else self.consumer

    def of_key(self, key: QuotaKey[T]) -> Mapping[ClientEntity, T]:
        """Return the values of a key of clients by section, in the order in which they count."""
        for traffic, rate in CLIENT_RATES.items():
            if key is rate:
                return self.of(traffic).sections  # type: ignore[return-value]  # T is float then
        return self.consumer.others.get(key, {})

    def by_label(self, key: QuotaKey[T]) -> dict[str, T]:
        """Return the same by the names that metrics, pages and reports have for sections."""
        return {entity.label: value for entity, value in self.of_key(key).items()}

    def in_words(self, key: QuotaKey[Any]) -> dict[str, str]:
        """Return the value as people read it; a rate with its section's other keys."""
        return {entity.label: self._words_of(key, entity) for entity in self.of_key(key)}

    def words_at(self, key: QuotaKey[Any], place: ClientEntity) -> str:
        """Return the effective value at a place, of whichever section."""
        section = next((each for each in self.of_key(key) if each.counts_for(place)), None)
        return key.in_words(key.default, 0) if section is None else self._words_of(key, section)

    def _words_of(self, key: QuotaKey[Any], section: ClientEntity) -> str:
        only = key is CATCH_UP_ONLY.beside and self.of_key(CATCH_UP_ONLY).get(section)
        return key.in_words(self.of_key(key)[section], 0) + (", catch-up only" if only else "")

    def __bool__(self) -> bool:
        """Return True if any client has a quota."""
        return not (self.producer.is_unlimited and self.consumer.is_unlimited)


NO_CLIENT_RATES = ClientRates()


def client_rates(layers: Iterable[Layer], now: datetime) -> ClientRates:
    """Return the client quotas that the layers make, the first of which counts most."""
    layers = tuple(layers)
    return ClientRates(*(_traffic_rates(traffic, layers, now) for traffic in ClientTraffic))


def _traffic_rates(traffic: ClientTraffic, layers: Iterable[Layer], now: datetime) -> TrafficRates:
    rate = CLIENT_RATES[traffic]
    sections = first_of(rate, layers, now)
    others = {}
    for key in OF_CLIENTS:
        if key.beside is rate:
            found = {entity: section for entity, section in sections.items() if key in section.values}
        elif key.beside is None and key not in CLIENT_RATES.values():
            found = first_of(key, layers, now)
        else:
            continue
        if found:
            others[key] = {entity: section.values[key] for entity, section in found.items()}
    return TrafficRates({entity: section.values[rate] for entity, section in sections.items()}, others)


def first_of(key: QuotaKey[Any], layers: Iterable[Layer], now: datetime) -> dict[ClientEntity, Section]:
    """Return the section that says a key for each entity, in the order in which they count."""
    first: dict[ClientEntity, tuple[int, Section]] = {}
    for number, layer in enumerate(layers):
        for entity, section in layer.clients.items():
            if entity not in first and key in section.values and section.holds(now):
                first[entity] = number, section
    in_order = sorted(first, key=lambda entity: (entity.level, first[entity][0], entity.specificity))
    return {entity: first[entity][1] for entity in in_order}

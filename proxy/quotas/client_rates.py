"""Client quotas: what a client may send and fetch, by its client id (KIP-13's keys and entities).

The most specific section wins, key by key: the exact client id, the longest glob that matches, the default. Overrides
go before the file, the newest first. As in Kafka the default is a quota for each client id; a glob, which Kafka does
not have, is one entity, whose quota all its client ids share. Pure. Invariant: ``unlimited`` exempts; every other rate
is above 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from .names import glob_of, specificity
from .sections import DEFAULT, ClientTraffic

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from .sections import Layer, Section


class ClientQuota(NamedTuple):
    """All connections whose client ids have the same `entity` share it."""

    entity: str
    """A client id or a glob."""
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class TrafficRates:
    """The rates of one kind of traffic in bytes per second; `math.inf` exempts."""

    names: Mapping[str, float] = field(default_factory=dict)
    globs: tuple[tuple[str, float], ...] = ()
    """The first that matches counts."""
    default: float = math.inf

    @property
    def is_unlimited(self) -> bool:
        return all(math.isinf(rate) for _, rate in self.said())

    def of(self, client_id: str) -> ClientQuota | None:
        """Return the quota of a client; None if it has none."""
        rate, entity = self.names.get(client_id), client_id
        if rate is None:
            entity, rate = next(
                ((glob, rate) for glob, rate in self.globs if glob_of(glob).matches(client_id)),
                (client_id, self.default),
            )
        return None if math.isinf(rate) else ClientQuota(entity, rate)

    def has_section(self, entity: str) -> bool:
        """Return whether a section is of exactly this client id or glob."""
        return entity in self.names or any(glob == entity for glob, _ in self.globs)

    def said(self) -> Iterator[tuple[str, float]]:
        """Yield each section's name and its rate, in the order in which they count."""
        yield from self.names.items()
        yield from self.globs
        if not math.isinf(self.default):
            yield DEFAULT, self.default


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
    found = {traffic: _traffic_rates(traffic, tuple(layers), now) for traffic in ClientTraffic}
    return ClientRates(found[ClientTraffic.PRODUCER], found[ClientTraffic.CONSUMER])


def _traffic_rates(traffic: ClientTraffic, layers: tuple[Layer, ...], now: datetime) -> TrafficRates:
    def says(section: Section | None) -> bool:
        return section is not None and traffic in section.client_rates and section.holds(now)

    names: dict[str, float] = {}
    globs: dict[str, float] = {}
    for layer in layers:
        above = [glob_of(glob) for glob in globs]
        for name, section in layer.clients.items():
            if says(section) and name not in names and not any(glob.matches(name) for glob in above):
                names[name] = section.client_rates[traffic]
        for glob in sorted(filter(lambda glob: says(layer.client_globs[glob]), layer.client_globs), key=specificity):
            globs.setdefault(glob, layer.client_globs[glob].client_rates[traffic])
    default = next((layer.client_default for layer in layers if says(layer.client_default)), None)
    return TrafficRates(names, tuple(globs.items()), math.inf if default is None else default.client_rates[traffic])

"""Client quotas in effect, by the places that quotas.toml has them at."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from proxy.quotas.client_entity import parse_place
from proxy.quotas.client_rates import client_rates
from proxy.quotas.keys import CLIENT_RATES, ClientTraffic
from proxy.quotas.sections import Layer, Section

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.quotas.client_rates import TrafficRates


def traffic_rates(rates: Mapping[str, float]) -> TrafficRates:
    """Bytes per second by place: ``clients.app``, ``users.alice.clients.default``."""
    sections = {}
    for place, rate in rates.items():
        entity = parse_place(place)
        assert entity is not None, place
        sections[entity] = Section(place, values={CLIENT_RATES[ClientTraffic.PRODUCER]: rate})
    return client_rates([Layer(clients=sections)], datetime.now(UTC)).producer

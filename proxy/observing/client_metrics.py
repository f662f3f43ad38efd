"""The metrics of client quotas (KIP-219) and of the listener's rate, and their part of `/throttle`.

Invariant: the number of label values is bounded, whatever client ids peers make up
(`clients.throttle`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .metric_row import counter, gauge, one
from .throttle_page import ClientState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..clients.throttle import ClientThrottle
    from .metric_row import Sample, Sources

MAX_SHOWN = 50
"""How many of the entities that move most bytes `/throttle` shows beside those of sections."""


def client_states(clients: ClientThrottle, now: float) -> Iterator[ClientState]:
    """Yield the quotas of clients that have shown themselves, of all that a section names and of the busiest others,
    and then the sections that bound nobody yet."""
    sections = {(traffic, name): rate for traffic, name, rate in clients.sections()}
    for number, state in enumerate(clients.states(now)):
        if sections.pop((state.traffic, state.name), None) is None and number >= MAX_SHOWN:
            continue
        free = round(state.free_bytes_per_second, 3) if state.catch_up_only else None
        yield ClientState(
            state.traffic.value, state.name, state.quota_bytes_per_second, round(state.rate_bytes_per_second, 3), free
        )
    for (traffic, name), rate in sections.items():
        yield ClientState(traffic.value, name, None if math.isinf(rate) else rate)


def _throttle_seconds(sources: Sources) -> Iterator[Sample]:
    if sources.clients is not None:
        for (entity, traffic), seconds in tuple(sources.clients.throttle_seconds.items()):
            yield (entity, traffic.value), seconds


def _passed_bytes(sources: Sources) -> Iterator[Sample]:
    if sources.clients is not None:
        for (entity, traffic), size in tuple(sources.clients.passed_bytes.items()):
            yield (entity, traffic.value), size


def _free_bytes(sources: Sources) -> Iterator[Sample]:
    if sources.clients is not None:
        for entity, size in tuple(sources.clients.free_bytes.items()):
            yield (entity,), size


CLIENT_METRICS = (
    gauge(
        "listener_limit_bytes_per_second",
        "The rate of clients and followers together, +Inf if unlimited.",
        one(lambda sources: sources.quotas().listener_bytes_per_second),
    ),
    counter(
        "listener_client_bytes_total",
        "Bytes of responses to consumers, counted while the listener has a rate.",
        one(lambda sources: 0 if sources.clients is None else sources.clients.uplink.client_bytes),
    ),
    counter(
        "client_throttle_time_seconds_total{entity,kind}",
        "The throttle time of connections of a client with a quota; a mute counts when it begins.",
        _throttle_seconds,
    ),
    counter(
        "client_bytes_total{entity,kind}",
        "Bytes of clients with a quota: of their Produce requests (kind producer) or Fetch responses (consumer).",
        _passed_bytes,
    ),
    counter(
        "client_free_bytes_total{entity}",
        "Bytes that consumers with catch_up_only read at the tail, which do not count; part of client_bytes_total.",
        _free_bytes,
    ),
)

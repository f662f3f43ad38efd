"""The metrics of client quotas (KIP-219) and of the listener's rate, and their part of `/throttle`.

Invariant: the number of label values is bounded, whatever client ids peers make up
(`clients.throttle`).
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from ..clients.throttle import Uncharged
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
    also those that have ended and that somebody still waits for; and then the sections that bound nobody yet."""
    sections = {(traffic, name): rate for traffic, name, rate in clients.sections()}
    others = Counter[bool]()
    for state in clients.states(now):
        if sections.pop((state.traffic, state.name), None) is None:
            has_ended = math.isinf(state.quota_bytes_per_second)
            others[has_ended] += 1
            if others[has_ended] > MAX_SHOWN:
                continue
        yield ClientState(
            kind=state.traffic.value,
            entity=state.name,
            quota_bytes_per_second=_finite(state.quota_bytes_per_second),
            rate_bytes_per_second=round(state.rate_bytes_per_second, 3),
            free_bytes_per_second=round(state.free_bytes_per_second, 3) if state.catch_up_only else None,
            connections=state.connections,
            muted_connections=state.muted,
            muted_for_seconds=None if state.muted_since is None else round(now - state.muted_since, 3),
            muted_seconds=round(state.muted_seconds, 3),
            others=state.is_other,
        )
    for (traffic, name), rate in sections.items():
        yield ClientState(traffic.value, name, _finite(rate))


def _finite(bytes_per_second: float) -> float | None:
    return None if math.isinf(bytes_per_second) else bytes_per_second


def _throttle_seconds(sources: Sources) -> Iterator[Sample]:
    if sources.clients is not None:
        sources.clients.count_mutes(sources.now())
        for (entity, traffic), seconds in tuple(sources.clients.throttle_seconds.items()):
            yield (entity, traffic.value), seconds


def _limits(sources: Sources) -> Iterator[Sample]:
    if sources.clients is not None:
        for (entity, traffic), limit in sources.clients.limits().items():
            yield (entity, traffic.value), limit


def _uncharged_bytes(sources: Sources) -> Iterator[Sample]:
    for reason in Uncharged:
        yield (reason.value,), 0 if sources.clients is None else sources.clients.uncharged_bytes[reason]


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
        "The throttle time of connections of a client with a quota, as it passes.",
        _throttle_seconds,
    ),
    gauge(
        "client_limit_bytes_per_second{entity,kind}",
        "The quota of each client of which bytes are counted; of clients that are counted as others each one's.",
        _limits,
    ),
    counter(
        "client_uncharged_bytes_total{reason}",
        "Bytes that passed and were not charged to a client: the broker refused them, or closed the connection instead "
        "of an answer, or the client owed the most that it may (max_throttle).",
        _uncharged_bytes,
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

"""Counters of the sidecar, in plain integers that the data path may bump without a lock or a lookup.

The exporter (`observing.exposition`) reads them at scrape time; nothing here knows Prometheus, sockets or the clock.
Invariant: every ``_total`` only grows.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..roles import Role

if TYPE_CHECKING:
    from ..logs.queue import Dropped

HOLD_BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""The upper bounds of `hold_seconds`; a hold ends at replica.fetch.wait.max.ms, 500 ms by default."""


MAX_UNREACHABLE = 100
UNREACHABLE_SECONDS = 20.0
"""How long after an attempt that failed an address counts as unreachable. Brokers dial again every second or so."""


class Full(enum.Enum):
    """The limit that a connection has reached in flight; the value is the metric's label."""

    REQUESTS = "requests"
    FETCHES = "fetches"
    """The connection has too many fetches in flight whose answers are to be learnt from or edited."""


class Undecoded(enum.Enum):
    """The reason why traffic passed without being understood; the value is the metric's label."""

    TLS = "tls"
    FRAMING = "framing"
    UNSUPPORTED_VERSION = "unsupported_version"
    MALFORMED_REQUEST = "malformed_request"
    MALFORMED_RESPONSE = "malformed_response"
    TOO_MANY_REPLICAS = "too_many_replicas"
    """No more replicas may be remembered, of this connection or of all, so some partitions of a Fetch pass unthrottled.
    A fetch session of too many partitions passes as a whole."""
    MEMORY = "memory"
    """A frame would have to be held until all of it has come, but all connections together already hold as much as they
    may."""
    REQUEST_TOO_LARGE = "request_too_large"
    RESPONSE_TOO_LARGE = "response_too_large"
    UNKNOWN_TOPIC_ID = "unknown_topic_id"
    """The lists name topics, and no broker says which topic an id of a Fetch (v13 and later) belongs to."""


@dataclass(slots=True)
class Histogram:
    """Counts per bucket (not cumulative; the last is +Inf) and the sum, as Prometheus wants them."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(HOLD_BUCKETS_SECONDS) + 1))
    sum: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(HOLD_BUCKETS_SECONDS, seconds)] += 1
        self.sum += seconds


class Unreachable:
    """The addresses that could not be dialled lately."""

    def __init__(self) -> None:
        self._errors: dict[str, tuple[str, float]] = {}

    def failed(self, upstream: str, error: str, now: float) -> None:
        """Note an attempt that failed."""
        if len(self._errors) >= MAX_UNREACHABLE:
            self._errors.clear()
        self._errors[upstream] = error, now

    def reached(self, upstream: str) -> None:
        """Note one that did not."""
        self._errors.pop(upstream, None)

    def at(self, now: float) -> list[tuple[str, str]]:
        """Return the addresses that are dialled without success, each with the last error."""
        return [(upstream, error) for upstream, (error, at) in self._errors.items() if now - at < UNREACHABLE_SECONDS]


@dataclass(slots=True)
class RoleStatistics:
    """The counters of a role. Bytes are accounted as Kafka does: record bytes for the follower role,
    wire bytes of the throttled partitions' entries for the leader role (KIP-73)."""

    throttled_bytes_in_sync: int = 0
    throttled_bytes_catching_up: int = 0
    omitted_partitions: int = 0
    substituted_partitions: int = 0
    withheld_bytes: int = 0
    local_answers: int = 0
    relayed_request_bytes: int = 0
    relayed_response_bytes: int = 0
    cross_rack_request_bytes: int = 0
    """The request bytes that went between racks that are known; counted about once a second."""
    cross_rack_response_bytes: int = 0
    connections: int = 0
    """Connections open now."""
    opaque_connections: int = 0
    """Connections open now whose frames cannot be told apart."""
    ended: Counter[str] = field(default_factory=Counter)
    """Connections by the cause of their end."""
    held_requests: int = 0
    """Requests held now, because everything they ask for is over quota."""
    hold_seconds: Histogram = field(default_factory=Histogram)
    in_flight_pauses: Counter[str] = field(default_factory=Counter)
    """The number of times that a follower was not read from until answers had come, by the limit reached."""
    fetch_requests: Counter[int] = field(default_factory=Counter)
    """The replicas' Fetch requests by api version."""
    undecoded: Counter[str] = field(default_factory=Counter)
    """The frames or connections passed without being understood, by reason."""
    refused: Counter[str] = field(default_factory=Counter)
    """Connections to the transparent listener that were not relayed, by reason."""
    unreachable: Unreachable = field(default_factory=Unreachable)


@dataclass(slots=True)
class Statistics:
    """The counters of a process, since it began."""

    leader: RoleStatistics = field(default_factory=RoleStatistics)
    follower: RoleStatistics = field(default_factory=RoleStatistics)
    log_dropped: Counter[Dropped] = field(default_factory=Counter)
    """Log lines dropped."""

    def of(self, role: Role) -> RoleStatistics:
        return self.leader if role is Role.LEADER else self.follower

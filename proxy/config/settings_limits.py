"""The table [limits] of proxy.toml as values: what may be had of everything that could grow, and for how long.

Knows no file and no key's spelling; docs/configuration.md and docs/security.md say what lies beyond each.
Invariant: sizes are bytes, times are seconds.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

LEAST_STALL_SECONDS = 1.0


class StallAction(enum.StrEnum):
    EXIT = "exit"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class LimitSettings:
    max_request_bytes: int
    """The largest Fetch request that is decoded, in slices: some 30 000 partitions, of which a decision takes 2 to 4 µs
    each of the one thread (measured). A fetcher asks for hundreds, seldom thousands."""
    max_substitution_bytes: int
    """The largest Fetch response that is gathered to be altered."""
    connect_timeout_seconds: float
    drain_seconds: float
    max_connections: int = 10_000
    """In all; 0: as many as the limit of open files allows."""
    max_connections_per_source: int = 0
    """0: any number. Brokers behind one address translation come from one source."""
    max_held_bytes: int = 64 * 2**20
    """Of frames that have to be whole before anything is done with them, in all."""
    max_replicas: int = 200_000
    """Throttled replicas remembered, of each role."""
    max_replicas_per_connection: int = 20_000
    max_memory_bytes: int = 2**30
    """Resident; 0: never looked at."""
    frame_timeout_seconds: float = 30.0
    """For a request that has to be whole."""
    tls_handshake_seconds: float = 10.0
    """From the accept, or from when whom we dial accepted, to the end of the handshake."""
    max_tls_handshakes: int = 256
    """At once; each takes a millisecond or two of the one thread."""
    idle_timeout_seconds: float = 900.0
    """Longer than the 10 minutes of brokers' connections.max.idle.ms, so that it is the broker's to end."""
    stall_seconds: float = 5.0
    """A loop that has not turned for so long serves nobody."""
    stall_action: StallAction = StallAction.EXIT

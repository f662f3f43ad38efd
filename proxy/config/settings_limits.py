"""The table [limits] of proxy.toml: how much there may be of everything that could grow, and for how long.

Five limits depend on the host and the cluster, and are keys; the others are constants that tests alone change.

docs/configuration.md and docs/security.md say what lies beyond each.
Invariant: sizes are bytes, times are seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from .tables import FIXED, Bytes, Count, Key, Seconds

_CONSTANT = "it is a constant now, that fits every host: take it out"


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """Of ``[limits]``."""

    REMOVED: ClassVar[dict[str, str]] = dict.fromkeys(
        (
            "max_request_bytes", "max_substitution_bytes", "max_held_bytes", "max_replicas",
            "max_replicas_per_connection", "connect_timeout", "frame_timeout", "tls_handshake_timeout",
            "max_tls_handshakes", "stall", "stall_action",
        ),
        _CONSTANT,
    )  # fmt: skip

    max_request_bytes: Annotated[int, FIXED] = 2**20
    """The largest Fetch request that is decoded, in slices: some 30 000 partitions, of which a decision takes 2 to 4 µs
    each of the one thread (measured). A fetcher asks for hundreds, seldom thousands."""
    max_substitution_bytes: Annotated[int, FIXED] = 16 * 2**20
    """The largest Fetch response that is gathered to be altered."""
    connect_timeout_seconds: Annotated[float, FIXED] = 10.0
    drain_seconds: Annotated[Seconds, Key("drain")] = 10.0
    max_connections: Count = 10_000
    """In all; 0: as many as the limit of open files allows."""
    max_connections_per_source: Count = 0
    """0: any number. Brokers behind one address translation come from one source."""
    max_held_bytes: Annotated[int, FIXED] = 64 * 2**20
    """Of frames that have to be whole before anything is done with them, in all."""
    max_replicas: Annotated[int, FIXED] = 200_000
    """Throttled replicas remembered, of each role."""
    max_replicas_per_connection: Annotated[int, FIXED] = 20_000
    max_memory_bytes: Annotated[Bytes, Key("max_memory")] = 2**30
    """Resident; 0: never looked at."""
    frame_timeout_seconds: Annotated[float, FIXED] = 30.0
    """For a request that has to be whole."""
    tls_handshake_seconds: Annotated[float, FIXED] = 10.0
    """From the accept, or from when the dialled broker accepted, to the end of the handshake."""
    max_tls_handshakes: Annotated[int, FIXED] = 256
    """At once; each takes a millisecond or two of the one thread."""
    idle_timeout_seconds: Annotated[Seconds, Key("idle_timeout")] = 900.0
    """Longer than the 10 minutes of brokers' connections.max.idle.ms, so that it is the broker's to end."""

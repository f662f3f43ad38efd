"""The table [limits] of proxy.toml : what may be had of everything that could grow, and for how long.

docs/configuration.md and docs/security.md say what lies beyond each.
Invariant: sizes are bytes, times are seconds.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from ..quotas.units import shown
from .settings_values import format_duration
from .tables import AtLeastOne, Bytes, Count, Key, Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST_STALL_SECONDS = 1.0


class StallAction(enum.StrEnum):
    EXIT = "exit"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """The settings of ``[limits]``."""

    max_request_bytes: Bytes = 2**20
    """The largest Fetch request that is decoded, in slices: some 30 000 partitions, of which a decision takes 2 to 4 µs
    each of the one thread (measured). A fetcher asks for hundreds, seldom thousands."""
    max_substitution_bytes: Bytes = 16 * 2**20
    """The largest Fetch response that is gathered to be altered."""
    connect_timeout_seconds: Annotated[Seconds, Key("connect_timeout")] = 10.0
    drain_seconds: Annotated[Seconds, Key("drain")] = 10.0
    max_connections: Count = 10_000
    """In all; 0: as many as the limit of open files allows."""
    max_connections_per_source: Count = 0
    """0: any number. Brokers behind one address translation come from one source."""
    max_held_bytes: Bytes = 64 * 2**20
    """Of frames that have to be whole before anything is done with them, in all."""
    max_replicas: Count = 200_000
    """Throttled replicas remembered, of each role."""
    max_replicas_per_connection: Count = 20_000
    max_memory_bytes: Annotated[Bytes, Key("max_memory")] = 2**30
    """Resident; 0: never looked at."""
    frame_timeout_seconds: Annotated[Seconds, Key("frame_timeout")] = 30.0
    """For a request that has to be whole."""
    tls_handshake_seconds: Annotated[Seconds, Key("tls_handshake_timeout")] = 10.0
    """From the accept, or from when whom we dial accepted, to the end of the handshake."""
    max_tls_handshakes: AtLeastOne = 256
    """At once; each takes a millisecond or two of the one thread."""
    idle_timeout_seconds: Annotated[Seconds, Key("idle_timeout")] = 900.0
    """Longer than the 10 minutes of brokers' connections.max.idle.ms, so that it is the broker's to end."""
    stall_seconds: Annotated[Seconds, Key("stall")] = 5.0
    """A loop that has not turned for so long serves nobody."""
    stall_action: StallAction = StallAction.EXIT

    def validate(self) -> Iterator[tuple[str, str]]:
        """Return what does not fit, by key."""
        if self.stall_seconds < LEAST_STALL_SECONDS:
            found = shown(format_duration(self.stall_seconds))
            yield "stall", f"expected at least {LEAST_STALL_SECONDS:g}s, found {found}"

"""What a sidecar's /throttle says, as far as commands use it, and how it is asked.

Knows the page's keys, nothing of how it is shown. Invariant: a key that is new in /throttle does not break an
older command, one that is missing in an older sidecar's does not break a newer one.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - msgspec reads the annotations

import msgspec

from proxy.errors import UnreachableError

from ..asking import ask


class PartitionState(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    peer: str | None = None
    in_sync: bool = True
    lag_messages: int = 0
    rate_bytes_per_second: float = 0.0


class ConnectionState(msgspec.Struct, frozen=True):
    """A connection with a replica's fetches on it."""

    peer: str
    fetch_version: int | None = None
    """None: no fetch yet."""
    partitions: int = 0
    """Throttled ones."""
    behind: int = 0
    lag_messages: int = 0
    rate_bytes_per_second: float = 0.0
    eta_seconds: float | None = None


class PassingState(msgspec.Struct, frozen=True):
    """Bytes per second on their way to followers; `PassingRates` says what each is."""

    catching_up: float = 0.0
    in_sync: float = 0.0
    other: float = 0.0


class DoubtState(msgspec.Struct, frozen=True):
    """Why the quota may not do what was meant, and what to look at."""

    reason: str
    text: str


class RoleState(msgspec.Struct, frozen=True):
    quota_bytes_per_second: float | None
    """None: unlimited."""
    rate_bytes_per_second: float
    omitted_partitions_total: int = 0
    substituted_partitions_total: int = 0
    withheld_bytes_total: int = 0
    connections: int = 0
    held_requests: int = 0
    lag_messages: int = 0
    eta_seconds: float | None = None
    until: datetime | None = None
    undecoded: dict[str, int] = {}
    doubts: tuple[DoubtState, ...] = ()
    passing_bytes_per_second: PassingState | None = None
    """None: an older sidecar, which does not say."""
    connections_without_fetches: int = 0
    """Of clients, or of brokers whose fetches are not understood (TLS)."""
    served: bool = True
    links: tuple[ConnectionState, ...] = ()
    partitions: tuple[PartitionState, ...] = ()


class RoleChangeState(msgspec.Struct, frozen=True):
    quota_bytes_per_second: float | None
    replicas_change: bool = False


class ChangeState(msgspec.Struct, frozen=True):
    """What will hold next, by the clock alone."""

    at: datetime
    enforce: bool
    roles: dict[str, RoleChangeState]


class QuotasState(msgspec.Struct, frozen=True):
    hash: str
    source: str = "file"
    """Where they are from; an older sidecar does not say, and has no others."""
    last_reload_successful: bool = True
    last_error: str | None = None
    last_success_timestamp_seconds: float | None = None
    next_change: ChangeState | None = None

    @property
    def what_holds(self) -> str:
        """While the file is wrong."""
        if self.source == "none":
            return "NO QUOTA HOLDS, nothing is throttled, as none were kept from before the start"
        return "the last good one holds"


class JournalState(msgspec.Struct, frozen=True):
    lines_total: int = 0
    dropped_total: int = 0


class Page(msgspec.Struct, frozen=True):
    broker: int
    policy: str
    enforce: bool
    quotas: QuotasState
    roles: dict[str, RoleState]
    version: str | None = None
    journal: JournalState | None = None


def fetch(url: str) -> bytes:
    """The JSON of /throttle as it came, on one line. Raises UnreachableError."""
    return ask(url, "/throttle")


def decode(url: str, content: bytes) -> Page:
    """Raises UnreachableError for an answer that is not a sidecar's."""
    try:
        return msgspec.json.decode(content, type=Page)
    except msgspec.MsgspecError as error:
        raise UnreachableError(f"{url}: the answer is not a sidecar's: {error}") from error


def read(url: str) -> Page:
    """Raises UnreachableError."""
    return decode(url, fetch(url))

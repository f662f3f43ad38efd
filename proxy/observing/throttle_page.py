"""Declares the document of `/throttle`, once for the sidecar that writes it and the commands that read it.

Every number is bytes, seconds or messages, and says which in its key; unlimited is null. Invariant: a key that is new
does not break an older command, and one that an older sidecar does not write has a default, so that a newer command
reads its page as well.
"""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - msgspec reads the annotations

import msgspec

from ..diagnostics.conditions import Condition  # noqa: TC001 - msgspec reads the annotations
from ..diagnostics.replica_stats import LinkStats, PartitionStats  # noqa: TC001 - msgspec reads the annotations


class PassingState(msgspec.Struct, frozen=True):
    """Bytes per second on their way to followers, by the parts of `RoleRates`."""

    catching_up: float = 0.0
    in_sync: float = 0.0
    other: float = 0.0


class ThrottledBytes(msgspec.Struct, frozen=True):
    """Bytes of throttled replicas that went on to followers since the start."""

    in_sync: int = 0
    catching_up: int = 0


class RateState(msgspec.Struct, frozen=True):
    """A rate that sets itself: its source in the file, and the choice."""

    source: str
    """The goal of the rate and its bounds, in words."""
    least_bytes_per_second: float
    most_bytes_per_second: float
    held_by: str = ""
    """The bound or signal that keeps the rate from being another; empty before the first look."""
    reason: str = ""
    """`held_by` in words."""
    finish_by: datetime | None = None
    needed_bytes_per_second: float | None = None
    """The rate that meets the deadline; None: no deadline, or unknown."""
    late: bool = False


class BoundState(msgspec.Struct, frozen=True):
    """A rate inside the role's: for the traffic with a broker or a rack, or for a topic."""

    kind: str
    """The kind: "peer", "rack" or "topic"."""
    name: str
    """A broker's id; a rack; a topic's name or glob."""
    quota_bytes_per_second: float
    rate_bytes_per_second: float
    throttled_bytes_total: int


class ClientState(msgspec.Struct, frozen=True):
    """A quota of clients, and their use of it."""

    kind: str
    """The kind: "producer" or "consumer"."""
    entity: str
    """A client id, or a glob whose clients share the quota; ``default``: each client id without a section;
    ``users.alice``, ``users.alice.clients.etl``: the place of a user."""
    quota_bytes_per_second: float | None
    """The quota; None: exempt."""
    rate_bytes_per_second: float | None = None
    """The measured rate; None: no such client has connected."""
    free_bytes_per_second: float | None = None
    """The rate of reads at the tail, which do not count (``catch_up_only``); None: all bytes count."""
    connections: int = 0
    """The connections that belong to it now."""
    muted_connections: int = 0
    """The number of these that are muted, or have a request that waits until the quota allows it."""
    muted_for_seconds: float | None = None
    """The time for which the first of them has been; None: none is."""
    muted_seconds: float = 0.0
    """The time for which the last of them will be, at most."""
    others: bool = False
    """True for all clients without a place of their own, which share the quota: there are too many names."""


class RoleState(msgspec.Struct, frozen=True):
    quota_bytes_per_second: float | None
    """The quota; None: unlimited. Of a rate that sets itself the last choice."""
    rate_bytes_per_second: float
    throttled_bytes_total: ThrottledBytes = ThrottledBytes()
    omitted_partitions_total: int = 0
    substituted_partitions_total: int = 0
    withheld_bytes_total: int = 0
    local_answers_total: int = 0
    connections: int = 0
    held_requests: int = 0
    lag_messages: int = 0
    lag_bytes: float | None = None
    """The bytes that throttled replicas are behind; None: unknown, or an older sidecar, which does not say."""
    rate: RateState | None = None
    """The rate that sets itself; None: the rate is fixed."""
    eta_seconds: float | None = None
    until: datetime | None = None
    undecoded: dict[str, int] = {}
    """The frames or connections that passed unthrottled because they were not understood, by reason."""
    fetch_versions: dict[str, int] = {}
    """The replicas' Fetch requests by api version."""
    passing_bytes_per_second: PassingState | None = None
    """The rates by kind of traffic; None: an older sidecar, which does not say."""
    connections_without_fetches: int = 0
    """Connections of clients, or of brokers whose fetches are not understood because they are encrypted."""
    behind_in_need: dict[str, int] = {}
    """Replicas that are behind, of partitions that lack replicas in sync, by what they lack: "under-min-isr",
    "under-replicated"."""
    bounds: tuple[BoundState, ...] = ()
    """The rates inside the role's; empty: there are none, or an older sidecar."""
    lowered_seconds: float | None = None
    """The time since the quota was lowered last, or was enforced again, or the sidecar began; None: an older sidecar,
    which does not say."""
    served: bool = True
    links: tuple[LinkStats, ...] = ()
    partitions: tuple[PartitionStats, ...] = ()


class BoundChangeState(msgspec.Struct, frozen=True):
    """A rate inside a role's that changes; `kind` and `name` are those of `BoundState`."""

    kind: str
    name: str
    before: str
    after: str
    """The bound in words, as a number cannot say that a topic comes to share the rate of a glob."""


class RoleChangeState(msgspec.Struct, frozen=True):
    quota_bytes_per_second: float | None
    """The quota; of a rate that sets itself the most that it may be."""
    replicas_change: bool = False
    rate_source: str | None = None
    """The goal of a rate that sets itself, in words; None: the rate is fixed, or an older sidecar."""
    bounds: tuple[BoundChangeState, ...] | None = None
    """The rates inside it that change; None: an older sidecar, which does not say."""


class ChangeState(msgspec.Struct, frozen=True):
    """The next change that the clock alone will make."""

    at: datetime
    enforce: bool
    roles: dict[str, RoleChangeState]


class OverriddenState(msgspec.Struct, frozen=True):
    """A key that an override sets; values as people read them."""

    place: str
    key: str
    value: str
    hides: str
    layer: str
    """The layer whose value is hidden: a section of the file, another override, or ``default``."""


class OverrideState(msgspec.Struct, frozen=True):
    """An override in force, with those of its changes that are effective."""

    id: str
    by: str
    label: str | None = None
    until: datetime | None = None
    effective: tuple[OverriddenState, ...] = ()


class QuotasState(msgspec.Struct, frozen=True):
    hash: str
    source: str = "file"
    """The source of the quotas; an older sidecar does not say, and knows the file alone."""
    last_reload_successful: bool = True
    last_error: str | None = None
    last_success_timestamp_seconds: float | None = None
    """The POSIX time at which the file was last read and found good; for the source "last_good" since when the quotas
    have been kept. None: no quotas are in force, or an older sidecar, which may also say 0 then."""
    next_change: ChangeState | None = None
    overrides: tuple[OverrideState, ...] = ()
    """The overrides in force, in the order in which they were made."""

    @property
    def what_holds(self) -> str:
        """Say which quotas are in force while the file is wrong."""
        if self.source == "none":
            return "NO QUOTA HOLDS, nothing is throttled, as none were kept from before the start"
        return "the last good one holds"


class JournalState(msgspec.Struct, frozen=True):
    lines_total: int = 0
    dropped_total: int = 0


class Page(msgspec.Struct, frozen=True):
    """The whole document; `roles` by "leader" and "follower"."""

    broker: int
    policy: str
    enforce: bool
    quotas: QuotasState
    roles: dict[str, RoleState]
    version: str | None = None
    journal: JournalState | None = None
    clients: tuple[ClientState, ...] = ()
    """The client quotas; empty: none, or an older sidecar."""
    client_settings: dict[str, dict[str, str]] = {}
    """The keys of clients that are no rates: their values, as people read them, by section."""
    listener_bytes_per_second: float | None = None
    """The rate of clients and followers together; None: unlimited, or an older sidecar."""
    conditions: tuple[Condition, ...] | None = None
    """The conditions that hold, the worst first; None: an older sidecar, which does not say."""

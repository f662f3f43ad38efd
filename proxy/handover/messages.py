"""The messages between the two processes of a hand-over, and the state of a connection at rest.

Times are ages in seconds, since the clocks of two processes differ. Values only. Invariant: what is not written here is
learnt anew by the new process; nothing here is ever guessed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..clients.entity import ClientDebt  # noqa: TC001 - msgspec reads it
from ..quotas.override import Override  # noqa: TC001 - msgspec reads it
from ..throttle.replica import ReplicaState  # noqa: TC001 - msgspec reads it

SCHEMA = 2
"""The version of these messages. If the two processes have different ones, the new process is refused with the reason,
and the old process goes on."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The new process asks for everything."""

    schema: int
    broker: int


class HandOverRefusal(msgspec.Struct, frozen=True, tag="refusal"):
    reason: str


class Listening(msgspec.Struct, frozen=True):
    """A listening socket, which comes beside the message in the same order."""

    key: str
    """The setting that its address is from."""
    host: str
    port: int


class Offer(msgspec.Struct, frozen=True, tag="offer"):
    """The old process's offer. `fetch_versions`: those that followers have used."""

    listening: list[Listening]
    fetch_versions: list[int]


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The new process could serve from here on."""


class Alive(msgspec.Struct, frozen=True, tag="alive"):
    """The loop of the new process turns."""


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """The old process accepts nothing more: the new process does, and gets the connections.

    `available_bytes`: bytes that the budget of each role and that of the listener have left now, so that both processes
    together keep to the quota; None: there is no such budget.
    """

    available_bytes: dict[str, float | None]
    client_debts: list[ClientDebt] = []
    """The clients that are over quota now. An older process does not say."""
    unstored: list[Override] | None = None
    """The overrides in force, if the disk has not taken them; None: it has, or the other process is older."""


class Confirmed(msgspec.Struct, frozen=True, tag="confirmed"):
    """The new process has proven itself: the old process takes nothing back from here on."""


class SessionMessage(msgspec.Struct, frozen=True, array_like=True):
    """The state of a `protocol.session.state.FetchSession`; partitions are (topic, partition)."""

    session_id: int
    version: int
    follower_epoch: int
    leader_epoch: int
    partitions: list[tuple[Any, int, bytes, int]]
    """Each partition with its entry as the follower wrote it last, and with the entry's partition_max_bytes."""
    absent: list[tuple[Any, int]]
    lowered: list[tuple[Any, int, int]]
    unsent: list[tuple[Any, int]]
    unforgotten: list[tuple[Any, int]]


class LinkMessage(msgspec.Struct, frozen=True):
    peer: str
    replica_id: int | None
    fetch_version: int | None
    has_begun: bool
    """True if a full Fetch has passed, so later ones are in a session of this connection."""
    is_live: bool
    replicas: list[ReplicaState]
    session: SessionMessage | None
    passes: bool | None = None
    """The connection's session began with a request that passed unseen. None: the other process is older, and does not
    say."""
    proven_seconds: int = 0
    """The number of seconds in which it has brought records (`proxy.throttle.peer_latencies.LinkTimings`)."""


class ClientMessage(msgspec.Struct, frozen=True, array_like=True):
    """The state of client quotas on a connection."""

    muted_seconds: float
    session_id: int
    answered: int
    """The number by which the client's epoch in this fetch session is ahead of the broker's."""
    user: str | None = None
    """The user that the broker has accepted; None: it is not known, or the other process is older."""
    mechanism: str = ""
    """The SASL mechanism of the exchange that may be going on."""
    named: str | None = None
    """The user that the client has named in it."""
    catch_up_session: bool = False
    """True if the client's fetch session lacks partitions that were behind (``catch_up_only``): the new process has to
    refuse it."""
    authenticated: bool = False
    """True if the broker has accepted the client's authentication by SASL. An older process does not say."""
    waited_seconds: float = 0.0
    """The time for which the client's next request has waited, which counts towards `max_throttle`."""


class ConnectionState(msgspec.Struct, frozen=True, tag="connection"):
    """Two sockets come beside it: the follower's, then the leader's. In place of a TLS socket, which it keeps, version
    0.1.0 gives one end of a pair."""

    role: str
    upstream: tuple[str, int]
    speaks: str
    """The client's protocol, a `protocol.wire.correlation.State`."""
    is_opaque: bool
    has_begun: bool
    """True if the first bytes have been looked at."""
    request_bytes: bytes
    """Bytes that were read from the follower and not dealt with yet."""
    frames: int
    replica_fetches: int
    link: LinkMessage
    source: str | None = None
    """The follower's address if its socket is one end of a pair, which has none; None: the socket has the address."""
    clients: ClientMessage | None = None
    """The client quotas' part; None: the connection is of the egress, or the other process is older."""
    opaque_reason: str = "framing"
    """The reason why frames cannot be told apart, if they cannot (`Undecoded`). An older process does not send it."""


Message = Hello | HandOverRefusal | Offer | Ready | Alive | Begin | ConnectionState | Confirmed

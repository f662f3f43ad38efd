"""The tables [ingress] and [egress] of proxy.toml, KIP-73's two roles, [http] and [limits].

Five limits depend on the host and the cluster, and are keys; the others are constants that tests alone change.
docs/configuration.md and docs/security.md name the limits beyond each. Invariants: of a peer that is dialled it is
known by which name its certificate is to be verified; sizes are bytes, times are seconds; paths are resolved against
the directory of proxy.toml.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ..quotas.units import shown
from .settings_values import Address, parse_distinguished_name, parse_host_name, parse_server_name
from .tables import FIXED, READ_APART, BrokerId, Bytes, Count, Key, Kind, Seconds, Target
from .tls_settings import PLAINTEXT, LegSettings, RoleTls

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOPBACK = Address("127.0.0.1", 9404)


class EgressMode(enum.StrEnum):
    """The way in which connections of the broker beside us to other brokers reach this sidecar."""

    PEERS = "peers"
    TRANSPARENT = "transparent"


def _of_host(address: Address) -> str:
    """Return the host as certificates have it: a dot at the end is for name lookups alone (RFC 6066, 3)."""
    return address.host.removesuffix(".")


def _leads_back(listen: Address, upstream: Address) -> bool:
    """Return True if a sidecar that listens at `listen` and dials `upstream` dials itself, as far as that can be known
    without looking names up; of names `network.connection_setup` knows it."""
    if listen.port != upstream.port:
        return False
    if upstream.host == "localhost":
        return listen.is_any or listen.host in ("localhost", "127.0.0.1", "::1")
    is_loopback = upstream.host.startswith("127.") or upstream.host == "::1"
    return listen == upstream or (is_loopback and listen.covers(upstream))


@dataclass(frozen=True, slots=True)
class IngressSettings:
    """The leader role: other brokers dial `listen`, the broker beside us is at `upstream`."""

    listen: Address
    upstream: Target
    tls: Annotated[RoleTls, READ_APART] = PLAINTEXT

    @property
    def server_name(self) -> str:
        """The name that the certificate of the broker beside us must have."""
        return self.tls.server_name or _of_host(self.upstream)

    def validate(self) -> Iterator[tuple[str, str]]:
        """Return the problems, by key."""
        if _leads_back(self.listen, self.upstream):
            yield "upstream", f"expected the broker, found ingress.listen itself ({self.upstream})"


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """One remote leader: the broker beside us dials `listen` (None: whom it means, and is redirected), the remote one
    is at `upstream`."""

    broker: BrokerId
    listen: Address | None
    upstream: Target
    name: Annotated[str, Key("server_name"), Kind(parse_server_name)] = ""

    @property
    def server_name(self) -> str:
        """The name by which brokers know this leader. Its certificate has to have it, and so does the certificate that
        the sidecar shows in its place."""
        return self.name or _of_host(self.upstream)

    def validate(self) -> Iterator[tuple[str, str]]:
        """Return the problems, by key."""
        if self.listen is not None and _leads_back(self.listen, self.upstream):
            yield "upstream", f"expected the peer, found our own listen, {self.upstream}"


@dataclass(frozen=True, slots=True)
class EgressSettings:
    """The follower role. `listen`: where redirected connections arrive, in the transparent mode alone; its `peers`
    only say which broker is where."""

    mode: EgressMode = EgressMode.PEERS
    peers: tuple[PeerSettings, ...] = ()
    listen: Address | None = None
    tls: Annotated[RoleTls, READ_APART] = PLAINTEXT

    def validate(self) -> Iterator[tuple[str, str]]:
        """Return the problems, by key."""
        is_transparent = self.mode is EgressMode.TRANSPARENT
        if is_transparent and self.listen is None:
            yield "listen", "missing"
        elif not is_transparent and self.listen is not None:
            yield "listen", f"expected none beside egress.mode = {shown(self.mode.value)}, found {self.listen}"
        elif not is_transparent and not self.peers:
            yield "peers", "expected at least one [[egress.peers]], found none"
        for number, peer in enumerate(self.peers):
            key = f"peers[{number}]"
            if is_transparent and peer.listen is not None:
                yield (
                    f"{key}.listen",
                    f"expected none beside egress.mode = {shown(self.mode.value)}, found {peer.listen}",
                )
            elif not is_transparent and peer.listen is None:
                yield f"{key}.listen", "missing"
            if any(peer.broker == earlier.broker for earlier in self.peers[:number]):
                yield f"{key}.broker", f"{peer.broker} is listed twice"


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """The settings of ``[http]``: where pages are served, and to whom."""

    listen: Address = _LOOPBACK
    allowed_hosts: tuple[Annotated[str, Kind(parse_host_name)], ...] = ()
    """Names it may be asked by, beside the machine's own; ``*.example.com`` is all below it, ``*`` any."""
    token_file: Path | None = None
    """The file of the token for changes; None: no token permits reading or writing quotas."""
    writers: tuple[Annotated[str, Kind(parse_distinguished_name)], ...] = ()
    """Distinguished names in client certificates whose owners may read and replace quotas, spelt canonically."""
    partition_rates: bool = False
    """True if PartitionBytesInRate is exposed: a series per throttled partition."""
    require_token: bool = False
    """True if every page but the probes requires the token."""
    reload: bool = True
    """True if POST /-/reload is served."""
    tls: Annotated[LegSettings | None, READ_APART] = None

    def validate(self) -> Iterator[tuple[str, str]]:
        """Return the problems, by key."""
        if self.require_token and self.token_file is None:
            yield "token_file", "missing, and http.require_token wants one"


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """The table ``[limits]``."""

    max_request_bytes: Annotated[int, FIXED] = 2**20
    """The largest Fetch request that is decoded, in slices: some 30 000 partitions, of which a decision takes 2 to 4 µs
    each of the one thread (measured). A fetcher asks for hundreds, seldom thousands."""
    max_substitution_bytes: Annotated[int, FIXED] = 16 * 2**20
    """The largest Fetch response that is gathered to be altered."""
    connect_timeout_seconds: Annotated[float, FIXED] = 10.0
    drain_seconds: Annotated[Seconds, Key("drain")] = 10.0
    max_connections: Count = 10_000
    """The most connections in all; 0: as many as the limit of open files allows."""
    max_connections_per_source: Count = 0
    """The most connections of a source address; 0: any number. Brokers behind one address translation share a
    source."""
    max_held_bytes: Annotated[int, FIXED] = 64 * 2**20
    """The most bytes, in all, of frames that have to be whole before anything is done with them."""
    max_replicas: Annotated[int, FIXED] = 200_000
    """The most throttled replicas remembered, per role."""
    max_replicas_per_connection: Annotated[int, FIXED] = 20_000
    max_memory_bytes: Annotated[Bytes, Key("max_memory")] = 2**30
    """The limit of resident memory, in bytes; 0: never checked."""
    frame_timeout_seconds: Annotated[float, FIXED] = 30.0
    """The longest wait for the rest of a request that has to be whole."""
    tls_handshake_seconds: Annotated[float, FIXED] = 10.0
    """The longest time from the accept, or from when the dialled broker accepted, to the end of the handshake."""
    max_tls_handshakes: Annotated[int, FIXED] = 256
    """The most handshakes at once; each takes a millisecond or two of the one thread."""
    idle_timeout_seconds: Annotated[Seconds, Key("idle_timeout")] = 900.0
    """How long a connection may be idle: longer than the 10 minutes of brokers' connections.max.idle.ms, so that the
    broker closes it first."""

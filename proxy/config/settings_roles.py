"""The tables [ingress] and [egress] of proxy.toml: KIP-73's two roles, who dials whom, and with which keys.

Invariant: of whoever is dialled it is known by which name its certificate is to be verified.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from ..quotas.units import shown
from .settings_values import Address, parse_server_name
from .tables import READ_APART, BrokerId, Key, Kind, Target
from .tls_settings import PLAINTEXT, RoleTls

if TYPE_CHECKING:
    from collections.abc import Iterator


class EgressMode(enum.StrEnum):
    """The way in which connections of the broker beside us to other brokers reach this sidecar."""

    PEERS = "peers"
    TRANSPARENT = "transparent"


def _of_host(address: Address) -> str:
    """Return the host as certificates have it: a dot at the end is for name lookups alone (RFC 6066, 3)."""
    return address.host.removesuffix(".")


def _leads_back(listen: Address, upstream: Address) -> bool:
    """Return True if whoever listens at `listen` and dials `upstream` dials itself, as far as that can be known without
    looking names up; of names `network.loop_guard` knows it."""
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
        """Return what does not fit, by key."""
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
        """Return what does not fit, by key."""
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
        """Return what does not fit, by key."""
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

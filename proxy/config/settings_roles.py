"""The tables [ingress] and [egress] of proxy.toml as values: KIP-73's two roles, who dials whom, and with which keys.

Knows no file and no key's spelling. Invariant: of whoever is dialled it is known by which name its certificate is to be
verified.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .tls_settings import PLAINTEXT

if TYPE_CHECKING:
    from .settings_values import Address
    from .tls_settings import RoleTls


class EgressMode(enum.StrEnum):
    """How the broker beside us comes to dial this sidecar when it means another broker."""

    PEERS = "peers"
    TRANSPARENT = "transparent"


@dataclass(frozen=True, slots=True)
class IngressSettings:
    """The leader role: other brokers dial `listen`, the broker beside us is at `upstream`."""

    listen: Address
    upstream: Address
    tls: RoleTls = PLAINTEXT

    @property
    def server_name(self) -> str:
        """That the certificate of the broker beside us must have."""
        return self.tls.server_name or self.upstream.host


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """One remote leader: the broker beside us dials `listen` (None: whom it means, and is redirected), the remote one
    is at `upstream`."""

    broker: int
    listen: Address | None
    upstream: Address
    name: str = ""
    """`server_name`, if it was given."""

    @property
    def server_name(self) -> str:
        """The host name by which brokers know it, which its certificate has, and the one it is shown instead."""
        return self.name or self.upstream.host


@dataclass(frozen=True, slots=True)
class EgressSettings:
    """The follower role. `listen`: where redirected connections arrive, in the transparent mode alone; its `peers`
    only say which broker is where."""

    mode: EgressMode
    peers: tuple[PeerSettings, ...]
    listen: Address | None = None
    tls: RoleTls = PLAINTEXT

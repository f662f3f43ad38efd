"""Which addresses lead to the sidecar, by its proxy.toml, and where they would lead without it.

Names are resolved once, here. Invariant: both ends of a detour have the same address family, and either both speak TLS
or neither does.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, NamedTuple

from proxy.config.settings import Address, EgressMode
from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from proxy.config.settings import Settings
    from proxy.config.settings_roles import EgressSettings, IngressSettings


class Detour(NamedTuple):
    """A connection to `dialled` (an IP address; None: any address of this host) is led to `real` instead."""

    dialled: str | None
    port: int
    real: Address
    leaves_host: bool
    """It is dialled on this host and ends on another one, so its packets need this host's address as their source."""

    @property
    def family(self) -> int:
        return ipaddress.ip_address(self.real.host).version


class Ways(NamedTuple):
    """`redirected_to`: the sidecar's own port, where redirect.sh leads what the broker dials at `ports`."""

    detours: tuple[Detour, ...]
    redirected_to: int | None = None
    ports: str = "9092"
    sidecar_uid: int = 65532


def ways_of(settings: Settings, *, ports: str, sidecar_uid: int) -> Ways:
    """Blocking: names are looked up. Raises ConfigurationError."""
    path, found, redirected_to = str(settings.path), [], None
    if settings.egress is not None:
        _assert_same_keys(path, "egress", settings.egress)
        if settings.egress.mode is EgressMode.TRANSPARENT and settings.egress.listen is not None:
            redirected_to = settings.egress.listen.port
        for index, peer in enumerate(settings.egress.peers):
            if peer.listen is not None:
                at = f"{path}: egress.peers[{index}]"
                found.append(_detour(at, peer.listen, peer.upstream, leaves_host=True))
    if settings.ingress is not None:
        _assert_same_keys(path, "ingress", settings.ingress)
        listen, upstream = settings.ingress.listen, settings.ingress.upstream
        found.append(_detour(f"{path}: ingress", listen, upstream, leaves_host=False))
    if not found and redirected_to is None:
        raise ConfigurationError(
            f"{path}: expected [ingress] or [egress], found neither: nothing leads to this sidecar"
        )
    return Ways(tuple(found), redirected_to, ports, sidecar_uid)


def _assert_same_keys(path: str, table: str, role: EgressSettings | IngressSettings) -> None:
    if (role.tls.listen is None) != (role.tls.upstream is None):
        raise ConfigurationError(
            f"{path}: {table}.tls: expected keys on both legs or on neither, found them on one: without the sidecar "
            "the two ends do not understand each other"
        )


def _detour(at: str, listen: Address, upstream: Address, *, leaves_host: bool) -> Detour:
    real = _resolved(f"{at}.upstream", upstream)
    if listen.is_any:
        return Detour(None, listen.port, real, leaves_host)
    dialled = _resolved(f"{at}.listen", listen)
    found = Detour(dialled.host, listen.port, real, leaves_host)
    if dialled == real:
        raise ConfigurationError(
            f"{at}.upstream: expected another address than that of its listen, found {real}: without the sidecar "
            "nobody is there"
        )
    if ipaddress.ip_address(dialled.host).version != found.family:
        raise ConfigurationError(f"{at}: expected listen and upstream of one family, found {dialled} and {real}")
    return found


def _resolved(at: str, address: Address) -> Address:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: two dots in a row, a label too long
        raise ConfigurationError(f"{at}: expected a host that can be found, found {address}: {error}") from error
    return Address(str(found[0][4][0]), address.port)

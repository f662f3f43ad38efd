"""Finds the addresses that lead to the sidecar, by its proxy.toml, and where they lead without it.

Names are resolved once, here. Invariants: both ends of a detour have the same address family, and either both speak TLS
or neither does. Ways that no setting of the kernel lets through are refused.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, NamedTuple

from proxy.config.settings import Address, EgressMode
from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from proxy.config.settings import Settings
    from proxy.config.settings_tables import EgressSettings, IngressSettings


class Detour(NamedTuple):
    """A connection to `dialled` (an IP address; None: any address of this host) is led to `real` instead."""

    dialled: str | None
    port: int
    real: Address
    leaves_host: bool
    """True if it is dialled on this host and ends on another, so that its packets need this host's address as their
    source."""

    @property
    def family(self) -> int:
        return _version(self.real.host)

    @property
    def crosses_loopback(self) -> bool:
        """True if packets pass between a loopback address and another host. The kernel drops them on IPv4 unless
        route_localnet is set, and on IPv6 always."""
        if self.leaves_host:
            return not _is_loopback(self.real.host) and (self.dialled is None or _is_loopback(self.dialled))
        return _is_loopback(self.real.host) and (self.dialled is None or not _is_loopback(self.dialled))


class Ways(NamedTuple):
    """`broker`: beside whose sidecar the guard stands. `redirected_to`: the sidecar's own port, where redirect.sh leads
    what the broker dials at `ports`; `leaders`: those that it may dial so, as far as proxy.toml names them."""

    broker: int
    detours: tuple[Detour, ...]
    redirected_to: int | None = None
    leaders: tuple[Address, ...] = ()
    ports: str = "9092"
    sidecar_uid: int = 65532

    @property
    def listeners(self) -> tuple[tuple[str | None, int], ...]:
        """The address (None: any) and port of each listener of the sidecar."""
        redirected = () if self.redirected_to is None else ((None, self.redirected_to),)
        return (*((each.dialled, each.port) for each in self.detours), *redirected)

    def need_route_localnet(self, family: int) -> bool:
        return family == 4 and any(each.family == 4 and each.crosses_loopback for each in self.detours)


def ways_of(settings: Settings, *, ports: str, sidecar_uid: int) -> Ways:
    """Return the ways of a sidecar. Blocking: names are looked up. Raises ConfigurationError."""
    path, found = str(settings.path), []
    redirected_to, leaders = None, []
    if settings.egress is not None:
        _assert_same_keys(path, "egress", settings.egress)
        if settings.egress.mode is EgressMode.TRANSPARENT and settings.egress.listen is not None:
            redirected_to = settings.egress.listen.port
        for index, peer in enumerate(settings.egress.peers):
            at = f"{path}: egress.peers[{index}]"
            if peer.listen is not None:
                found.append(_detour(at, peer.listen, peer.upstream, leaves_host=True))
            elif redirected_to is not None:
                leaders.append(_resolved(f"{at}.upstream", peer.upstream))
    if settings.ingress is not None:
        _assert_same_keys(path, "ingress", settings.ingress)
        listen, upstream = settings.ingress.listen, settings.ingress.upstream
        found.append(_detour(f"{path}: ingress", listen, upstream, leaves_host=False))
        _assert_here(f"{path}: ingress.upstream", found[-1].real)
    if not found and redirected_to is None:
        raise ConfigurationError(
            f"{path}: expected [ingress] or [egress], found neither: nothing leads to this sidecar"
        )
    return Ways(settings.broker.id, tuple(found), redirected_to, tuple(leaders), ports, sidecar_uid)


def _assert_same_keys(path: str, table: str, role: EgressSettings | IngressSettings) -> None:
    if (role.tls.listen is None) != (role.tls.upstream is None):
        raise ConfigurationError(
            f"{path}: {table}.tls: expected keys on both legs or on neither, found them on one: without the sidecar "
            "one end would speak TLS and the other plaintext"
        )


def _assert_here(at: str, address: Address) -> None:
    """Refuse an address of another host: a peer led there would be answered by an address that it did not dial."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as bound:
        try:
            bound.bind((address.host, 0))
        except OSError as error:
            raise ConfigurationError(
                f"{at}: expected an address of this host, found {address}: without the sidecar followers cannot be "
                "led to another host"
            ) from error


def _detour(at: str, listen: Address, upstream: Address, *, leaves_host: bool) -> Detour:
    dialled = listen if listen.is_any else _resolved(f"{at}.listen", listen)
    real = _resolved(f"{at}.upstream", upstream, _version(dialled.host))
    if dialled == real:
        raise ConfigurationError(
            f"{at}.upstream: expected another address than that of its listen, found {real}: without the sidecar "
            "nothing listens there"
        )
    if _version(dialled.host) != _version(real.host):
        raise ConfigurationError(f"{at}: expected listen and upstream of one family, found {dialled} and {real}")
    found = Detour(None if listen.is_any else dialled.host, listen.port, real, leaves_host)
    if found.family == 6 and found.crosses_loopback and not (found.leaves_host and found.dialled is None):
        raise ConfigurationError(
            f"{at}: expected no loopback address where the other end may be another host, found {dialled} and {real}: "
            "without the sidecar the kernel drops such packets of IPv6; use an address of this host's own"
        )
    return found


def _resolved(at: str, address: Address, version: int | None = None) -> Address:
    """Return the address of a name, of that family if there is such an address."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: two dots in a row, a label too long
        raise ConfigurationError(f"{at}: expected a host that can be found, found {address}: {error}") from error
    hosts = [str(each[4][0]) for each in found]
    return Address(next((host for host in hosts if _version(host) == version), hosts[0]), address.port)


def _version(host: str) -> int:
    return ipaddress.ip_address(host).version


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host).is_loopback

"""Every address that proxy.toml has listened on: which there are, and their sockets, bound here or taken over.

Knows settings and sockets, not their use. Invariant: an address that cannot be listened on is a
ConfigurationError that names its setting, and leaves nothing open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..config.settings import Address
from ..control.control_socket import open_control
from ..control.directory import control_path
from ..errors import ConfigurationError
from ..http.server import HttpServer
from ..network.connection_setup import Route
from ..network.listening import CannotListenError, open_listeners
from ..roles import Role

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from pathlib import Path

    import trio

    from ..config.settings import Settings
    from ..handover.new_process import Inherited
    from ..http.request_checks import HttpStatistics
    from ..logs.log import Log

HTTP = "http.listen"
CONTROL = "control.directory"


def routes(settings: Settings) -> list[Route]:
    """Return every listener that `settings` ask for."""
    found = []
    if settings.ingress is not None:
        ingress = settings.ingress
        name = ingress.server_name
        found.append(Route(Role.LEADER, ingress.listen, ingress.upstream, None, "ingress.listen", name))
    if settings.egress is not None:
        if settings.egress.listen is not None:
            found.append(Route(Role.FOLLOWER, settings.egress.listen, None, None, "egress.listen"))
        for index, peer in enumerate(settings.egress.peers):
            if peer.listen is not None:
                key = f"egress.peers[{index}].listen"
                name = peer.server_name
                found.append(Route(Role.FOLLOWER, peer.listen, peer.upstream, str(peer.broker), key, name))
    return found


async def listen(found: Sequence[Route], settings: Settings, inherited: Inherited | None) -> list[trio.SocketListener]:
    try:
        dual_stack = frozenset(route.listen for route in found if route.upstream is None)
        open_already = [taken(inherited, route.key, route.listen) for route in found]
        return await open_listeners(
            [route.listen for route in found],
            dual_stack=dual_stack,
            encrypted=frozenset(route.listen for route in found if _is_encrypted(settings, route.role)),
            taken=open_already,
        )
    except CannotListenError as error:
        raise ConfigurationError(f"{settings.path}: {found[error.index].key}: {error}") from error


def _is_encrypted(settings: Settings, role: Role) -> bool:
    table = settings.ingress if role is Role.LEADER else settings.egress
    return table is not None and table.tls is not None and table.tls.listen is not None


def taken(inherited: Inherited | None, key: str, address: Address) -> socket.socket | None:
    """Return the socket of the previous process that listens there."""
    return None if inherited is None else inherited.take_listener(key, address)


def bound_to(listener: trio.SocketListener) -> Address:
    return Address(*listener.socket.getsockname()[:2])


class PageServers(NamedTuple):
    """The servers of the public pages and of control.sock."""

    public: HttpServer
    control: HttpServer | None

    @classmethod
    def bind(
        cls,
        settings: Settings,
        *,
        statistics: HttpStatistics,
        inherited: Inherited | None,
        log: Log,
    ) -> PageServers:
        """Bind the pages. Raises ConfigurationError if an address or the directory of control.sock cannot be had."""
        already = taken(inherited, HTTP, settings.http.listen)
        public = HttpServer.bind(settings.http.listen, log=log, statistics=statistics, listener=already)
        directory, control = settings.control.directory, None
        try:
            if directory is not None:
                already = taken(inherited, CONTROL, _address(directory))
                control = open_control(directory, log=log, inherited=already)
        except BaseException:
            public.close()
            raise
        return cls(public, control)

    def listening(self, settings: Settings) -> dict[str, tuple[Address, socket.socket]]:
        """Return each listening socket by its setting, with the configured address, for a hand-over."""
        found = {HTTP: (settings.http.listen, self.public.listener)}
        if self.control is not None and settings.control.directory is not None:
            found[CONTROL] = (_address(settings.control.directory), self.control.listener)
        return found

    def close(self) -> None:
        """Accept no request any more."""
        self.public.close()
        if self.control is not None:
            self.control.close()


def _address(directory: Path) -> Address:
    """Return the address of control.sock in a hand-over: its path, with no port."""
    return Address(str(control_path(directory)), 0)

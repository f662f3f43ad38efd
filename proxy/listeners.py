"""Every address that proxy.toml has listened on: which there are, and their sockets, bound here or taken over.

Knows settings and sockets, nothing of what is served. Invariant: an address that cannot be listened on is a
ConfigurationError that names its setting, and leaves nothing open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .config.settings import Address
from .errors import ConfigurationError
from .network.listening import CannotListenError, open_listeners
from .network.reception import Route
from .roles import Role

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    import trio

    from .config.settings import Settings
    from .handover.taking import Inheritance
    from .process.activation import PassedSockets

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


async def listen(
    found: Sequence[Route], settings: Settings, inherited: Inheritance | None, passed: PassedSockets
) -> list[trio.SocketListener]:
    try:
        dual_stack = frozenset(route.listen for route in found if route.upstream is None)
        open_already = [taken(inherited, passed, route.key, route.listen) for route in found]
        return await open_listeners([route.listen for route in found], dual_stack=dual_stack, taken=open_already)
    except CannotListenError as error:
        raise ConfigurationError(f"{settings.path}: {found[error.index].key}: {error}") from error


def taken(inherited: Inheritance | None, passed: PassedSockets, key: str, address: Address) -> socket.socket | None:
    """The socket that listens there already, for the process before this one or for systemd."""
    of_systemd = passed.take(address)
    of_process = None if inherited is None else inherited.take_listener(key, address)
    if of_process is None or of_systemd is None:
        return of_process or of_systemd
    of_systemd.close()
    return of_process


def bound_to(listener: trio.SocketListener) -> Address:
    return Address(*listener.socket.getsockname()[:2])

"""Dials what a listener leads to, unless that is the listener itself: then each connection would dial the next one.

It happens where a broker is led to the sidecar by a hosts entry, and `upstream` is the same name: the sidecar finds it
in the same hosts file. Invariant: no connection is opened to the listener that accepted the one it is opened for.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Any

import trio

from ..config.settings_values import Address
from ..relay.transport import answer_within, connect

if TYPE_CHECKING:
    from ..relay.connection import Dial
    from ..relay.transport import PlainSocket


class OwnListenerError(OSError):
    """Says what `upstream` was found to be, and what is expected instead."""


def dial_except_own(listen: Address, reached: tuple[Any, ...], key: str) -> Dial:
    """Return the dial function for a connection that the listener `listen` (the setting `key`) accepted at
    `reached`."""

    async def dial(address: Address, *, timeout_seconds: float) -> PlainSocket:
        with answer_within(timeout_seconds):
            looked_up = await trio.socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            for family, _, _, _, found in looked_up:
                if is_own(listen, reached, family, found):
                    raise OwnListenerError(
                        f"expected another address than that of {key}, found {Address(*found[:2])}: the sidecar would "
                        "dial itself; give the upstream an address, or a name that this host's hosts file does not "
                        "lead here"
                    )
            return await connect(address, timeout_seconds=timeout_seconds)

    return dial


def is_own(listen: Address, reached: tuple[Any, ...], family: int, found: tuple[Any, ...]) -> bool:
    """Return True if `found`, an address to dial, is that of the listener."""
    if found[1] != reached[1]:
        return False
    if not listen.is_any:
        return ipaddress.ip_address(found[0]) == ipaddress.ip_address(reached[0])
    return listen.covers(Address(*found[:2])) and _is_of_this_host(family, found)


def _is_of_this_host(family: int, found: tuple[Any, ...]) -> bool:
    """Return True if the address can be bound, as only this host's can."""
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((found[0], 0, *found[2:]))
        except OSError:
            return False
    return True

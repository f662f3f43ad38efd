"""Looks up the names of the cluster's brokers for the questions about it, all at once and within one bound.

Invariants: a look takes `RESOLVE_SECONDS` at most; a name that is not found in time costs no other, and keeps the
addresses that it had last.
"""

from __future__ import annotations

import itertools
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RESOLVE_SECONDS = 2.0
MAX_HOSTS = 2000
"""The most names of a look; a broker may claim any number."""


class HostNames:
    """The names of a question, with the addresses found last."""

    def __init__(self) -> None:
        self._known: dict[str, frozenset[str]] = {}

    async def look_up(self, hosts: Iterable[str]) -> Mapping[str, frozenset[str]]:
        """Return the addresses of each host, as far as they are known."""
        asked = dict.fromkeys(itertools.islice(hosts, MAX_HOSTS))
        found = {host: self._known[host] for host in asked if host in self._known}

        async def look(host: str) -> None:
            with suppress(OSError):
                answers = await trio.socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
                found[host] = frozenset(str(answer[4][0]) for answer in answers)

        with trio.move_on_after(RESOLVE_SECONDS):
            async with trio.open_nursery() as looking:
                for host in asked:
                    looking.start_soon(look, host)
        self._known = found
        return found

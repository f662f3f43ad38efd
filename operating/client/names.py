"""Finds names of a cluster that this machine cannot resolve: the usual reason why brokers do not answer.

Looks into a hosts file first, then asks the system's resolver. Blocking. Invariants: an address is never taken for a
name; no more of a hosts file is read than `MOST_HOSTS_BYTES`.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from proxy.errors import ConfigurationError
from proxy.files.reading import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MOST_HOSTS_BYTES = 2**20
"""Lines for some 30 000 brokers."""


def unresolved(hosts: Iterable[str], hosts_file: Path | None = None) -> list[str]:
    """Return those that cannot be resolved, each once.

    Args:
        hosts: names or addresses.
        hosts_file: as /etc/hosts; None if there is none.
    """
    known = _names_in(hosts_file) if hosts_file is not None else frozenset()
    return [host for host in dict.fromkeys(hosts) if host not in known and not _resolves(host)]


def known_addresses(hosts_file: Path) -> dict[str, str]:
    """Return by name the addresses of a file like /etc/hosts; where a name has several, the last one.

    Raises ConfigurationError if it cannot be read.
    """
    text = read_bytes(hosts_file, most_bytes=MOST_HOSTS_BYTES).decode("utf-8", "replace")
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return {name: address for address, *names in filter(None, lines) for name in names}


def host_of(server: str) -> str:
    """Return the host of an address: `kafka-101` of ``PLAINTEXT://kafka-101:9092``, ``[::1]:9092`` and the like."""
    address = server.rpartition("://")[2]
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.rpartition(":")[0] or address


def _resolves(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    return True


def _names_in(hosts_file: Path) -> frozenset[str]:
    """Return the names in the file; none if it cannot be read, because whoever uses the file says what is wrong with
    it."""
    try:
        return frozenset(known_addresses(hosts_file))
    except ConfigurationError:
        return frozenset()

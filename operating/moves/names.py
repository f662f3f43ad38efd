"""Which of a cluster's names this machine cannot turn into addresses: the usual reason why brokers do not answer.

Asks the system's resolver, and a hosts file first. Blocking. Invariant: a name that is written as an address is none.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def unresolved(hosts: Iterable[str], hosts_file: Path | None = None) -> list[str]:
    """Return those that cannot be resolved, each once.

    Args:
        hosts: names or addresses.
        hosts_file: as /etc/hosts; None if there is none.
    """
    known = _names_in(hosts_file) if hosts_file is not None else set()
    return [host for host in dict.fromkeys(hosts) if host not in known and not _resolves(host)]


def host_of(server: str) -> str:
    """`kafka-101` of ``PLAINTEXT://kafka-101:9092``, ``[::1]:9092`` and the like."""
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


def _names_in(hosts_file: Path) -> set[str]:
    """As far as it can be read: whoever uses it says what is wrong with it."""
    try:
        lines = hosts_file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return set()
    return {name for line in lines for name in line.partition("#")[0].split()[1:]}

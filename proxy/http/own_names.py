"""The names that this machine goes by, from its own files: no name server is asked.

Blocking, for a few short files. Knows Linux' files, nothing of HTTP. Invariant: a file that is missing, or cannot be
read, names nothing.
"""

from __future__ import annotations

import socket
from pathlib import Path

_MOST_BYTES = 256 * 1024
HOSTS = Path("/etc/hosts")
RESOLVER = Path("/etc/resolv.conf")


def names_of_this_machine(*, hosts: Path = HOSTS, resolver: Path = RESOLVER, host_name: str = "") -> set[str]:
    """Return the host name, with the domains that resolv.conf adds to short names, and what hosts says beside it."""
    own = host_name or socket.gethostname()
    short = own.partition(".")[0]
    found = {own, short}
    for words in _lines(resolver):
        if words[0] in ("search", "domain"):
            found |= {f"{short}.{domain.rstrip('.')}" for domain in words[1:] if domain.strip(".")}
    for words in _lines(hosts):
        if own in words[1:] or short in words[1:]:
            found |= set(words[1:])
    return {name.lower() for name in found}


def _lines(path: Path) -> list[list[str]]:
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    words = [line.partition("#")[0].split() for line in text.splitlines()]
    return [line for line in words if line]

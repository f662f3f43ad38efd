"""Decides by Host and Origin which requests of browsers are served.

There are no passwords here, and an operator's browser reaches places that the authors of its pages do not. Two ways in
which such a page could use it are closed. After it was loaded, a page may give its own name our address (DNS rebinding)
and read our answers as if they were its own: then Host is the page's name. Or it sends a POST across sites, without
being able to read the answer: then Origin is the page's. Programs such as Prometheus send no Origin, and probes come by
address, which nobody can rebind.

Invariant: a name that was neither configured nor is the machine's own, is not ours. The machine's own names are read
from its files: no name server is asked.
"""

from __future__ import annotations

import re
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110, 9.2.1). A browser shows a page of another site no answer to them."""
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[^\s:\[\]@/]{1,253}))(?::(?P<port>[0-9]{1,5}))?")
_ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<host>[^\s/@]{1,300})")
_DEFAULT_PORTS = {"http": "80", "https": "443"}


class Trust:
    """`names`: host names of ours, without ports; ``*.example.com`` is every name below it, ``*`` any name at all."""

    def __init__(self, names: Iterable[str]) -> None:
        lowered = {name.lower().rstrip(".") for name in names}
        self._any = "*" in lowered
        self._names = {name for name in lowered if not name.startswith("*.")}
        self._below = tuple(name.removeprefix("*") for name in lowered if name.startswith("*."))

    def is_our_name(self, host: str) -> bool:
        """Return True if a Host header names us: an address, localhost, or a name of ours, with any port."""
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        if self._any or found["v6"] is not None:
            return True
        name = found["name"].lower().rstrip(".")
        return _is_address(name) or name == "localhost" or name in self._names or name.endswith(self._below)

    def may_change(self, method: str, *, origin: str, fetch_site: str, host: str) -> bool:
        """Return True if a request of this method may come from where it says: from no page, or from one of ours.

        `origin` and `fetch_site` are what Origin and Sec-Fetch-Site say, "" if they are missing.
        """
        if method in SAFE_METHODS:
            return True
        if fetch_site not in ("", "same-origin", "none"):
            return False
        return origin == "" or _is_at(origin, host)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_at(origin: str, host: str) -> bool:
    found = _ORIGIN.fullmatch(origin)
    if found is None:  # "null" is what a sandboxed page says
        return False
    port = _DEFAULT_PORTS[found["scheme"]]
    return _with_port(found["host"], port) == _with_port(host, port)


def _with_port(host: str, default: str) -> tuple[str, str] | None:
    found = _HOST.fullmatch(host)
    if found is None:
        return None
    return (found["v6"] or found["name"]).lower().rstrip("."), found["port"] or default


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

"""Decides by Host and Origin which requests of browsers are served.

There are no passwords here, and an operator's browser reaches places that the authors of its pages do not. Two ways in
which such a page could use it are closed. After it was loaded, a page may give its own name our address (DNS rebinding)
and read our answers as if they were its own: then Host is the page's name. Or it sends a POST across sites, without
being able to read the answer: then Origin is the page's. Programs such as Prometheus send no Origin, and probes come by
address, which nobody can rebind.

Pure. Invariant: a name that was neither configured nor is the machine's own, is not ours.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
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

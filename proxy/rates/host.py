"""Reads the host's disk and network counters, as far as they are visible: Linux's /proc and /sys.

In a container the interfaces are the container's own, and their speed is mostly unknown; pressure is the whole host's.
Blocking, if only for the kernel: read in a thread. Invariant: what cannot be read or makes no sense is None.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_SOME = re.compile(r"^some .*total=([0-9]+)$", re.MULTILINE)
_MEGABIT = 1_000_000 / 8


class HostCounters(NamedTuple):
    """The kernel's counters."""

    io_stalled_seconds: float | None
    interface_bytes: Mapping[str, tuple[int, int]]
    """Received and sent, by interface."""
    link_bytes_per_second: Mapping[str, float]
    """Of interfaces that say how fast their link is."""


class HostReading(NamedTuple):
    io_share: float | None
    network_share: float | None
    """Of the busiest interface's link, in its busier direction."""
    interface: str = ""


def read_counters(root: Path = Path("/")) -> HostCounters:
    """Read the counters. Blocking."""
    interfaces = parse_interfaces(_text(root / "proc/net/dev"))
    links = {name: _link(root / "sys/class/net" / name / "speed") for name in interfaces}
    return HostCounters(
        parse_pressure(_text(root / "proc/pressure/io")),
        interfaces,
        {name: speed for name, speed in links.items() if speed is not None},
    )


def reading(before: HostCounters, after: HostCounters, seconds: float) -> HostReading:
    """Return the rates in the `seconds` between two samples."""
    io_share = None
    if before.io_stalled_seconds is not None and after.io_stalled_seconds is not None and seconds > 0:
        io_share = min(max((after.io_stalled_seconds - before.io_stalled_seconds) / seconds, 0.0), 1.0)
    shares = {}
    for name, link in after.link_bytes_per_second.items():
        if seconds > 0 and name in before.interface_bytes:
            both = zip(after.interface_bytes[name], before.interface_bytes[name], strict=True)
            shares[name] = max(now - then for now, then in both) / seconds / link
    busiest = max(shares, key=lambda name: shares[name], default="")
    return HostReading(io_share, max(shares[busiest], 0.0) if busiest else None, busiest)


def parse_pressure(text: str) -> float | None:
    """Return the seconds in which a task waited, since the host's start; None where the kernel does not say."""
    found = _SOME.search(text)
    return int(found[1]) / 1e6 if found else None


def parse_interfaces(text: str) -> dict[str, tuple[int, int]]:
    """Parse /proc/net/dev, without the loopback interface."""
    found = {}
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        fields = rest.split()
        if colon and len(fields) >= 9 and fields[0].isdecimal() and fields[8].isdecimal() and name.strip() != "lo":
            found[name.strip()] = int(fields[0]), int(fields[8])
    return found


def _link(path: Path) -> float | None:
    """Return the link's bytes per second; None for an interface without a link, or a virtual one."""
    text = _text(path).strip()
    return int(text) * _MEGABIT if text.isdecimal() and int(text) > 0 else None


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", errors="replace")
    except OSError:
        return ""

"""Rates and times as refusals tell them, in the form of every other message of the commands. Pure.

`proxy.quotas` has the same for what operators write; nothing here may import it.
"""

from __future__ import annotations

import math

_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_MINUTE, _HOUR, _HOURS_TOLD = 60, 3600, 72


def rate_in_words(bytes_per_second: float) -> str:
    """Return ``4.00 MiB/s (4194304 B/s)``; below 1 KiB per second the exact bytes alone."""
    exact = f"{bytes_per_second:.0f} B/s"
    for size, unit in _UNITS:
        if bytes_per_second >= size:
            return f"{bytes_per_second / size:.2f} {unit}/s ({exact})"
    return exact


def time_in_words(seconds: float) -> str:
    """Return ``12s``, ``3m05s``, ``2h10m`` or ``3d04h``, rounded up: less would not be enough."""
    whole = math.ceil(seconds)
    minutes, hours = math.ceil(whole / _MINUTE), math.ceil(whole / _HOUR)
    if hours >= _HOURS_TOLD:
        return f"{hours // 24}d{hours % 24:02d}h"
    if whole >= _HOUR:
        return f"{minutes // _MINUTE}h{minutes % _MINUTE:02d}m"
    return f"{whole // _MINUTE}m{whole % _MINUTE:02d}s" if whole >= _MINUTE else f"{whole}s"

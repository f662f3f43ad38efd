"""Which version of the sidecar this is. Not to be asked before traffic is served: to look it up takes 50 ms of CPU."""

from __future__ import annotations

import functools


@functools.cache
def own_version() -> str:
    """As its distribution says."""
    from importlib.metadata import version

    return version("kafka-throttle-sidecar")

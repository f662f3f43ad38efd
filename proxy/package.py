"""The installed distribution: its version, and how its extras are installed."""

from __future__ import annotations

import functools


@functools.cache
def own_version() -> str:
    """Return the version that the distribution says. Takes 50 ms of CPU: not to be called before traffic is served."""
    from importlib.metadata import version

    return version("kafka-throttle-sidecar")


def how_to_install(extra: str) -> str:
    """Return what to do where an extra's package is missing.

    Without the distribution's name: it is in no registry, and a distribution that comes to have that name there is
    somebody else's.
    """
    return f"pip install '.[{extra}]' in this project's folder, or with its wheel's path for the dot"

"""What a sidecar still has when all of its peers have left: by its counters, and by the objects that are alive."""

from __future__ import annotations

import gc
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .sidecar import WorldSidecar

_MODULES = ("admission.", "proxy.relay.", "proxy.throttle.", "proxy.clients.")
_REMEMBERED = (
    "proxy.clients.throttle.Entity",
    "admission.simple_rate.",
    "admission.token_bucket.",
    "proxy.clients.budgets.",
    "proxy.relay.response_walk.Form",
)
"""Kinds that outlive their connections: clients keep their budgets, rates their samples, versions their forms."""


def alive() -> Counter[str]:
    """Count the objects of what a connection is made of, by class."""
    found: Counter[str] = Counter()
    for each in gc.get_objects():
        kind = type(each)
        module = kind.__module__
        if isinstance(module, str) and module.startswith(_MODULES):
            name = f"{module}.{kind.__qualname__}"
            if not name.startswith(_REMEMBERED):
                found[name] += 1
    return found


def what_is_left(sidecar: WorldSidecar) -> Iterator[str]:
    where = f"the sidecar of {sidecar.broker_id} still has"
    for role, throttle in sidecar.throttles.items():
        counted = throttle.statistics
        for name, value in (
            ("links", len(throttle.links)),
            ("connections", counted.connections),
            ("held requests", counted.held_requests),
            ("opaque connections", counted.opaque_connections),
        ):
            if value:
                yield f"{where} {value} {name} as {role.value}"
        throttle.recount()
        if throttle.remembered.count:
            yield f"{where} {throttle.remembered.count} replicas as {role.value}"
    buffers = sidecar.buffers
    for name in ("held", "kept", "in_slices"):
        if getattr(buffers, name):
            yield f"{where} {getattr(buffers, name)} in buffers.{name}"

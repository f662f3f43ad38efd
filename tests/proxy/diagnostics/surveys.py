"""A replica_stats taken without a pause, for tests of few replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.diagnostics.replica_stats import replica_stats

if TYPE_CHECKING:
    from proxy.diagnostics.replica_stats import ReplicaStats
    from proxy.throttle.role_throttle import RoleThrottle


def surveyed(throttle: RoleThrottle, now: float) -> ReplicaStats:
    """What is found."""
    steps = replica_stats(throttle, now)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: ReplicaStats = done.value
            return found

"""The metrics of rates inside a role's rate: of the traffic with one broker, and of topics.

Rows like those of `metrics`. Invariant: no sample where quotas.toml has no such rate, and at most as many as it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..roles import Role
from .metric_row import PREFIX, Metric, Read, Sources

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..throttle.finer import Bound


def _of_each(read: Callable[[Bound], float]) -> Read:
    def samples(sources: Sources) -> list[tuple[tuple[str, ...], float]]:
        return [((role.value, *bound.entity), read(bound)) for role in Role for bound in sources.bounds(role)]

    return samples


BOUND_METRICS = (
    Metric(
        PREFIX + "bound_limit_bytes_per_second",
        "gauge",
        ("role", "kind", "name"),
        "A rate inside the role's quota: of the traffic with one broker (kind peer), or of a topic or glob (topic).",
        _of_each(lambda bound: bound.bytes_per_second),
    ),
    Metric(
        PREFIX + "bound_throttled_bytes_total",
        "counter",
        ("role", "kind", "name"),
        "Bytes of throttled partitions that passed under such a rate.",
        _of_each(lambda bound: bound.passed_bytes),
    ),
)

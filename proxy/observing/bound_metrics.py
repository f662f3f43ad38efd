"""The metrics of rates inside a role's rate, of bytes between racks, and of the replicas that go first.

Rows like those of `metrics`. Invariant: a rate has a sample as long as quotas.toml has the rate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..quotas.priorities import Need
from ..roles import Role
from .metric_row import PREFIX, Metric, Read, Sample, Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..throttle.finer import Bound


def _of_each(read: Callable[[Bound], float]) -> Read:
    def samples(sources: Sources) -> list[tuple[tuple[str, ...], float]]:
        return [((role.value, *bound.entity), read(bound)) for role in sources.served for bound in sources.bounds(role)]

    return samples


def _in_need(sources: Sources) -> Iterator[Sample]:
    for role in Role:
        in_need = sources.survey(role).in_need
        for need in Need:
            if need is not Need.MOVES:
                yield (role.value, need.value), in_need.get(need.value, 0)


def _cross_rack_bytes(sources: Sources) -> Iterator[Sample]:
    for role in Role:
        statistics = sources.statistics.of(role)
        yield (role.value, "request"), statistics.cross_rack_request_bytes
        yield (role.value, "response"), statistics.cross_rack_response_bytes


BOUND_METRICS = (
    Metric(
        PREFIX + "bound_limit_bytes_per_second",
        "gauge",
        ("role", "kind", "name"),
        "A rate inside the role's quota: of the traffic with one broker (kind peer) or one rack (rack), or of a topic "
        "or glob (topic).",
        _of_each(lambda bound: bound.bytes_per_second),
    ),
    Metric(
        PREFIX + "bound_throttled_bytes_total",
        "counter",
        ("role", "kind", "name"),
        "Bytes of throttled partitions that passed under such a rate.",
        _of_each(lambda bound: bound.passed_bytes),
    ),
    Metric(
        PREFIX + "cross_rack_bytes_total",
        "counter",
        ("role", "direction"),
        "Bytes relayed between this broker's rack and another, where a broker has told both; counted once a second.",
        _cross_rack_bytes,
    ),
    Metric(
        PREFIX + "replicas_in_need",
        "gauge",
        ("role", "need"),
        "Throttled replicas that are behind, of partitions under min ISR or under-replicated.",
        _in_need,
    ),
)

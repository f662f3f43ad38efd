"""Exact shares: max-min fairness with weights, by water-filling, from what each could use.

Independent of the product's arithmetic: floats, no time. A budget is shared among the connections that want something
of it, by their weights; what one cannot use the others have.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

_K = TypeVar("_K", bound="Hashable")
Flow: TypeAlias = tuple[str, str]
"""A connection's name and a topic."""
_ROUNDS = 60


class Budget(NamedTuple):
    """So many bytes per second for all of these together."""

    bytes_per_second: float
    members: frozenset[Hashable]


def max_min(
    wants: Mapping[_K, float], budgets: Sequence[Budget], weights: Mapping[_K, float] | None = None
) -> dict[_K, float]:
    """Return the weighted max-min shares: all grow by their weights until a budget of theirs is full."""
    given = dict.fromkeys(wants, 0.0)
    growing = {each for each, most in wants.items() if most > 0}
    weight = {each: 1.0 if weights is None else weights[each] for each in wants}
    while growing:
        step = min((wants[each] - given[each]) / weight[each] for each in growing)
        for budget in budgets:
            pull = sum(weight[each] for each in growing & budget.members)
            if pull:
                left = budget.bytes_per_second - sum(given[each] for each in given.keys() & budget.members)
                step = min(step, max(left, 0.0) / pull)
        if math.isinf(step):
            return {each: math.inf if each in growing else share for each, share in given.items()}
        for each in growing:
            given[each] += step * weight[each]
        full = {
            each
            for budget in budgets
            if sum(given[one] for one in given.keys() & budget.members) >= budget.bytes_per_second * (1 - 1e-9)
            for each in growing & budget.members
        }
        done = {each for each in growing if given[each] >= wants[each] * (1 - 1e-9)} | full
        growing -= done
    return given


def shares_of_flows(
    wants: Mapping[Flow, float],
    trunks: Sequence[Budget],
    branches: Sequence[Budget] = (),
    *,
    partitions: Mapping[Flow, float],
    weights: Mapping[str, float] | None = None,
) -> dict[Flow, float]:
    """Return the share of each (connection, topic). `trunks` bound connections, `branches` (connection, topic)s.

    Each budget is fair by itself: a topic's among the connections that want it, a trunk among connections, whatever
    each of them wants it for. What a connection may have altogether is split evenly among its partitions. So the sum
    is found by going back and forth until nothing changes.
    """
    connections = sorted({who for who, _ in wants})
    bounded = frozenset().union(*(branch.members for branch in branches))
    most = dict(wants)
    given: dict[Flow, float] = {}
    for _ in range(_ROUNDS):
        before = dict(given)
        given = {**wants, **max_min({flow: most[flow] for flow in wants if flow in bounded}, branches)}
        sums = {who: sum(given[flow] for flow in wants if flow[0] == who) for who in connections}
        allowed = {who: max_min({**sums, who: math.inf}, trunks, weights)[who] for who in connections}
        for who in connections:
            own = {flow: given[flow] for flow in wants if flow[0] == who}
            of_own = [Budget(allowed[who], frozenset(own))]
            for flow in own:  # what it could have of this topic, if the topic had more
                most[flow] = max_min({**own, flow: wants[flow]}, of_own, partitions)[flow]
            given.update(max_min(own, of_own, partitions))
        if before and all(abs(given[flow] - before[flow]) <= 1e-6 * (1 + given[flow]) for flow in given):
            break
    return given

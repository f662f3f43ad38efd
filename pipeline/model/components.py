"""Links of a scenario that depend on each other: two links that share a budget, and all connected by such pairs.

Pure, standard library alone. Invariant: links of two components never ask the same budget. So each component may be
replayed by itself, elsewhere and at another time, with the same result as if all were replayed together.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..jobs.inner_rates import Bound
    from .simulation import Flow, Quotas


def components(flows: Sequence[Flow], quotas: Quotas, bounds: Sequence[Bound] = ()) -> list[list[int]]:
    """Return the flows' indices, component by component, each in its order. A flow without a budget is a component by
    itself."""
    budgets = {*quotas, *((bound.broker, bound.role) for bound in bounds)}
    of_budget: dict[tuple[str, str], int] = {}
    parents = list(range(len(flows)))

    def root(index: int) -> int:
        while parents[index] != index:
            parents[index] = index = parents[parents[index]]
        return index

    for index, flow in enumerate(flows):
        for budget in ((flow.source, "leader"), (flow.destination, "follower")):
            if budget in budgets:
                parents[root(index)] = root(of_budget.setdefault(budget, index))
    found: dict[int, list[int]] = defaultdict(list)
    for index in range(len(flows)):
        found[root(index)].append(index)
    return list(found.values())

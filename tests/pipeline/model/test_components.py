from __future__ import annotations

import pytest

from pipeline.jobs.inner_rates import Bound
from pipeline.model.replay import WhatIf, components
from pipeline.model.simulation import Flow, simulate

MB = 1_000_000.0
FLOWS = [Flow(source, to, 20 * MB) for source, to in (("1", "2"), ("1", "3"), ("4", "3"), ("5", "6"), ("5", "2"))]


@pytest.mark.parametrize(
    ("leader", "follower", "bounds", "found"),
    [
        (MB, None, (), [[0, 1], [2], [3, 4]]),
        (None, MB, (), [[0, 4], [1, 2], [3]]),
        (MB, MB, (), [[0, 1, 2, 3, 4]]),
        (None, None, (), [[0], [1], [2], [3], [4]]),
        (None, None, (Bound("3", "follower", "peer 4", frozenset({"4"}), MB),), [[0], [1, 2], [3], [4]]),
    ],
)
def test_who_shares_a_budget_is_in_one_component(
    leader: float | None, follower: float | None, bounds: tuple[Bound, ...], found: list[list[int]]
) -> None:
    assert components(FLOWS, WhatIf("", "strict", leader, follower).quotas(FLOWS), bounds) == found


@pytest.mark.parametrize("policy", ["strict", "kip73"])
def test_each_component_by_itself_is_as_all_together(policy: str) -> None:
    what_if = WhatIf("", policy, MB, None)
    together = simulate(FLOWS, what_if.scenario(FLOWS, 125 * MB))
    apart: dict[tuple[str, str, int], float] = {}
    finished: dict[int, float | None] = {}
    for links in components(FLOWS, what_if.quotas(FLOWS)):
        mine = [FLOWS[link] for link in links]
        outcome = simulate(mine, what_if.scenario(mine, 125 * MB))
        finished |= dict(zip(links, outcome.finished, strict=True))
        for key, size in outcome.moved.items():
            apart[key] = apart.get(key, 0.0) + size
    assert [finished[link] for link in range(len(FLOWS))] == together.finished
    assert apart == together.moved

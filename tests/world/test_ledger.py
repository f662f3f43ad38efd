from __future__ import annotations

import random

import pytest

from .judges import Allowance, worst_excess
from .ledger import Passed, rates


def passed(draw: random.Random, count: int) -> list[Passed]:
    return [
        Passed(draw.choice([draw.uniform(2, 5), 3.0]), "r", 2, 1, ("t", 0), draw.randrange(1, 9)) for _ in range(count)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_the_worst_excess_is_that_of_all_pairs(seed: int) -> None:
    draw = random.Random(seed)
    found = sorted(passed(draw, 30))
    rate, seconds = draw.uniform(1, 60), draw.choice([0.1, 1.0])
    by_pairs = max(
        sum(each.size for each in found[first : last + 1]) - rate * max(found[last].at - found[first].at, seconds)
        for first in range(len(found))
        for last in range(first, len(found))
    )
    assert worst_excess(found, Allowance([(0.0, rate)]), seconds) == pytest.approx(max(by_pairs, 0.0))


def test_rates_count_those_behind_alone() -> None:
    some = [Passed(1.0, "r", 2, 1, ("t", 0), 10), Passed(1.5, "r", 2, 1, ("t", 0), 7, in_sync=True)]
    assert rates(some, 0.0, 2.0) == {"r": 5.0}

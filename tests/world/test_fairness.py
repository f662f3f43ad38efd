"""Water-filling beside what defines it, and beside the pipeline's fluid model, which shares no line with it."""

from __future__ import annotations

import math
import random

import pytest

from pipeline.model.fluid import Stream, finish_times

from .fairness import Budget, max_min, shares_of_flows


@pytest.mark.parametrize("seed", range(60))
def test_nobody_could_have_more_without_taking_from_one_who_has_less(seed: int) -> None:
    """The definition: each has all that it wants, or a full budget in which nobody has more for its weight."""
    draw = random.Random(seed)
    names = [f"c{number}" for number in range(draw.randint(1, 7))]
    wants = {name: draw.choice([math.inf, draw.uniform(1, 50)]) for name in names}
    weights = {name: draw.choice([1.0, 1.0, 3.0]) for name in names}
    budgets = [
        Budget(draw.uniform(1, 80), frozenset(draw.sample(names, draw.randint(1, len(names))))) for _ in range(4)
    ]
    budgets.append(Budget(100.0, frozenset(names)))
    given = max_min(wants, budgets, weights)
    for budget in budgets:
        assert sum(given[name] for name in budget.members) <= budget.bytes_per_second * (1 + 1e-6)
    for name in names:
        has_all = given[name] >= wants[name] * (1 - 1e-6)
        is_last = any(
            sum(given[other] for other in budget.members) >= budget.bytes_per_second * (1 - 1e-6)
            and all(
                given[other] / weights[other] <= given[name] / weights[name] * (1 + 1e-6) for other in budget.members
            )
            for budget in budgets
            if name in budget.members
        )
        assert has_all or is_last


@pytest.mark.parametrize("seed", range(20))
def test_the_fluid_model_has_the_same_shares(seed: int) -> None:
    draw = random.Random(seed)
    brokers = [str(number) for number in range(4)]
    pairs = [(one, two) for one in brokers for two in brokers if one != two and draw.random() < 0.6]
    rates = {(broker, role): draw.uniform(1, 9) for broker in brokers for role in ("leader", "follower")}
    budgets = [
        Budget(rate, frozenset(pair for pair in pairs if pair[role == "follower"] == broker))
        for (broker, role), rate in rates.items()
    ]
    given = max_min(dict.fromkeys(pairs, math.inf), budgets)
    first = min(1e9 / share for share in given.values())
    streams = [Stream(one, two, given[one, two] * first) for one, two in pairs]  # so all end at once
    ends = finish_times(streams, rates, line_bytes_per_second=1e9)
    assert ends == pytest.approx([first] * len(pairs), rel=1e-6)


def test_a_topic_is_shared_among_those_who_want_it_and_the_rest_among_all() -> None:
    flows = {("a", "t"): math.inf, ("b", "t"): math.inf, ("b", "u"): math.inf}
    trunk, topic = Budget(100.0, frozenset("ab")), Budget(10.0, frozenset({("a", "t"), ("b", "t")}))
    found = shares_of_flows(flows, [trunk], [topic], partitions=dict.fromkeys(flows, 1.0))
    assert found == pytest.approx({("a", "t"): 5.0, ("b", "t"): 5.0, ("b", "u"): 90.0})


def test_what_one_cannot_use_of_a_topic_the_others_have() -> None:
    flows = {("a", "t"): math.inf, ("b", "t"): math.inf, ("b", "u"): math.inf, ("c", "t"): math.inf}
    trunk, topic = Budget(90.0, frozenset("abc")), Budget(70.0, frozenset({("a", "t"), ("b", "t"), ("c", "t")}))
    found = shares_of_flows(flows, [trunk], [topic], partitions={**dict.fromkeys(flows, 1.0), ("b", "u"): 3.0})
    assert found == pytest.approx({("a", "t"): 30.0, ("b", "t"): 7.5, ("b", "u"): 22.5, ("c", "t"): 30.0}, rel=0.1)

"""What crosses the wire reaches followers' logs: little of the quota goes to parts of batches that are discarded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.goodput import BROKERS, FIRST, SIDECARS, Batches
from lab.brokers.releases import release
from lab.cluster.cluster import cluster
from lab.cluster.plan import ClusterPlan
from lab.moves.mover import Mover
from lab.sidecars.sidecars import SidecarPlan

if TYPE_CHECKING:
    from lab.moves.move import MoveResult

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

CASES = (Batches("60 kB", (60,)), Batches("mixed", (1, 15, 60, 200)))


@pytest.mark.parametrize("protocol", ["0.11.0", "3.9"])
async def test_little_comes_in_vain_whatever_batches_are_and_in_both_roles(protocol: str) -> None:
    """60 kB batches took 1.36 bytes for each byte in the log; Kafka's own quota takes 1.02."""
    plan = ClusterPlan(brokers=BROKERS, release=release(protocol=protocol), sidecars=SidecarPlan())
    found: list[MoveResult] = []
    async with cluster(plan) as made:
        await Mover(made).run(FIRST)
        for case in CASES:
            found += [await Mover(made).run(case.move(way)) for way in SIDECARS]
    for result in found:
        assert result.equal
        # Of mixed batches the first grant to each partition, for which nothing is known, is 1.5 % of so short a move,
        # and guesses at what follows a batch are wrong now and then: 1.065 to 1.089 on the leader's side.
        assert result.wire_over_log <= (1.1 if result.move.mixed_with else 1.05)
        assert 0.93 <= result.mean_ratio_once_begun(0.6) <= 1.05
        assert result.worst_second_ratio <= 1.25

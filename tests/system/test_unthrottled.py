"""What is not throttled gets through whole, and as fast as without sidecars, whatever else is throttled beside it.

Each broker has a network card, in a network namespace, of a speed that two cores can fill several times over: on
loopback, where only their CPU bounds brokers and sidecars, whatever stands in between takes from a move what it costs
(benchmarks.unthrottled measures that, beside HAProxy).
"""

from __future__ import annotations

import pytest

from benchmarks.unthrottled import SCENES, measure
from lab.moves.move import MIB

GIGABIT = 125_000_000
"""Bytes per second."""


@pytest.mark.system
@pytest.mark.timeout(300)
async def test_unthrottled_moves_pass_whole_and_as_fast_as_the_network_carries_them() -> None:
    """`measure` compares the replicas byte for byte. The quota of the topic beside them is 4 MiB/s."""
    found = await measure(rounds=3, bytes_per_partition=24 * MIB, link_bytes_per_second=GIGABIT)
    assert {comparison.scene for comparison in found} == set(SCENES)
    for comparison in found:
        assert comparison.rate("direct") > 0.6 * GIGABIT, "the card was not what bounded the move"
        assert comparison.ratio("sidecars") == pytest.approx(1.0, abs=0.1), comparison.summary()

"""What is not throttled gets through whole, and as fast as without sidecars, whatever else is throttled beside it.

Each broker has a network card, in a network namespace, of a speed that two cores can fill several times over: on
loopback, where only their CPU bounds brokers and sidecars, whatever stands in between takes from a move what it costs
(benchmarks.unthrottled measures that, beside HAProxy).
"""

from __future__ import annotations

import pytest

from benchmarks.unthrottled import QUOTA, SCENES, measure
from lab.moves import MIB

HALF_A_GIGABIT = 62_500_000
"""Bytes per second. On a card of 125 MB/s two slow cores move 78 without sidecars: it was not the card that bounded."""
USED = 0.75
"""Such a card carries 52 MB/s of records (measured: 192 MiB more of them take 3.8 s longer), and a move begins with a
second without any: 50 MB/s in all."""


@pytest.mark.system
@pytest.mark.timeout(600)
async def test_unthrottled_moves_pass_whole_and_as_fast_as_the_network_carries_them() -> None:
    """`measure` compares the replicas byte for byte. The quota of the topic beside them is 4 MiB/s."""
    found = await measure(rounds=3, bytes_per_partition=48 * MIB, link_bytes_per_second=HALF_A_GIGABIT)
    assert {comparison.scene for comparison in found} == set(SCENES)
    for comparison in found:
        beside = QUOTA if "beside a throttled topic" in comparison.scene else 0.0
        assert comparison.rate("direct") + beside > USED * HALF_A_GIGABIT, "the card was not what bounded the move"
        assert comparison.ratio("sidecars") == pytest.approx(1.0, abs=0.1), comparison.summary()

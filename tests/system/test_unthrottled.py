"""What is not throttled gets through whole, whatever else is throttled beside it.

How fast, compared with brokers that have no sidecars, is measured by benchmarks.unthrottled: on a machine whose two
cores are shared by both brokers and both sidecars that is a matter of CPU, not of a test.
"""

from __future__ import annotations

import pytest

from benchmarks.unthrottled import SCENES, measure
from lab.moves import MIB


@pytest.mark.system
@pytest.mark.timeout(300)
async def test_unthrottled_moves_pass_whole_and_at_wire_speed() -> None:
    """`measure` compares the replicas byte for byte. Ten times the quota of the topic beside them is far below the
    wire's speed and far above what a throttle that caught them would let through."""
    found = await measure(rounds=1, bytes_per_partition=16 * MIB)
    assert {comparison.scene for comparison in found} == set(SCENES)
    for comparison in found:
        assert comparison.through[0].bytes_per_second > 40 * MIB

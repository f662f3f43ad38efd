"""What is not throttled is not slowed: the comparison itself, and its table, are in benchmarks.unthrottled."""

from __future__ import annotations

import pytest

from benchmarks.unthrottled import SCENES, measure
from lab.moves import MIB


@pytest.mark.system
@pytest.mark.timeout(600)
async def test_unthrottled_moves_are_about_as_fast_as_without_sidecars() -> None:
    found = await measure(rounds=3, bytes_per_partition=64 * MIB)
    assert {comparison.scene for comparison in found} == set(SCENES)
    assert [(comparison.scene, comparison) for comparison in found if comparison.ratio < 0.8] == []

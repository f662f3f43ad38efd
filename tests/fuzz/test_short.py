"""The short form of `make fuzz`: some of every family in the modes that do most, always the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuzz.invariant import MIB, Bounds
from fuzz.running import Order, run
from fuzz.scenes.tenants import Tenants
from fuzz.stage.stage import Program
from lab.sidecars.sidecars import throttle_sidecar_script

if TYPE_CHECKING:
    from pathlib import Path

    from fuzz.campaign import Result

BOUNDS = Bounds(slow_ms=5000.0, stall_seconds=10.0, memory_bytes=300 * MIB)
"""Nothing of this is timed: other tests run beside, and no control."""


@pytest.mark.parametrize("mode", ["listed", "kip73"])
async def test_the_victim_does_not_notice(mode: str, tmp_path: Path) -> None:
    order = Order(
        seed=1, program=Program(throttle_sidecar_script()), frames={"requests": 1200, "answers": 600, "http": 120},
        quota_files=0, modes=(mode,), scenes=(), corpus=tmp_path / "corpus", at_once=8, bounds=BOUNDS, control=False,
    )  # fmt: skip
    results: list[Result] = []
    await run(order, print, results)
    assert {result.family: result.things for result in results} == {
        "requests": pytest.approx(1200, abs=100),
        "answers": pytest.approx(600, abs=30),
        "http": pytest.approx(120, abs=30),
    }
    assert sum(result.victim_fetches for result in results) > 20
    assert [(found.breach.signature, found.breach.detail) for one in results for found in one.findings] == []


async def test_a_hostile_tenant_costs_the_honest_one_nothing() -> None:
    scene = Tenants(seed=1, size=0.25)
    await scene.play(Program(throttle_sidecar_script()))
    assert scene.things > 50

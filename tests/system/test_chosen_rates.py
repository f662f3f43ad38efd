"""A rate that does not hurt, on a link that is full: it gives way to producers, and the move is done and whole.

`python -m benchmarks.chosen_rates` compares it with the broker's own quota; here is what does not depend on what else
the machine does.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks.chosen_rates.run import run
from benchmarks.chosen_rates.scene import MB, open_stage
from benchmarks.chosen_rates.ways import LEAST
from lab.sidecars.sidecars import SidecarPlan

if TYPE_CHECKING:
    from collections.abc import Callable

MOVED = 150 * MB


@pytest.mark.system
@pytest.mark.timeout(400)
async def test_it_is_raised_from_its_least_and_producers_hardly_wait(record_property: Callable[..., None]) -> None:
    """At the least rate the move would take 150 s; without any throttle producers wait for seconds. `run` compares the
    replicas."""
    told: list[str] = []
    async with open_stage(SidecarPlan(), told.append) as stage:
        full = await run(stage, "unthrottled", moved_bytes=int(MOVED))
        auto = await run(stage, "auto", moved_bytes=int(MOVED))
        lines = [json.loads(line) for line in stage.kafka.sidecars[101].log_lines("rate_chosen")]
    record_property("runs", [full, auto])
    assert full["refused"] == auto["refused"] == 0
    assert auto["seconds"] <= 0.5 * MOVED / LEAST, told
    assert auto["p50_ms"] <= full["p50_ms"] / 10, told
    assert auto["p95_ms"] <= full["p95_ms"] / 4, told
    assert max(line["bytes_per_second"] for line in lines) > 3 * LEAST

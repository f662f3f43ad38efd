from __future__ import annotations

import pytest

from pipeline.model.duration_curve import EXACT_CPU_SECONDS, exact_cpu_seconds
from pipeline.model.replay import MAX_SECONDS, WhatIf
from pipeline.model.simulation import Flow

MB = 1_000_000.0


@pytest.mark.parametrize(
    ("flow", "leader", "seconds"),
    [
        (Flow("1", "2", 100 * MB), MB, 100.0),
        (Flow("1", "2", 100 * MB, starts=900.0), MB, 100.0),
        (Flow("1", "2", 100 * MB, arrivals=(0.0,) * 300), MB, 300.0),
        (Flow("1", "2", 100 * MB, arrivals=(2 * MB,) * 10), 2 * MB, 60.0),
        (Flow("1", "2", 10**9 * MB), MB, MAX_SECONDS),
        (Flow("1", "2", 100 * MB), 0.0, 0.0),
    ],
)
def test_the_exact_model_takes_as_long_as_links_are_followed(flow: Flow, leader: float, seconds: float) -> None:
    found = exact_cpu_seconds([flow], [WhatIf("", "strict", leader, None)], line_bytes_per_second=125 * MB)
    assert found == pytest.approx(seconds * EXACT_CPU_SECONDS, rel=0.02)

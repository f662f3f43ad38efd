from __future__ import annotations

import math

import pytest

from operating.moves.stretches import Stretch, seconds_by
from reassignment import Load


def load(move_bytes: float, written: float = 0.0) -> Load:
    return Load(101, "leader", move_bytes, written, 0.0)


@pytest.mark.parametrize(
    ("move_bytes", "written", "stretches", "seconds"),
    [
        (100, 0, [(0, 10)], 10),
        (100, 5, [(0, 10)], 20),
        (100, 10, [(0, 10)], math.inf),
        (0, 10, [(0, 1)], 0),
        # 20 at once, then faster.
        (100, 0, [(0, 2), (10, 20)], 14),
        (100, 0, [(0, 20), (10, 2)], 5),
        (100, 0, [(0, 10), (10, 2)], 10),
        # Producers write more than passes until then.
        (100, 5, [(0, 1), (10, 19)], 20),
        (100, 0, [(0, 0), (10, 10), (12, 0)], math.inf),
        # Nobody promises how fast what is not throttled is.
        (100, 0, [(0, math.inf)], math.nan),
        (100, 0, [(0, 2), (10, math.inf)], math.nan),
        (100, 0, [(0, 20), (10, math.inf)], 5),
        (0, 0, [(0, math.inf)], 0),
    ],
)
def test_how_long_a_share_takes(
    move_bytes: float, written: float, stretches: list[tuple[float, float]], seconds: float
) -> None:
    found = seconds_by(tuple(Stretch(*stretch) for stretch in stretches), load(move_bytes, written))
    assert found == pytest.approx(seconds, nan_ok=True)

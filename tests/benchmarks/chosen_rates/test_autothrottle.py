from __future__ import annotations

import pytest

from benchmarks.chosen_rates.autothrottle import Autothrottle


@pytest.mark.parametrize(
    ("carried", "before", "expected"),
    [
        (70, 0, 27),  # 90 % of the 30 that are free
        (80, 70, 81),  # 10 of the 80 are others'
        (110, 70, 45),  # what is too much counts twice
        (200, 70, 10),  # never below the least
        (74, 85, 90),  # what it was allowed and did not take is nobody's
    ],
)
def test_what_is_free_is_shared_out(carried: float, before: float, expected: float) -> None:
    """The first four with autothrottle's own examples, of a capacity of 100 and a least of 10, at its default share."""
    throttle = Autothrottle(100, 10, before)
    found = throttle.next(carried)
    assert (throttle.rate if found is None else found) == pytest.approx(expected, abs=0.1) or found is None


def test_a_small_change_is_not_set() -> None:
    throttle = Autothrottle(100, 10, 80)
    assert throttle.next(94) is None  # 77.4
    assert throttle.rate == 80
    assert throttle.next(110) == pytest.approx(54)

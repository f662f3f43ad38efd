"""The relay as it is, driven by hand."""

from __future__ import annotations

import pytest

from benchmarks.byte_path.own import CASES, Case, measure


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_takes_time_in_both_directions(case: Case) -> None:
    asked, answered, longest = measure(case, 0.0)
    assert 0 < asked < 1_000_000
    assert 0 < answered < 1_000_000
    assert 0 < longest <= 1_000_000

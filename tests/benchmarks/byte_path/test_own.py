"""The relay as it is, driven by hand."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks.byte_path.own import CASES, Case, main, measure


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_takes_time_in_both_directions(case: Case) -> None:
    asked, answered, longest = measure(case, 0.0)
    assert 0 < asked < 1_000_000
    assert 0 < answered < 1_000_000
    assert 0 < longest <= 1_000_000


@pytest.mark.timeout(240)  # of a busy machine: 20 s otherwise
def test_there_is_a_row_per_case_and_a_profile_that_names_functions() -> None:
    result = CliRunner().invoke(main, ["--seconds", "0", "--profile"])
    assert result.exit_code == 0, result.output
    assert [f"| {case.name} |" in result.output for case in CASES] == [True] * len(CASES)

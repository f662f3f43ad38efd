"""What a start costs is measured in turns, on processes of their own."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click
import pytest

from benchmarks.start import measure, python, started, table

PROGRAMS = Path(sys.executable).parent


def test_whoever_came_first_in_a_round_comes_last_in_the_next() -> None:
    order: list[str] = []

    def arm(name: str) -> float:
        order.append(name)
        return 1.0

    found = measure({name: partial(arm, name) for name in "ab"}, 3)
    assert "".join(order) == "abbaab"
    assert found == {"a": [1.0] * 3, "b": [1.0] * 3}


def test_ratios_are_those_of_one_round() -> None:
    lines = table({"now": [0.1, 0.4, 0.3], "earlier": [0.2, 0.4, 0.1]}, "earlier").splitlines()
    assert lines[2:] == ["| now | 300 | 100 to 400 | 1.00 |", "| earlier | 200 | 100 to 400 | 1.00 |"]


def test_a_start_takes_more_cpu_than_python_alone(tmp_path: Path) -> None:
    (tmp_path / "quotas.toml").write_text("[brokers.101]\nleader.replication.throttled.rate = 1000000\n")
    assert python(PROGRAMS, "pass") < started(PROGRAMS, tmp_path, tls=False)


def test_a_sidecar_that_does_not_start_is_told(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match="found status 1"):
        started(PROGRAMS, tmp_path, tls=True)  # there are no keys

"""What a start costs is measured in turns, on processes of their own."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click
import pytest

from benchmarks.start import measure, python, started, table
from tests.benchmarks.orphans import left_behind

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


START = """
import threading, time
from pathlib import Path
from benchmarks.start import started

home = Path({home!r})

def tell():
    while not (home / "pid").exists() or not (home / "pid").read_text().endswith("\\n"):
        time.sleep(0.01)
    print((home / "pid").read_text(), flush=True, end="")

threading.Thread(target=tell, daemon=True).start()
started(home, home, tls=False)
"""


def test_a_sidecar_does_not_outlive_its_benchmark(tmp_path: Path) -> None:
    program = tmp_path / "throttle-sidecar"
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    program.chmod(0o755)
    assert left_behind(START.format(home=str(tmp_path))) == []

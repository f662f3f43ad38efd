from __future__ import annotations

import dataclasses

import pytest

from benchmarks.byte_path.loads import Load
from benchmarks.byte_path.report.growth import fit, idle_table, slope_table, slopes
from benchmarks.byte_path.runs import Result
from benchmarks.byte_path.usage import Memory, Usage


def _run(partitions: int, cpu_us: float) -> Result:
    load = Load(f"{partitions} partitions", partitions, 64)
    proxy = Usage(cpu_us * 100 / 1e6, 200)
    return Result("decoded", load, 10.0, 10_000, 100, 50.0, 60.0, proxy, Usage(), Memory(), 0.0)


def test_a_line_is_found() -> None:
    line = fit([(1, 52.0), (10, 70.0), (1000, 2050.0)])
    assert line.per_fetch_us == pytest.approx(50)
    assert line.per_partition_us == pytest.approx(2)
    assert line.r_squared == pytest.approx(1)


def test_medians_are_taken_per_number_of_partitions() -> None:
    runs = [_run(100, 200.0), _run(1, 30.0), _run(1, 20.0), _run(1, 10.0)]
    found = slopes(runs)
    assert list(found) == [("decoded", False)]
    assert found["decoded", False] == [(1, pytest.approx(20)), (100, pytest.approx(200))]
    assert slope_table(runs).splitlines()[0::2] == [
        "| CPU µs per fetch | 1 | 100 | per fetch | per partition | R² |",
        "| decoded, behind | 20 | 200 | 18 | 1.818 | 1.000 |",
    ]


def test_idle_fetchers_are_shares_of_a_core() -> None:
    run = _run(1000, 500.0)
    idle = dataclasses.replace(run, load=dataclasses.replace(run.load, connections=8))
    assert idle_table([idle]).splitlines()[2] == "| 1000 partitions, 8 connections | 0.50 | 10.0 | 500 |"

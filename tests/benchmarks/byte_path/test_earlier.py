"""Ratios of pairs of runs, and the sidecar of another checkout."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from benchmarks.byte_path import earlier
from benchmarks.byte_path.earlier import CONTROL, EARLIER, compare, of_clone, table
from benchmarks.byte_path.loads import SMALL
from benchmarks.byte_path.peers import PEERS
from benchmarks.byte_path.runs import Result
from benchmarks.byte_path.usage import Memory, Usage


def _run(peer: str, cpu_seconds: float, fetches: int = 1000) -> Result:
    return Result(
        peer=peer, load=SMALL, seconds=1.0, bytes=1000, fetches=fetches, p50_us=40.0, p99_us=None,
        proxy=Usage(cpu_seconds, 1), pair=Usage(0.1, 1), memory=Memory(), others_cores=0.0,
    )  # fmt: skip


def test_each_run_is_compared_with_the_one_beside_it() -> None:
    """The second round was slower by half for everybody, which no ratio shows."""
    runs = [
        _run("opaque", 0.11), _run("opaque" + EARLIER, 0.1), _run("opaque" + CONTROL, 0.11),
        _run("opaque" + CONTROL, 0.165), _run("opaque" + EARLIER, 0.15, fetches=2000), _run("opaque", 0.165),
    ]  # fmt: skip
    [found] = compare(runs)
    assert found.cpu == pytest.approx([1.1, 2.2])
    assert found.cpu_of_control == pytest.approx([1.0, 1.0])
    assert found.time == pytest.approx([1.0, 2.0])
    assert table([found]).splitlines()[2] == (
        "| opaque | small fetch | 1.650 (1.38 to 1.93) | 1.000 (1.00 to 1.00) "
        "| 1.500 (1.25 to 1.75) | 1.000 (1.00 to 1.00) |"
    )


def test_one_pair_has_no_spread() -> None:
    runs = [_run("opaque", 0.11), _run("opaque" + EARLIER, 0.1), _run("opaque" + CONTROL, 0.11)]
    assert table(compare(runs)).splitlines()[2] == "| opaque | small fetch | 1.100 | 1.000 | 1.000 | 1.000 |"


def test_what_was_not_set_up_is_named(tmp_path: Path) -> None:
    with pytest.raises(click.BadParameter, match=r"expected a clone after `make setup`, found no .*throttle-sidecar"):
        of_clone(PEERS["opaque"], tmp_path)


def test_this_checkout_beside_itself(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parent.parent)
    options = ["--peers", "opaque", "--loads", SMALL.name, "--starts", "1", "--rounds", "2", "--seconds", "1"]
    done = CliRunner().invoke(earlier.main, [str(tmp_path), *options])
    assert done.exit_code == 0, done.output
    assert "1 starts of 2 rounds of 1 s." in done.output
    *_, row = done.output.splitlines()
    ratios = [float(cell.split()[0]) for cell in row.split("|")[3:-1]]
    assert row.startswith("| opaque | small fetch | ")
    assert len(ratios) == 4
    assert all(0.1 < ratio < 10 for ratio in ratios)

"""Ratios of pairs of runs, and the sidecar of another commit."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from benchmarks.byte_path.contenders.peer import Peer, Place
from benchmarks.byte_path.earlier import CONTROL, EARLIER, compare, of_tree, table, unpack
from benchmarks.byte_path.loads import SMALL
from benchmarks.byte_path.runs import Result
from benchmarks.byte_path.usage import Memory, Usage

if TYPE_CHECKING:
    from pathlib import Path


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
    assert found.throughput == pytest.approx([1.0, 0.5])
    assert table([found]).splitlines()[2] == (
        "| opaque | small fetch | 0.750 (0.62 to 0.88) | 1.000 (1.00 to 1.00) "
        "| 1.650 (1.38 to 1.93) | 1.000 (1.00 to 1.00) |"
    )


def test_one_pair_has_no_spread() -> None:
    runs = [_run("opaque", 0.11), _run("opaque" + EARLIER, 0.1), _run("opaque" + CONTROL, 0.11)]
    assert table(compare(runs)).splitlines()[2] == "| opaque | small fetch | 1.000 | 1.000 | 1.100 | 1.000 |"


def test_a_commit_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(click.BadParameter, match=r"expected a commit, found 'v0\.0'"):
        unpack("v0.0", tmp_path)


def test_the_earlier_process_runs_the_earlier_code(tmp_path: Path) -> None:
    (tmp_path / "proxy").mkdir()
    (tmp_path / "proxy" / "__init__.py").write_text("raise SystemExit('the earlier code')")
    here = Peer("here", "", lambda _: [sys.executable, "-P", "-c", "import proxy"], lambda: "")
    command = of_tree(here, tmp_path).command
    assert command is not None
    done = subprocess.run(command(Place(tmp_path, [], 0, 0)), capture_output=True, text=True, check=False)
    assert done.stderr == "the earlier code\n"

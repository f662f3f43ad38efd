from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from benchmarks.byte_path.loads import BULK, SMALL, Load
from benchmarks.byte_path.report.document import main
from benchmarks.byte_path.report.summary import MIB, memory_table, over_time, ratio_table, variants
from benchmarks.byte_path.runs import Machine, Result, RunsFile
from benchmarks.byte_path.usage import Memory, Usage

if TYPE_CHECKING:
    from pathlib import Path


def _run(peer: str, load: Load, *, cpu: float, size: int = 10**9, held_mib: int = 5) -> Result:
    held = Memory(held_mib << 20, held_mib << 20)
    return Result(peer, load, 1.0, size, 1000, 100.0 * cpu, 200.0, Usage(cpu, 1), Usage(), held, 0.0)


RUNS = [
    _run("haproxy", BULK[0], cpu=1.0),
    _run("haproxy", SMALL, cpu=0.5),
    _run("decoded", BULK[0], cpu=0.25, size=2 * 10**9),
    _run("decoded", SMALL, cpu=1.0),
]
EIGHT = Load(BULK[0].name, 1, 10_000_000, connections=8)


def test_every_load_is_a_column() -> None:
    assert ratio_table(RUNS).splitlines() == [
        "| | 1 x 10 MB | small fetch |",
        "|---|---|---|",
        "| haproxy | 1.00 / 1.00 | 1.00 / 1.00 |",
        "| decoded | 2.00 / 0.12 | 2.00 / 2.00 |",
    ]


def test_runs_that_differ_in_more_than_their_load_are_apart() -> None:
    buffers = Load(BULK[0].name, 1, 10_000_000, kafka_buffers=True)
    found = variants([*RUNS, _run("haproxy", EIGHT, cpu=1), _run("haproxy", buffers, cpu=1)])
    assert {title: len(runs) for title, runs in found.items()} == {
        "1 connection": 4,
        "8 connections": 1,
        "1 connection, socket buffers as brokers set them": 1,
    }


def test_the_most_memory_of_any_load_is_told() -> None:
    runs = [_run("decoded", BULK[0], cpu=1, held_mib=40), _run("decoded", SMALL, cpu=1), _run("decoded", EIGHT, cpu=1)]
    assert memory_table(runs).splitlines()[2:] == ["| decoded | 40 | 5 |"]


def test_what_is_held_over_time_is_told() -> None:
    samples = [(at, Memory(0, held * MIB)) for at, held in ((5.0, 40), (300.0, 44), (600.0, 43))]
    assert over_time("decoded, 8", samples) == "decoded, 8: 40 MiB (PSS) at first, 43 after 10 minutes, 44 at most."


def _file(folder: Path) -> Path:
    path = folder / "runs.jsonl"
    file = RunsFile(path, "byte path")
    for version in ("HAProxy 2.6", "HAProxy 3.0", "HAProxy 2.6"):
        file.add_machine(Machine(2, "6.1", "bbr", {"haproxy": version}))
    for run in RUNS:
        file.add(run)
    return path


def test_it_is_printed(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, [str(_file(tmp_path))])
    assert result.exit_code == 0
    assert "congestion control bbr" in result.output
    assert "* haproxy: HAProxy 2.6; HAProxy 3.0\n" in result.output
    assert "**1 connection**, medians of 1 rounds" in result.output


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("", "hold no runs: expected what --json"), ("pie\n", "runs.jsonl:1: expected a row of byte_path, found 'pie'")],
)
def test_files_that_hold_nothing_of_ours(tmp_path: Path, content: str, complaint: str) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(content)
    result = CliRunner().invoke(main, [str(path)])
    assert result.exit_code == 1
    assert complaint in result.output

"""The command line: what is typed wrong is said at once, and what was found is told whatever ends the run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import trio
from click.testing import CliRunner

from fuzz import cli
from fuzz.campaign import Result
from fuzz.reporting import from_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fuzz.running import Order


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text("# Neither\n")
    (tmp_path / "mode.json").write_text(json.dumps({"format": 1, "mode": "another", "cases": []}))
    (tmp_path / "results.jsonl").write_bytes(b"\xff\n")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--at-once 0", "0 is not in the range x>=1"),
        ("--requests -1", "-1 is not in the range x>=0"),
        ("--memory 0", "0 is not in the range x>=1"),
        ("--sum {}/README.md", "README.md: expected lines that a run wrote with --json"),
        ("--sum {}/results.jsonl", "results.jsonl: expected lines that a run wrote with --json"),
        ("--sum {}", "is a directory"),
        ("--replay {}/README.md", "README.md: not a corpus file of this fuzzer"),
        ("--replay {}/mode.json", "mode.json: expected one of the modes none, quotas"),
        ("--replay {}", "is a directory"),
        ("--json {}/missing/results.jsonl", "expected a folder to write into, found none:"),
    ],
)
def test_what_is_typed_wrong_is_said_before_anything_runs(arguments: str, message: str, files: Path) -> None:
    done = CliRunner().invoke(cli.main, [part.format(files) for part in arguments.split()])
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())


def test_what_was_found_is_told_when_a_run_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole run takes half an hour. Ctrl-C leaves a nursery in a group."""

    async def run(_: Order, say: Callable[[str], None], results: list[Result]) -> None:
        results.append(Result("requests", "none", things=1234))
        async with trio.open_nursery():
            say("half of it is done")
            raise KeyboardInterrupt

    monkeypatch.setattr(cli, "run", run)
    done = CliRunner().invoke(cli.main, ["--json", str(tmp_path / "results.jsonl")])
    assert done.exit_code == 130
    assert "| requests | none | 1 234 |" in done.stdout
    assert "stopped: what was not finished is not in the table" in done.stderr
    assert [result.things for result in from_json((tmp_path / "results.jsonl").read_text())] == [1234]

"""`throttle-sidecar demo`, met as a user meets it."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.demo.command import command
from tests.lab.test_stopping import HEARS_SIGHUP

WORST_SECOND = 1.6
"""The promise is 1.3, and tests/system holds it to that on the wire; here a follower that a busy machine stops for a
moment sees two moments' bytes in one."""
SCRIPT = str(Path(sys.executable).with_name("throttle-sidecar"))


def run(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, **({} if path is None else {"PATH": path})}
    return subprocess.run([SCRIPT, "demo", *arguments], capture_output=True, text=True, timeout=50, env=environ)


def test_the_embedded_demo_keeps_to_both_quotas_loses_nothing_and_leaves_a_whole_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    sizes = ("--mib", "12", "--first", "4", "--raised", "8")
    done = run("--kafka", "embedded", *sizes, "--journal", str(journal), "--json")
    assert done.returncode == 0, done.stderr
    ending = json.loads(done.stdout)
    assert [check["holds"] for check in ending["checks"]] == [True, True]
    for phase in ending["phases"]:
        assert phase["worst_second_over_quota"] <= WORST_SECOND
    assert "quotas.toml: leader.replication.throttled.rate" in done.stderr
    assert "ok" in done.stderr
    assert max(map(len, done.stderr.splitlines())) <= 80
    (file,) = journal.iterdir()
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    assert lines[-1]["kind"] == "file_closed"
    assert sum(sum(line.get("second_record_bytes", ())) for line in lines) == ending["total_bytes"]


def test_without_java_it_says_so_and_offers_the_embedded_one(tmp_path: Path) -> None:
    done = run(path=str(tmp_path))
    assert done.returncode == 1
    assert "java" in done.stderr.lower()
    assert "--kafka embedded" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_embedded_one_speaks_plaintext_alone() -> None:
    done = run("--kafka", "embedded", "--security", "mtls")
    assert done.returncode == 2
    assert "--security is for real brokers" in done.stderr


@pytest.mark.parametrize("option", ["--first", "--raised"])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_quota_is_a_finite_number(option: str, value: str) -> None:
    done = CliRunner().invoke(command, ["--kafka", "embedded", option, value])
    assert done.exit_code == 2
    assert f"expected a finite number of MiB/s, found {value}" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_of_a_demo_that_is_stopped(number: signal.Signals, tmp_path: Path) -> None:
    """As `timeout 15 throttle-sidecar demo` does it, or a terminal that is closed."""
    command = [*HEARS_SIGHUP, SCRIPT, "demo", "--kafka", "embedded", "--mib", "64", "--first", "0.25"]
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "quotas.toml" in line:
                break
        assert list(tmp_path.iterdir())
        process.send_signal(number)
        _, complaints = process.communicate(timeout=30)
    assert process.returncode == 1
    assert complaints.strip() == "Aborted!"
    assert list(tmp_path.iterdir()) == []


def test_help_teaches() -> None:
    done = run("--help")
    assert "throttle-sidecar demo --kafka embedded" in done.stdout

"""Started where a standard stream is closed, or cannot show every character, a command does its work all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from subprocess import PIPE

import pytest

from lab.host.addresses import held_ports

from .conftest import PROXY, QUOTAS

LIMIT_SECONDS = 20
PROGRAM = "from operating.cli import main; main()"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "quotas.toml").write_text(QUOTAS)
    (tmp_path / "proxy.toml").write_text(PROXY)
    return tmp_path / "proxy.toml"


def shell(line: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A line of sh with the program as "$@"."""
    command = ["sh", "-c", line, "sh", sys.executable, "-c", PROGRAM, *map(str, arguments)]
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, timeout=LIMIT_SECONDS, env=env, check=False)


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_sidecar_runs_and_takes_no_socket_for_its_output(config: Path, closed: str) -> None:
    with held_ports(1) as (port,):
        run = ["run", "--config", str(config), "--set", f"http.listen=127.0.0.1:{port}"]
        command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", PROGRAM, *run]
        with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE) as process:
            try:
                assert _healthy(f"http://127.0.0.1:{port}/healthz")
                standard = [str(Path(f"/proc/{process.pid}/fd/{number}").readlink()) for number in range(3)]
                process.send_signal(signal.SIGTERM)
                _, errors = process.communicate(timeout=LIMIT_SECONDS)
            finally:
                process.kill()
    assert (process.returncode, errors) == (0, b"")
    assert standard.count("/dev/null") == closed.count("&-"), standard
    assert all(each.startswith(("pipe:", "/dev/null")) for each in standard), standard


def _healthy(url: str) -> bool:
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                return bool(answer.read() == b"ok\n")
        except OSError:
            time.sleep(0.05)
    return False


@pytest.mark.parametrize("command", [("check",), ("check", "--json")])
def test_a_command_says_nothing_and_its_status_tells(config: Path, command: tuple[str, ...]) -> None:
    good = shell('"$@" >&-', *command, "--config", config)
    assert (good.returncode, good.stderr) == (0, b"")
    config.write_text("[broker]")
    bad = shell('"$@" >&- 2>&-', *command, "--config", config)
    assert (bad.returncode, bad.stdout, bad.stderr) == (1, b"", b"")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_a_terminal_has_no_character_for_is_written_as_its_number(config: Path, encoding: str) -> None:
    """A table was a traceback there: an ellipsis of its own is enough."""
    shown = shell('"$@"', "status", "--once", "--url", "http://127.0.0.1:1/東京", PYTHONIOENCODING=encoding)
    assert b"Traceback" not in shown.stderr
    expected = "東京".encode() if encoding == "utf-8" else rb"\u6771\u4eac"
    assert (shown.returncode, expected in shown.stdout) == (1, True), shown.stdout

"""A run of tests that is told to end undoes what its tests have done to the machine."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.source_imports import ROOT

if TYPE_CHECKING:
    from pathlib import Path

WAITS = """
import pathlib, time

import pytest
import trio

@pytest.fixture
def mounted():
    yield
    pathlib.Path("undone").touch()

async def in_nursery():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 50)

def test_waits(mounted):
    pathlib.Path("began").touch()
    {waits}
"""


PYTEST = ["-m", "pytest", "-q", "-p", "tests.conftest", "-c", "/dev/null"]
BESIDE_A_SCRIPT = ["/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh"]
"""As `command &` in a script: it ignores SIGINT."""


@pytest.mark.parametrize("started", [[], BESIDE_A_SCRIPT], ids=["at a terminal", "beside a script"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("waits", ["time.sleep(50)", "trio.run(trio.sleep, 50)", "trio.run(in_nursery)"])
def test_what_was_done_is_undone(number: signal.Signals, waits: str, started: list[str], tmp_path: Path) -> None:
    (tmp_path / "test_waits.py").write_text(WAITS.format(waits=waits))
    command = [*started, sys.executable, *PYTEST, "test_waits.py"]
    with subprocess.Popen(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as running:
        try:
            while not (tmp_path / "began").exists():
                assert running.poll() is None
                time.sleep(0.02)
            running.send_signal(number)
            output, _ = running.communicate(timeout=30)
        finally:
            running.kill()
    assert running.returncode == pytest.ExitCode.INTERRUPTED, output
    assert (tmp_path / "undone").exists()

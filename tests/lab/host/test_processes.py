from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest
import trio

from lab.errors import LabError
from lab.host.processes import Process, accepts_connections, kill_all, wait_until

if TYPE_CHECKING:
    from pathlib import Path

SLEEPER = [sys.executable, "-c", "import time; print('awake', flush=True); time.sleep(60)"]
DEAF = [
    sys.executable,
    "-c",
    ("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);print('deaf', flush=True); time.sleep(60)"),
]


async def said(process: Process, word: str, *, times: int = 1) -> None:
    await wait_until(
        lambda: process.last_lines().count(word) == times,
        process=process,
        what=f"it said {word}",
        timeout_seconds=10,
    )


async def test_start_stop_and_start_again(tmp_path: Path) -> None:
    process = Process("sleeper", SLEEPER, output=tmp_path / "log")
    for life in (1, 2):
        process.start()
        assert process.running
        assert process.resident_bytes() > 0
        assert process.waited_seconds() >= 0.0
        await said(process, "awake", times=life)
        await process.terminate(grace_seconds=10)
        assert process.exit_status == -signal.SIGTERM


async def test_who_does_not_listen_is_killed(tmp_path: Path) -> None:
    process = Process("deaf", DEAF, output=tmp_path / "log")
    process.start()
    await said(process, "deaf")
    await process.terminate(grace_seconds=0.1)
    assert process.exit_status == -signal.SIGKILL


async def test_an_early_end_is_told_with_its_last_words(tmp_path: Path) -> None:
    process = Process("hasty", [sys.executable, "-c", "print('no room'); exit(3)"], output=tmp_path / "log")
    process.start()
    with pytest.raises(LabError, match=r"hasty ended with status 3 before listening(.|\n)*no room"):
        await wait_until(lambda: False, process=process, what="listening", timeout_seconds=10)


async def test_waiting_ends(tmp_path: Path) -> None:
    process = Process("sleeper", SLEEPER, output=tmp_path / "log")
    process.start()
    try:
        with pytest.raises(LabError, match="took longer than"):
            await wait_until(lambda: False, process=process, what="listening", timeout_seconds=0.1)
    finally:
        await process.kill()


def test_a_process_that_is_not_there(tmp_path: Path) -> None:
    process = Process("nobody", SLEEPER, output=tmp_path / "log")
    assert (process.running, process.exit_status) == (False, None)
    assert "never written" in process.last_lines()
    with pytest.raises(LabError, match="nobody is not running"):
        process.resident_bytes()


async def test_children_die_with_the_lab(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from lab.host.processes import Process\n"
        f"p = Process('c', {SLEEPER!r}, output=Path({str(tmp_path / 'child')!r})); p.start()\n"
        "print(p.pid, flush=True); time.sleep(60)"
    )
    lab = Process("lab", [sys.executable, "-c", script], output=tmp_path / "log")
    lab.start()
    await wait_until(lambda: lab.last_lines().strip().isdigit(), process=lab, what="it started", timeout_seconds=10)
    child = psutil.Process(int(lab.last_lines()))
    # Until it is what it was started as, nothing has asked the kernel yet to end it with its parent.
    await wait_until(lambda: child.cmdline() == list(SLEEPER), process=lab, what="it slept", timeout_seconds=10)
    os.kill(lab.pid, signal.SIGKILL)
    with trio.fail_after(10):
        await lab.wait_exit()
        await trio.to_thread.run_sync(lambda: child.wait(timeout=5))
    assert not child.is_running()


def test_kill_all_is_synchronous(tmp_path: Path) -> None:
    several = [Process(str(n), DEAF, output=tmp_path / str(n)) for n in range(2)]
    for process in several:
        process.start()
    started = time.monotonic()
    kill_all(several)
    assert not any(process.running for process in several)
    assert time.monotonic() - started < 5


def test_accepts_connections() -> None:
    assert not accepts_connections("127.99.99.99", 9)

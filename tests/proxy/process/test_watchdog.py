from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from proxy.process.watchdog import EXIT_STATUS, LOOK_SECONDS, STALL_SECONDS, Watchdog, stack_of

from ..recorded_log import RecordedLog

if TYPE_CHECKING:
    from pathlib import Path

LOOKS = round(STALL_SECONDS / LOOK_SECONDS)


class Ended:
    def __init__(self) -> None:
        self.log = RecordedLog()
        self.times = 0
        self.dog = Watchdog(self.log, self.end)

    def end(self) -> None:
        self.times += 1

    def look(self, times: int, slept_seconds: float = LOOK_SECONDS) -> None:
        for _ in range(times):
            self.dog.look(slept_seconds)


def test_a_loop_that_beats_no_more_is_told_with_its_stack_and_ends_the_process_once() -> None:
    ended = Ended()
    ended.dog.beat()
    ended.look(LOOKS)
    assert ended.times == 0
    ended.look(1)
    assert ended.times == 1
    (keys,) = ended.log.lines
    assert keys["stalled_seconds"] == 5.0
    assert "test_a_loop_that_beats_no_more" in str(keys["stack"])
    ended.look(LOOKS)
    assert ended.times == 1


def test_a_loop_that_beats_before_it_is_too_late_begins_anew() -> None:
    ended = Ended()
    for _ in range(5):
        ended.dog.beat()
        ended.look(LOOKS)
    assert ended.times == 0


def test_a_loop_that_has_not_begun_or_has_ended_in_order_does_not_stall() -> None:
    ended = Ended()
    ended.look(10 * LOOKS)
    ended.dog.beat()
    ended.look(2)
    ended.dog.rest()
    ended.look(10 * LOOKS)
    assert ended.times == 0


def test_time_in_which_the_process_was_stopped_or_starved_is_not_the_loops() -> None:
    ended = Ended()
    ended.dog.beat()
    ended.look(5, slept_seconds=3600.0)
    assert ended.times == 0


def test_a_thread_that_has_ended_has_no_stack() -> None:
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    assert stack_of(thread.ident or 0) == ""


BLOCKS = """
import signal, time, trio
from proxy.process import watchdog
watchdog.STALL_SECONDS = 1.0
run = watchdog.Heartbeat.run

async def hangs(self):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, self)
        await trio.sleep(1)
        while True:
            time.sleep(0.01)

watchdog.Heartbeat.run = hangs if {hangs} else run
from operating.cli import main
main()
"""


def start(folder: Path, *, hangs: bool) -> subprocess.Popen[str]:
    (folder / "quotas.toml").write_text("# none\n")
    (folder / "proxy.toml").write_text(
        '[broker]\nid = 1\n[ingress]\nlisten = "127.0.0.1:0"\nupstream = "127.0.0.1:9"\n'
        '[http]\nlisten = "127.0.0.1:0"\n'
    )
    command = [sys.executable, "-c", BLOCKS.format(hangs=hangs), "run", "--config", str(folder / "proxy.toml")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_process_whose_loop_hangs_says_where_and_ends(tmp_path: Path) -> None:
    with start(tmp_path, hangs=True) as process:
        try:
            output, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == EXIT_STATUS == os.EX_SOFTWARE
    line = json.loads(output.splitlines()[-1])
    assert line["event"] == "loop_stalled"
    # Python 3.13 shows the lines of a program that was given by -c.
    assert re.search(r"in hangs(\n +time\.sleep\(0\.01\))?$", line["stack"].rstrip())


@pytest.mark.parametrize("stopped_seconds", [2.5])
def test_a_process_that_was_stopped_for_longer_goes_on(stopped_seconds: float, tmp_path: Path) -> None:
    with start(tmp_path, hangs=False) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["event"] == "started"
            time.sleep(0.5)
            process.send_signal(signal.SIGSTOP)
            time.sleep(stopped_seconds)
            process.send_signal(signal.SIGCONT)
            time.sleep(1.0)
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        finally:
            process.kill()

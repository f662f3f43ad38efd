"""Commands of the lab that are ended before their time, in a process of their own, as a shell ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from lab.errors import LabError
from lab.stopping import messages

WAITING = """
import signal, sys, trio
from lab.cli import _run

async def work():
    try:
        print("at work", flush=True)
        async with trio.open_nursery():
            await trio.sleep_forever()
    finally:
        print("left in order", flush=True)

_run(work)
"""
FAILING = """
import trio
from lab.cli import _run
from lab.errors import LabError

async def work():
    try:
        async with trio.open_nursery():
            raise LabError("the broker is gone")
    except BaseException as error:
        error.add_note("its files are kept")
        raise

_run(work)
"""


HEARS_SIGHUP = ("env", "--default-signal=HUP")
"""Under nohup these tests ignore SIGHUP, and so would what they start."""


def stopped_by(number: int) -> subprocess.CompletedProcess[str]:
    command = [*HEARS_SIGHUP, sys.executable, "-c", WAITING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        process.send_signal(number)
        said, complaints = process.communicate(timeout=20)
    return subprocess.CompletedProcess(command, process.returncode, said, complaints)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whoever_stops_a_command_is_told_that_it_stopped(number: signal.Signals) -> None:
    done = stopped_by(number)
    assert (done.returncode, done.stdout, done.stderr) == (130, "left in order\n", "stopped\n")


def test_under_nohup_a_terminal_may_go() -> None:
    """SIGHUP is ignored there, and only SIGTERM, which comes later, ends it."""
    command = [sys.executable, "-c", WAITING]
    with subprocess.Popen(["nohup", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        os.kill(process.pid, signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.terminate()
        process.communicate(timeout=20)
    assert process.returncode == 130


def test_an_error_within_a_nursery_is_told_like_any_other() -> None:
    done = subprocess.run([sys.executable, "-c", FAILING], capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: the broker is gone\nits files are kept\n"


def test_each_error_of_a_group_is_told_with_its_notes() -> None:
    first, second = LabError("no Java"), LabError("no Maven")
    first.add_note("install it")
    assert messages(ExceptionGroup("two", [first, ExceptionGroup("one", [second])])) == [
        "no Java", "install it", "no Maven",
    ]  # fmt: skip

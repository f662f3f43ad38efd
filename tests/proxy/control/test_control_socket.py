"""control.sock: who may ask there, what happens to what a dead sidecar left, and that HTTP load does not delay it."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from operating.asking import ask
from proxy.control.control_socket import open_control
from proxy.control.directory import control_path, short_path
from proxy.errors import ConfigurationError, UnreachableError
from proxy.http.authorization import Trust
from proxy.http.loop_share import LoopShare
from proxy.http.routing import Routes
from tests.proxy.http.serving import ROUTES
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ANOTHER_USER = """
import os
os.setgroups([]), os.setgid(65532), os.setuid(65532)
"""
ROOT_OF_ANOTHER_CONTAINER = """
import ctypes, os
os.setgroups([]), os.setgid(65532), os.setuid(65532)
if ctypes.CDLL(None, use_errno=True).unshare(0x10000000):  # CLONE_NEWUSER
    raise OSError(ctypes.get_errno(), "no namespace of users can be made here")
ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE: /proc/self is its own again
open("/proc/self/setgroups", "w").write("deny")
open("/proc/self/uid_map", "w").write("0 65532 1")
open("/proc/self/gid_map", "w").write("0 65532 1")
assert os.getuid() == 0
"""
CONNECT = """
with socket.socket(socket.AF_UNIX) as client:
    try:
        client.connect(sys.argv[1])
        client.sendall(b"GET /up HTTP/1.1\\r\\nhost: localhost\\r\\n\\r\\n")
        print(client.recv(100) or b"closed")
    except OSError as error:
        print(type(error).__name__)
"""


@pytest.fixture
def log() -> RecordedLog:
    return RecordedLog()


@asynccontextmanager
async def served(directory: Path, log: RecordedLog) -> AsyncIterator[None]:
    server = open_control(directory, log=log)
    assert server is not None
    with closing(server):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(server.run, Routes(ROUTES), trust=Trust([]), turn=LoopShare()))
            yield
            nursery.cancel_scope.cancel()


def connects(who: str, path: str, *within: str) -> str:
    command = [*within, sys.executable, "-I", "-c", f"import socket, sys\n{who}{CONNECT}", path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def open_to_all(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder.name.startswith(("pytest", "test", "popen")):
            folder.chmod(0o755)


async def test_it_answers_our_own_user_without_a_token(tmp_path: Path, log: RecordedLog) -> None:
    async with served(tmp_path / "101", log):
        for page in ("/up", "/up/again"):
            assert await trio.to_thread.run_sync(ask, f"unix:{tmp_path / '101'}", page) == b"up"
    assert stat.S_IMODE(control_path(tmp_path / "101").stat().st_mode) == 0o600


STRANGERS = {"another user": ANOTHER_USER, "root of another container": ROOT_OF_ANOTHER_CONTAINER}
"""Root of a container's namespace of users is who made that namespace."""


@pytest.mark.parametrize("who", STRANGERS.values(), ids=STRANGERS.keys())
async def test_a_stranger_cannot_connect(tmp_path: Path, log: RecordedLog, who: str) -> None:
    open_to_all(tmp_path)
    async with served(tmp_path / "101", log):
        said = await trio.to_thread.run_sync(connects, who, str(control_path(tmp_path / "101")))
    assert said == "PermissionError"


@pytest.mark.parametrize("who", STRANGERS.values(), ids=STRANGERS.keys())
async def test_a_stranger_who_gets_to_the_socket_is_refused(tmp_path: Path, log: RecordedLog, who: str) -> None:
    open_to_all(tmp_path)
    async with served(tmp_path / "101", log):
        (tmp_path / "101").chmod(0o755)
        control_path(tmp_path / "101").chmod(0o666)
        said = await trio.to_thread.run_sync(connects, who, str(control_path(tmp_path / "101")))
    assert said in ("b'closed'", "ConnectionResetError", "BrokenPipeError")
    assert "uid 65532" in str(log.lines)


async def test_a_container_without_the_directory_finds_no_socket(tmp_path: Path, log: RecordedLog) -> None:
    """In the same network namespace, as in a pod, and as root: an abstract socket would be there."""
    directory = tmp_path / "101"
    elsewhere = ("unshare", "--mount", "sh", "-ec", 'mount -t tmpfs none "$0"; exec "$@"', str(directory))
    async with served(directory, log):
        before = await trio.to_thread.run_sync(connects, "", str(control_path(directory)))
        said = await trio.to_thread.run_sync(connects, "", str(control_path(directory)), *elsewhere)
        names = [line.split()[-1] for line in (await trio.Path("/proc/net/unix").read_text()).splitlines()]
    assert (before[:17], said) == ("b'HTTP/1.1 200 OK", "FileNotFoundError")
    assert not [name for name in names if name.startswith("@") and "throttle" in name]


def test_the_socket_of_a_dead_sidecar_is_replaced(tmp_path: Path, log: RecordedLog) -> None:
    first = open_control(tmp_path / "101", log=log)
    assert first is not None
    first.close()
    second = open_control(tmp_path / "101", log=log)
    assert second is not None
    second.close()


def test_a_second_sidecar_is_refused(tmp_path: Path, log: RecordedLog) -> None:
    first = open_control(tmp_path / "101", log=log)
    assert first is not None
    with closing(first), pytest.raises(ConfigurationError, match=rf"pid {os.getpid()}, uid 0 serves there"):
        open_control(tmp_path / "101", log=log)


def test_a_file_in_place_of_a_folder_does_not_end_a_start(tmp_path: Path, log: RecordedLog) -> None:
    (tmp_path / "file").touch()
    assert open_control(tmp_path / "file" / "101", log=log) is None
    assert log.events == ["control_unavailable"]


def test_nobody_there_is_an_error_that_names_the_directory(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match="no answer from a sidecar"):
        ask(f"unix:{tmp_path}", "/up")


async def test_a_peer_that_closes_at_once_costs_nothing(tmp_path: Path, log: RecordedLog) -> None:
    async with served(tmp_path / "101", log):
        for _ in range(50):
            with socket.socket(socket.AF_UNIX) as client, short_path(control_path(tmp_path / "101")) as path:
                client.connect(path)
        for page in ("/up", "/up/again"):
            assert await trio.to_thread.run_sync(ask, f"unix:{tmp_path / '101'}", page) == b"up"

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from proxy.process.service_manager import ServiceManager

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("abstract", [False, True])
def test_the_socket_that_the_environment_names_hears_of_it(tmp_path: Path, *, abstract: bool) -> None:
    name = f"throttle-{os.getpid()}"
    path = "@" + name if abstract else str(tmp_path / "notify")
    now = [100.0]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name if abstract else path)
        manager.settimeout(1.0)
        told = ServiceManager({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "4000000"}, now=lambda: now[0])
        told.ready()
        for second in range(5):  # twice in each 4 s
            now[0] = 100.0 + second
            told.beat()
        told.stopping()
        heard = [manager.recv(100) for _ in range(5)]
        manager.settimeout(0)
        with pytest.raises(BlockingIOError):
            manager.recv(100)
    assert heard == [b"READY=1", *3 * [b"WATCHDOG=1"], b"STOPPING=1"]


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"NOTIFY_SOCKET": "/nowhere/notify", "WATCHDOG_USEC": "1000000"},
        {"NOTIFY_SOCKET": "/nowhere/" + "x" * 200, "WATCHDOG_USEC": "-1"},
        {"NOTIFY_SOCKET": "a\0b", "WATCHDOG_USEC": "9" * 5000},
    ],
)
def test_a_manager_that_does_not_listen_costs_nothing(environ: dict[str, str]) -> None:
    told = ServiceManager(environ)
    told.ready()
    told.beat()
    told.stopping()


def test_the_watchdog_of_another_process_hears_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(0)
        ServiceManager({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}).beat()
        with pytest.raises(BlockingIOError):
            manager.recv(100)

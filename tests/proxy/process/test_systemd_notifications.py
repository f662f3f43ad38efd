from __future__ import annotations

import os
import resource
import socket
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING

import pytest

from proxy.errors import ConfigurationError
from proxy.process.systemd import ServiceManager, refuse_passed_sockets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Made = Callable[..., ServiceManager]


@pytest.fixture
def made() -> Iterator[Made]:
    with ExitStack() as kept:
        yield lambda *arguments, **named: kept.enter_context(closing(ServiceManager(*arguments, **named)))


@pytest.mark.parametrize("abstract", [False, True])
def test_the_socket_that_the_environment_names_hears_of_it(made: Made, tmp_path: Path, *, abstract: bool) -> None:
    name = f"throttle-{os.getpid()}"
    path = "@" + name if abstract else str(tmp_path / "notify")
    now = [100.0]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name if abstract else path)
        manager.settimeout(1.0)
        told = made({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "4000000"}, now=lambda: now[0])
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
def test_a_manager_that_does_not_listen_costs_nothing(made: Made, environ: dict[str, str]) -> None:
    told = made(environ)
    told.ready()
    told.beat()
    told.stopping()


def test_the_watchdog_of_another_process_hears_nothing(made: Made, tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(0)
        made({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}).beat()
        with pytest.raises(BlockingIOError):
            manager.recv(100)


def test_it_is_told_that_the_loop_turns_also_where_no_descriptor_is_left(made: Made, tmp_path: Path) -> None:
    """Each message took a socket of its own: a sidecar without a free descriptor was killed by its own watchdog."""
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(1.0)
        told = made({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000"})
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
        try:
            told.beat()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert manager.recv(100) == b"WATCHDOG=1"


def test_what_a_full_queue_did_not_take_is_said_at_the_next_beats(made: Made, tmp_path: Path) -> None:
    """Of systemd's queue: READY=1 that was lost ended the start by its time-out."""
    path = str(tmp_path / "notify")
    now = [100.0]
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as others,
    ):
        manager.bind(path)
        manager.settimeout(0)
        others.settimeout(0)
        told = made({"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "4000000"}, now=lambda: now[0])
        with suppress(BlockingIOError):
            while True:
                others.sendto(b"full", path)
        told.ready()
        for _ in range(100):
            now[0] += 1.0
            told.beat()
        assert set(_heard(manager)) == {b"full"}
        told.beat()
        assert _heard(manager) == [b"READY=1", b"WATCHDOG=1"]


def _heard(manager: socket.socket) -> list[bytes]:
    heard = []
    while True:
        try:
            heard.append(manager.recv(100))
        except BlockingIOError:
            return heard


def test_sockets_that_systemd_holds_are_refused_with_what_to_do() -> None:
    """Its own listeners would find the addresses in use."""
    with pytest.raises(ConfigurationError, match=r"systemctl disable --now kafka-throttle-sidecar\.socket"):
        refuse_passed_sockets({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2"})
    refuse_passed_sockets({"LISTEN_PID": "1", "LISTEN_FDS": "2"})  # another process'
    refuse_passed_sockets({})

"""A read that does not end is made to find an end, and its socket is as before afterwards."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from proxy.tls.tls_watchdog import LOOK_SECONDS, TlsWatchdog
from tests.open_files import open_files

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, peers = socket.socketpair()
    with ours, peers:
        ours.settimeout(0)
        yield ours, peers


def busy(seconds: float) -> None:
    """Of a core."""
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        sum(range(100))


def test_a_call_that_is_short_is_left_alone(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, peers = ends
    watchdog = TlsWatchdog()
    for number in range(3):
        watchdog.begin(ours.fileno(), 10.0)
        peers.send(bytes([number]))
        assert ours.recv(10) == bytes([number])
        assert not watchdog.end()


def test_a_call_that_waits_for_a_core_is_left_alone(ends: tuple[socket.socket, socket.socket]) -> None:
    """A machine may be busy, a process stopped."""
    ours, _ = ends
    watchdog = TlsWatchdog()
    watchdog.begin(ours.fileno(), 0.5)
    time.sleep(10 * LOOK_SECONDS)
    assert not watchdog.end()


def test_a_call_that_goes_on_finds_an_end_and_the_socket_is_back_afterwards(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    ours, peers = ends
    watchdog = TlsWatchdog()
    open_before = None
    for _ in range(3):
        watchdog.begin(ours.fileno())
        found = None
        for _ in range(1000):
            busy(0.005)
            peers.send(b"x")
            found = os.read(ours.fileno(), 10)
            if not found:
                break
        assert found == b""
        assert watchdog.end()
        assert not watchdog.end()
        peers.send(b"still")
        assert ours.recv(10).endswith(b"still")
        # The first time it got a socket and a thread of its own, which stay.
        found_open = open_files()
        assert found_open - (open_before or found_open) == set()
        open_before = found_open
    assert sum(thread.name == "tls_watchdog" for thread in threading.enumerate()) >= 1

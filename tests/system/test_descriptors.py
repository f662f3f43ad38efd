"""Thousands of connections come and go, large responses and torn ones among them; descriptors and memory stay."""

from __future__ import annotations

import itertools
import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.byte_path.contenders.every_peer import PEERS
from benchmarks.byte_path.follower import Fetcher
from benchmarks.byte_path.loads import SMALL, Load
from benchmarks.byte_path.running import running
from benchmarks.byte_path.usage import memory

if TYPE_CHECKING:
    from benchmarks.byte_path.running import Contender

SPLICED = Load("spliced", partitions=2, record_bytes=300_000)
MIB = 1024 * 1024
LOOK_SECONDS, STILL_LOOKS, MAX_LOOKS = 0.05, 40, 400
"""Two seconds without a change, within twenty: a busy machine pauses for half a second."""
ABORTED = struct.pack("ii", 1, 0)
"""SO_LINGER: close() resets the connection."""


def _descriptors(contender: Contender) -> int:
    (pid,) = contender.pids()
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _settled(contender: Contender) -> int:
    """What is open once that has stayed the same for a while: the ends of connections are noticed later."""
    looks = [_descriptors(contender)]
    while len(looks) < MAX_LOOKS and looks[-STILL_LOOKS:] != looks[-1:] * STILL_LOOKS:
        time.sleep(LOOK_SECONDS)
        looks.append(_descriptors(contender))
    return looks[-1]


def _until(contender: Contender, count: int) -> None:
    """Wait until so many are open. They only become fewer by now, so what is left over is never that many."""
    looks = [_descriptors(contender)]
    while len(looks) < MAX_LOOKS and looks[-1] != count:
        time.sleep(LOOK_SECONDS)
        looks.append(_descriptors(contender))
    assert looks[-1] == count, looks


def _connect(contender: Contender, count: int) -> None:
    """One after the other: a small fetch, a spliced one, one that nobody waits for, one that is reset half read."""
    (port,) = contender.ports
    for _, way in zip(range(count), itertools.cycle(("small", "small", "spliced", "left", "reset")), strict=False):
        fetcher = Fetcher(port, SMALL if way == "small" else SPLICED)
        if way in ("small", "spliced"):
            fetcher.fetch()
        else:
            fetcher.ask()
            if way == "reset":
                fetcher.sock.recv(1)
                fetcher.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORTED)
        fetcher.close()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("peer", ["opaque", "decoded"])
@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.system)])
def test_nothing_is_left_of_connections_that_ended(tmp_path: Path, peer: str, count: int) -> None:
    with running([PEERS[peer]], tmp_path) as (_, (contender,), _):
        _connect(contender, 100)
        open_before = _settled(contender)
        held_before = memory(contender.pids()).resident
        _connect(contender, count)
        _until(contender, open_before)
        assert memory(contender.pids()).resident - held_before < 8 * MIB

"""systemd supervises a sidecar that replaces itself: from then on it hears the new process, or would kill it."""

from __future__ import annotations

import os
import signal
import socket
import struct
import sys
from typing import TYPE_CHECKING

import trio

from lab.host.processes import Process

from .test_processes import Sidecar

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LIMIT_SECONDS = 40
CREDENTIALS = struct.Struct("3i")
"""Process, user and group of a sender (unix(7))."""
SUPERVISED = ["sh", "-c", 'WATCHDOG_PID=$$ exec "$@"', "sh"]
"""What starts a command as systemd does, which names the process that is to send keep-alives."""


class Manager:
    """The socket that systemd listens on. It tells messages apart by the process that sent them."""

    def __init__(self, path: Path) -> None:
        self._socket = trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._path = str(path)

    async def listen(self) -> None:
        await self._socket.bind(self._path)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)

    async def hears(self, message: str, *, sender: int | None = None) -> None:
        """Return once this message came, from this process if that matters."""
        while True:
            data, ancillary, *_ = await self._socket.recvmsg(4096, socket.CMSG_SPACE(CREDENTIALS.size))
            (_, _, credentials) = ancillary[0]
            if data.decode() == message and sender in (None, CREDENTIALS.unpack(credentials)[0]):
                return

    def close(self) -> None:
        self._socket.close()


async def test_the_process_that_takes_over_keeps_the_watchdog_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old process's WATCHDOG_PID went on to the new one, which took the keep-alives for another's and sent none."""
    sidecar = Sidecar(tmp_path)
    await sidecar.configure(leader=9, quota=1)
    manager = Manager(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    command = [sys.executable, "-c", "from operating.cli import main; main()", "run", "--config"]
    old = Process("sidecar", [*SUPERVISED, *command, str(tmp_path / "proxy.toml")], output=sidecar.output)
    sidecar.processes.append(old)
    try:
        with trio.fail_after(LIMIT_SECONDS):
            await manager.listen()
            old.start()
            await manager.hears("WATCHDOG=1", sender=old.pid)
            os.kill(old.pid, signal.SIGUSR2)
            await sidecar.logged("next_process_started")
            new = int(sidecar.events("next_process_started")[0]["pid"])
            await manager.hears(f"MAINPID={new}", sender=old.pid)
            for _ in range(3):
                await manager.hears("WATCHDOG=1", sender=new)
            await old.wait_exit()
    finally:
        manager.close()
        await sidecar.end()

"""Child processes that never outlive the lab.

Each child leads a process group of its own, so that a Ctrl-C reaches only the lab, which then ends its children in
order. It writes to a file, and the kernel kills it when the thread that started it ends. Knows nothing of Kafka.
Invariant: signals go to a pid or group that this module started and that has not been reaped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import trio

from ..errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_POLL_SECONDS = 0.05
_TAIL_LINES = 25


class Process:
    """One command that can be started again after it ended.

    Args:
        name: for messages.
        command: program and arguments.
        output: file that standard output and error are appended to.
        environment: added to the lab's own.
    """

    def __init__(
        self, name: str, command: Sequence[str], *, output: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.output = output
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        """Raises LabError if it is not running."""
        if self._child is None or not self.running:
            raise LabError(f"{self.name} is not running")
        return self._child.pid

    @property
    def exit_status(self) -> int | None:
        return None if self._child is None else self._child.poll()

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.pid).memory_info().rss)

    def cpu_seconds(self) -> float:
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def waited_seconds(self) -> float:
        """Return how long its present threads have waited for a core, all together."""
        waited_ns = 0
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # it has just ended
                waited_ns += int((thread / "schedstat").read_text(encoding="ascii").split()[1])
        return waited_ns / 1e9

    def start(self) -> None:
        """Start the process.

        It is forked in this thread and not in a worker thread: when that ends, the kernel would kill the child
        (prctl(2)).
        """
        if self.running:
            raise LabError(f"{self.name} is running already")
        with self.output.open("ab") as sink:
            self._child = subprocess.Popen(
                [*dies_with_us(), *self._command],
                stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT,
                env=self._environment, process_group=0,
            )  # fmt: skip

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the whole group; nothing happens if the process has ended."""
        if self._child is not None and self.running:
            os.killpg(self._child.pid, number)

    async def terminate(self, *, grace_seconds: float = 20.0) -> None:
        """Terminate by SIGTERM, and by SIGKILL if that takes longer than the grace period."""
        self.signal(signal.SIGTERM)
        with trio.move_on_after(grace_seconds):
            await self.wait_exit()
        await self.kill()

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        await self.wait_exit()

    async def wait_exit(self) -> None:
        if self._child is None or not self.running:
            await trio.lowlevel.checkpoint()
            return
        ended = os.pidfd_open(self._child.pid)
        try:
            await trio.lowlevel.wait_readable(ended)
        finally:
            os.close(ended)
        self._child.wait()

    def last_lines(self, count: int = _TAIL_LINES) -> str:
        return tail(self.output, count)


def tail(path: Path, count: int = _TAIL_LINES) -> str:
    """Return the last lines of a text file, or a note that it is not there."""
    if not path.exists():
        return f"({path.name} was never written)"
    return "\n".join(path.read_text("utf-8", "replace").splitlines()[-count:])


def kill_all(processes: Iterable[Process]) -> None:
    """Kill by SIGKILL and reap; synchronous, so that it works on the way out of a cancelled scope too."""
    started = [process for process in processes if process.running]
    for process in started:
        process.signal(signal.SIGKILL)
    deadline = time.monotonic() + 5
    while any(process.running for process in started) and time.monotonic() < deadline:
        time.sleep(0.01)


async def wait_until(condition: Callable[[], bool], *, process: Process, what: str, timeout_seconds: float) -> None:
    """Poll a cheap, non-blocking condition of a process until it holds.

    Raises:
        LabError: the process ended, or time ran out; its last lines are in the message.
    """
    deadline = trio.current_time() + timeout_seconds
    while not condition():
        if not process.running:
            raise LabError(
                f"{process.name} ended with status {process.exit_status} before {what}; its last lines:\n"
                f"{process.last_lines()}"
            )
        if trio.current_time() > deadline:
            raise LabError(
                f"{process.name}: {what} took longer than {timeout_seconds:g} s; its last lines:\n"
                f"{process.last_lines()}"
            )
        await trio.sleep(_POLL_SECONDS)


def accepts_connections(address: str, port: int) -> bool:
    """True if a process listens there (loopback: answered at once)."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((address, port)) == 0


def dies_with_us() -> list[str]:
    """Return a command prefix by which the kernel kills the command when the thread that starts it ends.

    util-linux' setpriv sets PR_SET_PDEATHSIG and then becomes the command; Popen's preexec_fn would be unsafe, since
    there are threads.
    """
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []

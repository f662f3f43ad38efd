"""The processes of a benchmark: the leader, the follower, and all peers side by side.

Peers that wait cost nothing, so all of them run all the time, and a round is free to go from one to the next.
Invariant: whatever ends the block, no process is left.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lab.host.addresses import held_ports
from lab.host.processes import Process, accepts_connections, dies_with_us, kill_all

from .contenders.peer import MissingError, Peer, Place
from .follower import Order, encode
from .runs import Result
from .usage import machine_cpu_seconds, memory, tree, usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from .loads import Load

START_SECONDS = 60.0
_LOOK_SECONDS = 0.02


class BenchError(Exception):
    """A contender did not start, or did not do its work; the message says which and how it ended."""


class SlowError(BenchError):
    """Raised when not one fetch was done in the time that counts.

    So there is nothing to tell of this run, but the others go on.
    """


@dataclass(frozen=True, slots=True)
class Contender:
    """A peer that runs, and where its followers connect."""

    peer: Peer
    ports: list[int]
    process: Process | None

    def pids(self) -> list[int]:
        return [] if self.process is None else tree([self.process.pid])

    def last_words(self) -> str:
        return "" if self.process is None else f"; its last lines:\n{self.process.last_lines()}"


class Pair:
    """Our leader and our follower."""

    def __init__(self) -> None:
        self._leader = _python("leader")
        self._follower = _python("follower")
        self.leader_port = int(self._line(self._leader))

    def run(self, contender: Contender, load: Load, *, seconds: float, warm_up_seconds: float) -> Result:
        """Run one load. Raises BenchError, SlowError among them."""
        peer, ends = contender.peer.name, [self._leader.pid, self._follower.pid]
        order = Order(contender.ports, load, seconds, warm_up_seconds)
        self._tell(encode(order))
        self._event("counting", peer)
        pids = contender.pids()
        proxy, pair, everything = usage(pids), usage(ends), machine_cpu_seconds()
        self._event("counted", peer)
        proxy, pair, held = usage(pids).since(proxy), usage(ends).since(pair), memory(pids)
        others = machine_cpu_seconds() - everything - proxy.cpu_seconds - pair.cpu_seconds
        self._tell("")
        done = self._event("done", peer)
        if done["problem"] is not None:
            raise BenchError(f"{peer}, {load.name}: {done['problem']}{contender.last_words()}")
        if not done["fetches"]:
            raise SlowError(f"not one fetch in {seconds:g} s")
        counted = {key: done[key] for key in ("seconds", "bytes", "fetches", "p50_us", "p99_us")}
        others_cores = max(others, 0.0) / counted["seconds"]
        return Result(peer, load, **counted, proxy=proxy, pair=pair, memory=held, others_cores=others_cores)

    def close(self) -> None:
        for process in (self._leader, self._follower):
            process.kill()
            with process:
                pass

    def _tell(self, line: str) -> None:
        assert self._follower.stdin is not None
        self._follower.stdin.write(line + "\n")
        self._follower.stdin.flush()

    def _event(self, name: str, peer: str) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self._line(self._follower))
        if said["event"] != name:
            raise BenchError(f"{peer}: expected {name!r} of the follower, found {said}")
        return said

    @staticmethod
    def _line(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise BenchError(f"{process.args!r} ended with status {process.wait()}")
        return line


def _python(module: str) -> subprocess.Popen[str]:
    command = [*dies_with_us(), sys.executable, "-m", f"{__package__}.{module}"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextlib.contextmanager
def running(peers: Sequence[Peer], home: Path) -> Iterator[tuple[Pair, list[Contender], dict[str, str]]]:
    """Start the pair and all peers; yields also what is missing: the name of a peer, and why.

    Raises BenchError if one that is here does not start.
    """
    pair, contenders, missing = Pair(), [], {}
    with contextlib.ExitStack() as held:
        try:
            for peer in peers:
                try:
                    contenders.append(_start(peer, home, pair.leader_port, held))
                except MissingError as why:
                    missing[peer.name] = str(why)
            for contender in contenders:
                _wait_listening(contender)
            yield pair, contenders, missing
        finally:
            kill_all(contender.process for contender in contenders if contender.process is not None)
            pair.close()


def _start(peer: Peer, home: Path, leader_port: int, held: contextlib.ExitStack) -> Contender:
    """Start a peer, whose ports are held until `held` is closed."""
    if peer.command is None:
        return Contender(peer, [leader_port], None)
    own = home / peer.name
    own.mkdir()
    http, *ports = held.enter_context(held_ports(1 + peer.listeners))
    process = Process(peer.name, peer.command(Place(own, ports, leader_port, http)), output=own / "output.log")
    process.start()
    return Contender(peer, ports, process)


def _wait_listening(contender: Contender) -> None:
    process, deadline = contender.process, time.monotonic() + START_SECONDS
    while process is not None and not accepts_connections("127.0.0.1", contender.ports[-1]):
        if not process.running or time.monotonic() > deadline:
            raise BenchError(f"{process.name} did not start{contender.last_words()}")
        time.sleep(_LOOK_SECONDS)

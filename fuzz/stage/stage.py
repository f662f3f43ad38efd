"""The stage: a sidecar that is attacked, the victim it relays, and beside them an idle sidecar with its control.

The sidecar is met as its users meet it, by its command line, files, sockets and signals. The machine is shared, so
every time of the victim's is read beside the control's, which another, idle sidecar relays at the same moment.
Invariant: ports stay the same when the sidecar is started again, so that the victim finds it.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from lab.host.addresses import free_ports, held_ports
from lab.host.processes import Process, accepts_connections, wait_until
from lab.sidecars.exposition import parse_exposition

from .hostile_leader import StrangeLeader
from .modes import MODES
from .priority import before_attackers
from .victim_process import open_party

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from .modes import Mode
    from .victim_process import Party

START_SECONDS = 20.0
DOORS = ("ingress", "egress", "strange")


@dataclass(frozen=True, slots=True)
class Program:
    """The start of a sidecar: the console script, the command that runs it (`prlimit --nofile=256`), whether it is
    attacked."""

    script: str
    within: Sequence[str] = ()
    attacked: bool = True

    def command(self, config: Path) -> list[str]:
        command = [*self.within, self.script, "run", "--config", str(config)]
        return before_attackers(command, attacked=self.attacked)


class Sidecar:
    """One sidecar process with its files."""

    def __init__(
        self, program: Program, mode: Mode, home: Path, leaders: Mapping[str, int], ports: Mapping[str, int]
    ) -> None:
        self.program = program
        self.mode = mode
        self.home = home
        self.ports = ports
        self.config = home / "proxy.toml"
        self.quotas = home / "quotas" / "quotas.toml"
        home.mkdir(parents=True)
        self.write_good_quotas()
        self.config.write_text(mode.proxy_toml(self.ports, leaders), "utf-8")
        self.log = home / "sidecar.log"
        self._command = program.command(self.config)
        self.process = Process("sidecar", self._command, output=self.log)

    def log_to(self, output: Path) -> None:
        """Log to this file from the next start on."""
        self.process = Process("sidecar", self._command, output=output)

    def last_words(self, lines: int = 60) -> str:
        """Return the end of its log, if that is a file."""
        return self.process.last_lines(lines) if self.process.output.is_file() else "(its log is no file)"

    async def start(self) -> None:
        """Wait until it listens. Raises LabError with its last lines if it does not in time."""
        self.process.start()
        await wait_until(self._listens, process=self.process, what="it listened", timeout_seconds=START_SECONDS)

    def _listens(self) -> bool:
        return accepts_connections("127.0.0.1", self.ports["ingress"])

    def write_good_quotas(self) -> None:
        """Write the good quotas in place of whatever stands there now."""
        for path in (self.quotas, self.quotas.parent):
            if path.is_symlink() or path.is_file() or path.is_fifo():
                path.unlink()
            elif path.is_dir():
                shutil.rmtree(path)
        self.quotas.parent.mkdir()
        self.quotas.write_text(self.mode.quotas, "utf-8")

    async def replace_quotas(self, content: bytes) -> None:
        """Write by one rename, as editors do."""
        fresh = self.quotas.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.rename(self.quotas)
        await trio.lowlevel.checkpoint()

    async def metrics(self, *, timeout_seconds: float = 5.0) -> dict[str, dict[str, float]]:
        """Return the values of /metrics; none if it does not answer in time."""
        with trio.move_on_after(timeout_seconds), contextlib.suppress(OSError):
            return parse_exposition((await self.get("/metrics")).decode("utf-8", "replace"))
        return {}

    async def get(self, path: str, *, method: str = "GET") -> bytes:
        """Return the body of an answer. Raises OSError."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.ports["http"])
        async with stream:
            head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
            try:
                await stream.send_all(head.encode())
                said = b"".join([chunk async for chunk in stream])
            except trio.BrokenResourceError as error:
                raise ConnectionError(str(error)) from error
        return said.partition(b"\r\n\r\n")[2]


class Stage:
    """The target of an attack, `sidecar`, and the pairs it is judged by: `victim`, `control`."""

    def __init__(self, sidecar: Sidecar, victim: Party, control: Party, leader: StrangeLeader) -> None:
        self.sidecar = sidecar
        self.victim = victim
        self.control = control
        self.leader = leader
        """The attackers'."""
        self.restarting = False
        """The sidecar is away because we took it away."""

    async def restart(self, *, output: Path | None = None) -> None:
        """Start the sidecar anew, its log in `output` if that is given; what the victim met before is forgotten."""
        self.restarting = True
        await self.sidecar.process.kill()
        self.sidecar.log_to(output or self.sidecar.log)
        self.sidecar.write_good_quotas()
        await self.sidecar.start()
        await self.calm()
        self.restarting = False

    async def calm(self, *, timeout_seconds: float = 15.0) -> bool:
        """Wait until the victim is served on both ways; then forget what it met. False if it is not in time."""
        for party in (self.victim, self.control):
            party.forget()
        with trio.move_on_after(timeout_seconds):
            await self.victim.all_served()
            for party in (self.victim, self.control):
                party.forget()
            return True
        return False


@asynccontextmanager
async def open_stage(mode: Mode, program: Program, home: Path, *, control: bool = True) -> AsyncIterator[Stage]:
    """Set everything up; it all ends with the block. Without a `control` nothing can be called slow."""
    ours, theirs = socket.socketpair()
    leader = StrangeLeader()
    with ours, theirs:
        async with (
            _leading(leader, ours) as strange_leader,
            open_party(mode.versions, theirs) as victim,
            _running(program, mode, home / "attacked", victim, strange_leader) as sidecar,
            _idle(program.script, mode, home / "idle") if control else nullcontext(victim) as beside,
        ):
            stage = Stage(sidecar, victim, beside, leader)
            if not await stage.calm():
                raise TimeoutError(f"the victim is not served even before the attack: {sidecar.last_words()}")
            yield stage


@asynccontextmanager
async def _idle(script: str, mode: Mode, home: Path) -> AsyncIterator[Party]:
    """Run victims of the same versions, relayed by a sidecar that is not attacked."""
    program = Program(script, attacked=False)
    async with open_party(mode.versions) as party, _running(program, MODES["none"], home, party, free_ports(1)[0]):
        yield party


@asynccontextmanager
async def _leading(leader: StrangeLeader, handed_over: socket.socket) -> AsyncIterator[int]:
    """Run the attackers' leader; yield its port."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(leader.run, listeners[0])
        nursery.start_soon(leader.take_in, handed_over)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _running(
    program: Program, mode: Mode, home: Path, party: Party, strange_leader: int
) -> AsyncIterator[Sidecar]:
    # Held all the time, so that nobody takes them while the sidecar is away between two starts.
    with held_ports(len(DOORS) + 1) as held:
        ports = dict(zip((*DOORS, "http"), held, strict=True))
        sidecar = Sidecar(program, mode, home, {**party.leaders, "strange": strange_leader}, ports)
        try:
            await sidecar.start()
            await party.begin(sidecar.ports)
            yield sidecar
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 10):
                await sidecar.process.kill()

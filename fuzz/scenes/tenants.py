"""Two tenants on one listener, one honest and one hostile in every way that client quotas have to withstand.

Beside the stage it has a sidecar of its own, in front of a broker that answers whatever it is sent. First the honest
tenant is measured beside another honest one that uses up its quota, then beside the hostile one. Only what the sidecar
owes is judged: nothing is told to the honest tenant, none of its records is lost, descriptors come back, and its p99 is
at most `MAX_RATIO` times what it was.
"""

from __future__ import annotations

import contextlib
import random
import struct
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar

import psutil
import trio

from lab.host.addresses import free_ports
from lab.host.processes import Process, accepts_connections, wait_until
from protocol.wire.framing import with_length, write_uvarint

from ..errors import NotRecoveredError
from .scene import Scene

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..stage.stage import Program, Stage

SECONDS = 20.0
"""How long each half of the scene lasts at the usual size."""
MAX_RATIO, SPARED_MS = 1.5, 30.0
"""The bound of the honest tenant's p99 beside the hostile one, and what a busy machine adds to it."""
BACK_SECONDS = 35.0
MAX_GROWTH, SPARED_BYTES = 1.05, 4 * 2**20
"""The bound of resident memory in the last quarter, by that in the third, and what allocators add to it."""
RECORD_BYTES, EVERY_SECONDS = 2000, 0.05
HOSTILES = 12
QUOTAS = '[clients.default]\nproducer_byte_rate = "200KiB/s"\nconsumer_byte_rate = "200KiB/s"\n'
_SIZE = struct.Struct(">i")


def header(api_key: int, version: int, client_id: bytes, tags: bytes = b"") -> bytes:
    return struct.pack(">hhih", api_key, version, 1, len(client_id)) + client_id + tags


def produce(size: int, client_id: bytes, *, acks: int = 1, version: int = 8, tags: bytes = b"") -> bytes:
    """Return a Produce of about `size` bytes."""
    flexible = version >= FLEXIBLE_PRODUCE
    head = header(0, version, client_id, tags or (b"\0" if flexible else b""))
    return head + (b"\0" if flexible else b"\xff\xff") + struct.pack(">hi", acks, 30_000) + bytes(size)


FLEXIBLE_PRODUCE = 9
HOSTILE: tuple[Callable[[random.Random], bytes], ...] = (
    lambda _: produce(150_000, b"bad\xff\xfe"),
    lambda _: produce(100_000, b"etl", version=9, tags=b"\x01\x00" + write_uvarint(140_000) + bytes(140_000)),
    lambda _: produce(100_000, b"etl", version=9, tags=b"\x41" + b"\0\0" * 65),
    lambda _: produce(100_000, b"etl", version=14),
    lambda drawn: produce(150_000, f"id-{drawn.randrange(10_000)}".encode()),
    lambda _: produce(20_000, b"reconnects"),
    lambda _: produce(50_000, b"etl", acks=0),
    lambda _: header(1, 30, b"etl", b"\0") + bytes(80),
    lambda _: header(78, 9, b"etl", b"\0") + bytes(80),
    lambda _: header(17, 0, b"etl") + b"\x00\x05PLAIN",
    lambda _: header(18, 200, b"etl") + b"\0etl\0secret",
)


@dataclass(slots=True)
class Tenant:
    """The honest one: small records, now and then, on one connection."""

    port: int
    taken: list[int]
    """The numbers of the records that the broker has taken."""
    seconds: list[float] = field(default_factory=list)
    sent: int = 0
    told_ms: int = 0

    async def run(self) -> None:
        """Produce until cancelled."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.port)
        async with stream:
            while True:
                number = self.sent
                frame = produce(RECORD_BYTES, b"honest")[: -_SIZE.size] + _SIZE.pack(number)
                self.sent += 1
                began = trio.current_time()
                await stream.send_all(with_length(frame))
                answer = await _frame(stream)
                self.seconds.append(trio.current_time() - began)
                self.told_ms = max(self.told_ms, _SIZE.unpack(answer[-_SIZE.size :])[0])
                await trio.sleep(EVERY_SECONDS)

    @property
    def p99_ms(self) -> float:
        return 1000 * quantiles(self.seconds, n=100)[98]


class Tenants(Scene):
    """One tenant's quota beside another that does everything to escape its own, or to have the first one pay."""

    name: ClassVar[str] = "tenants"

    async def run(self, stage: Stage) -> None:
        """Play both halves, and judge the second by the first. Raises NotRecoveredError."""
        await self.play(stage.sidecar.program)

    async def play(self, program: Program) -> None:
        """Do so with a sidecar of `program`."""
        taken: list[int] = []
        async with trio.open_nursery() as nursery:
            broker = (await nursery.start(_listen, taken)).socket.getsockname()[1]
            with TemporaryDirectory() as home:
                port, http = free_ports(2)
                sidecar = _sidecar(program, Path(home), broker, port, http)
                sidecar.start()
                try:
                    await wait_until(
                        lambda: accepts_connections("127.0.0.1", port), process=sidecar, what="it listened",
                        timeout_seconds=20.0,
                    )  # fmt: skip
                    beside_honest = await self._half(port, taken, hostile=False)
                    await trio.sleep(1)
                    before = psutil.Process(sidecar.pid).num_fds()
                    taken.clear()
                    resident: list[int] = []
                    async with trio.open_nursery() as beside:
                        beside.start_soon(_watch_memory, sidecar.pid, resident)
                        beside_hostile = await self._half(port, taken, hostile=True)
                        beside.cancel_scope.cancel()
                    await self._judge(beside_honest, beside_hostile, taken)
                    self._judge_memory(resident)
                    await self._back(sidecar, before)
                finally:
                    with trio.CancelScope(shield=True, deadline=trio.current_time() + 10):
                        await sidecar.kill()
            nursery.cancel_scope.cancel()

    async def _half(self, port: int, taken: list[int], *, hostile: bool) -> Tenant:
        tenant, drawn = Tenant(port, taken), random.Random(self.seed)  # noqa: S311 - drawn anew from a seed
        self.doing = f"an honest tenant beside {'a hostile' if hostile else 'another honest'} one"
        with trio.move_on_after(SECONDS * self.size):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tenant.run)
                for _ in range(HOSTILES if hostile else 1):
                    nursery.start_soon(self._attack, port, random.Random(drawn.random()), hostile)  # noqa: S311 - drawn anew from a seed
        return tenant

    async def _attack(self, port: int, drawn: random.Random, hostile: bool) -> None:
        """Send one thing after another, each on a connection of its own; the other honest one sends what it may."""
        while True:
            frame = drawn.choice(HOSTILE)(drawn) if hostile else produce(20_000, b"other")
            with contextlib.suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                stream = await trio.open_tcp_stream("127.0.0.1", port)
                async with stream:
                    self.things += 1
                    await stream.send_all(with_length(frame) * (drawn.choice((1, 1, 3)) if hostile else 1))
                    with trio.move_on_after(drawn.choice((0.0, 0.1, 1.0)) if hostile else 20.0):
                        await _frame(stream)
            await trio.sleep(0.005 if hostile else 0.0)

    async def _judge(self, honest: Tenant, beside: Tenant, taken: list[int]) -> None:
        await trio.sleep(0.1)  # for what is on its way to the broker
        said = f"p99 {beside.p99_ms:.1f} ms, {honest.p99_ms:.1f} ms beside an honest one"
        self.doing = f"{self.doing}: {said}"
        if beside.told_ms:
            raise NotRecoveredError(f"the honest tenant was told to wait {beside.told_ms} ms for what another one did")
        if missing := set(range(beside.sent - 1)) - set(taken):
            raise NotRecoveredError(f"{len(missing)} records of the honest tenant were lost")
        if self.size >= 1 and beside.p99_ms > MAX_RATIO * honest.p99_ms + SPARED_MS:
            raise NotRecoveredError(f"the honest tenant waits for the hostile one: {said}")

    def _judge_memory(self, resident: list[int]) -> None:
        quarter = len(resident) // 4
        if self.size < 1 or not quarter:
            return
        parts = resident[2 * quarter : 3 * quarter], resident[3 * quarter : 4 * quarter]
        before, last = (sum(part) / quarter for part in parts)
        self.doing += f", resident {before / 2**20:.0f}, then {last / 2**20:.0f} MiB"
        if last > MAX_GROWTH * before + SPARED_BYTES:
            raise NotRecoveredError(f"memory grows: {self.doing}")

    async def _back(self, sidecar: Process, before: int) -> None:
        process = psutil.Process(sidecar.pid)
        with trio.move_on_after(BACK_SECONDS):
            while process.num_fds() > before:  # noqa: ASYNC110 - of another process
                await trio.sleep(0.5)
            return
        raise NotRecoveredError(f"{process.num_fds()} descriptors after {BACK_SECONDS:g} s, {before} at first")


async def _watch_memory(pid: int, resident: list[int]) -> None:
    while True:
        resident.append(psutil.Process(pid).memory_info().rss)
        await trio.sleep(0.5)


def _sidecar(program: Program, home: Path, broker: int, port: int, http: int) -> Process:
    (home / "quotas.toml").write_text(QUOTAS, "utf-8")
    config = home / "proxy.toml"
    config.write_text(
        f'[broker]\nid = 101\n[ingress]\nlisten = "127.0.0.1:{port}"\nupstream = "127.0.0.1:{broker}"\n'
        f'[quotas]\nfile = "quotas.toml"\n[http]\nlisten = "127.0.0.1:{http}"\n[control]\ndirectory = "control"\n',
        "utf-8",
    )
    return Process("the tenants' sidecar", program.command(config), output=home / "log")


async def _listen(taken: list[int], task_status: trio.TaskStatus[trio.SocketListener]) -> None:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]

    async def answer(stream: trio.SocketStream) -> None:
        with contextlib.suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            async with stream:
                while frame := await _frame(stream):
                    if not await _answered(stream, frame, taken):
                        return

    task_status.started(listener)
    await trio.serve_listeners(answer, [listener])


async def _answered(stream: trio.SocketStream, frame: bytes, taken: list[int]) -> bool:
    """Answer as a broker without SASL; return False if it closes the connection."""
    api_key, version, correlation_id, length = struct.unpack_from(">hhih", frame)
    known = {0: 14, 1: 31, 17: 2, 18: 256, 78: 10}
    if version >= known.get(api_key, 0):
        return False
    if api_key == 0:
        if frame[10 : 10 + length] == b"honest":
            taken.append(_SIZE.unpack(frame[-_SIZE.size :])[0])
        acks_at = 10 + length + 2
        if version < FLEXIBLE_PRODUCE and frame[acks_at : acks_at + 2] == b"\0\0":
            return True
        body = struct.pack(">ihiihqqqihi", 1, 0, 1, 0, 0, 1, -1, 0, 0, -1, 0)
        head = _SIZE.pack(correlation_id) + (b"\0" if version >= FLEXIBLE_PRODUCE else b"")
        await stream.send_all(with_length(head + body))
    else:
        await stream.send_all(with_length(_SIZE.pack(correlation_id) + b"\0\x22" + bytes(20_000)))
    return True


async def _frame(stream: trio.SocketStream) -> bytes:
    data = bytearray()
    while len(data) < _SIZE.size or len(data) < _SIZE.size + _SIZE.unpack_from(data)[0]:
        missing = _SIZE.size if len(data) < _SIZE.size else _SIZE.size + _SIZE.unpack_from(data)[0]
        chunk = await stream.receive_some(missing - len(data))
        if not chunk:
            return b""
        data += chunk
    return bytes(data[_SIZE.size :])

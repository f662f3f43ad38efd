"""The old process' side: connections go over one after the other, those whose turn it is not are served, and if the new
process fails before it has proven itself, the old one serves on."""

from __future__ import annotations

import os
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pytest
import trio

from proxy.handover import old_process as giving
from proxy.handover.channel import Channel
from proxy.handover.messages import SCHEMA, Alive, Begin, Confirmed, ConnectionState, Hello, Message, Offer, Ready
from proxy.handover.old_process import OldProcess
from tests.open_files import open_files

from ..control.test_control_socket import ANOTHER_USER, connects
from ..recorded_log import RecordedLog
from ..relay.wire import Wire, answer, entry, relayed
from .old_server import BROKER, OldServer, socket_path

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

CONNECTIONS = 40
LIMIT_SECONDS = 30
KEY = ("t", 0)


class Server(OldServer):
    """Of so many relayed connections."""

    versions = (3, 17)

    def __init__(self, wires: Sequence[Wire]) -> None:
        self._wires = wires
        self.calls: list[str] = []

    def hand_over(self, giving: OldProcess) -> None:
        self.calls.append("hand_over")
        for wire in self._wires:
            wire.draining.give = giving.give
            wire.draining.begun.set()

    def take_back(self) -> None:
        self.calls.append("take_back")
        for wire in self._wires:
            wire.draining.call_off()

    def confirm(self, process: int) -> None:
        assert process == os.getpid()
        self.calls.append("confirm")


class Scene(NamedTuple):
    path: Path
    wires: Sequence[Wire]
    server: Server
    log: RecordedLog

    async def failed(self) -> str:
        while "handover_failed" not in self.log.events:  # noqa: ASYNC110 - a log has no event of Trio's
            await trio.sleep(0.01)
        return str(self.log.lines[-1]["error"])


@asynccontextmanager
async def offering(
    monkeypatch: pytest.MonkeyPatch, *, proving: float, silence: float, connections: int = CONNECTIONS
) -> AsyncIterator[Scene]:
    """A process with connections that offers itself; for how many seconds another one has to prove itself, and may
    hang."""
    monkeypatch.setattr(giving, "PROVING_SECONDS", proving)
    monkeypatch.setattr(giving, "SILENCE_SECONDS", silence)
    path, log = socket_path(), RecordedLog()
    async with AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(relayed()) for _ in range(connections)]
        server = Server(wires)
        with trio.fail_after(LIMIT_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(OldProcess(path, server, log).run)
                yield Scene(path, wires, server, log)
                nursery.cancel_scope.cancel()


async def taker(path: Path) -> Channel:
    """A new process that is ready."""
    sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    while True:
        try:
            await sock.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):  # not yet
            await trio.sleep(0.01)
        else:
            break
    channel = Channel(sock)
    await channel.send(Hello(SCHEMA, BROKER))
    offer, _ = await channel.receive()
    assert isinstance(offer, Offer)
    assert offer.fetch_versions == [3, 17]
    await channel.send(Ready())
    return channel


async def received(channel: Channel) -> Message:
    message, descriptors = await channel.receive()
    for descriptor in descriptors:
        os.close(descriptor)
    return message


async def served(wire: Wire) -> None:
    await wire.in_flight({KEY: 5}, answer([entry(KEY[1])]))


async def most_served(wires: Sequence[Wire]) -> None:
    """All of them but one, whichever that is."""
    told, hears = trio.open_memory_channel[None](len(wires))

    async def serve(wire: Wire) -> None:
        await served(wire)
        told.send_nowait(None)

    async with trio.open_nursery() as nursery:
        for wire in wires:
            nursery.start_soon(serve, wire)
        for _ in wires[1:]:
            await hears.receive()
        nursery.cancel_scope.cancel()


async def test_whoever_is_not_taken_yet_is_served_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """They all came to rest at once: 400 waited up to 1.1 s for each other."""
    async with offering(monkeypatch, proving=0.0, silence=LIMIT_SECONDS) as scene:
        channel = await taker(scene.path)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert scene.server.calls == ["hand_over", "confirm"]
        # The new process has taken none. Few are on their way to it, in the kernel, and one is about to be.
        waiting = [wire for wire in scene.wires if not wire.finished.is_set()]
        assert len(waiting) > CONNECTIONS // 2
        await most_served(waiting)
        messages = [await received(channel) for _ in range(len(scene.wires) + 2)]
        for wire in scene.wires:
            await wire.finished.wait()
        channel.close()
    assert [type(each) for each in messages if not isinstance(each, ConnectionState)] == [Begin, Confirmed]
    assert {wire.ending["cause"] for wire in scene.wires} == {"handed_over"}


async def test_a_process_that_ends_before_it_has_run_for_some_seconds_gets_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It got every listener and every connection as soon as it said that it was ready, and they were lost with it."""
    async with offering(monkeypatch, proving=LIMIT_SECONDS, silence=LIMIT_SECONDS) as scene:
        channel = await taker(scene.path)
        await channel.send(Alive())
        channel.close()
        assert await scene.failed() == "the other process ended before it had proven itself"
        for wire in scene.wires:
            await served(wire)
    assert scene.server.calls == []


async def test_a_process_that_hangs_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with offering(monkeypatch, proving=LIMIT_SECONDS, silence=0.1) as scene:
        channel = await taker(scene.path)
        assert await scene.failed() == "the other process was silent for 0.1 s"
        channel.close()
    assert scene.server.calls == []


@pytest.mark.parametrize("hangs", [True, False])
async def test_what_a_process_that_fails_has_not_taken_is_served_on(
    monkeypatch: pytest.MonkeyPatch, *, hangs: bool
) -> None:
    taken = 5
    async with offering(monkeypatch, proving=0.2, silence=1.0) as scene:
        channel = await taker(scene.path)
        while not scene.server.calls:
            await channel.send(Alive())
            await trio.sleep(0.05)
        assert isinstance(await received(channel), Begin)
        for _ in range(taken):
            assert isinstance(await received(channel), ConnectionState)
        if not hangs:
            channel.close()
        await scene.failed()
        assert scene.server.calls == ["hand_over", "take_back"]
        await trio.testing.wait_all_tasks_blocked(0.05)
        left = [wire for wire in scene.wires if not wire.finished.is_set()]
        assert CONNECTIONS - len(left) == scene.log.lines[-1]["connections"] >= taken
        assert scene.log.lines[-1]["level"] == "error"
        for wire in left * 2:
            await served(wire)
        if hangs:
            channel.close()
        # The next one takes what is left.
        channel = await taker(scene.path)
        while "confirm" not in scene.server.calls or not all(wire.finished.is_set() for wire in scene.wires):
            with trio.move_on_after(0.05):
                await received(channel)
            if "confirm" not in scene.server.calls:
                await channel.send(Alive())
        channel.close()
    assert {wire.ending["cause"] for wire in scene.wires} == {"handed_over"}


OUT_OF_TURN = msgspec.msgpack.encode(Alive())
BAD_MESSAGES = {
    "no message": b"\0\0\0\x04none",
    "nested too deep": (200_000).to_bytes(4, "big") + b"\x91" * 200_000,
    "too long": b"\xff\xff\xff\xff",
    "torn": b"\0\0",
    "out of turn": len(OUT_OF_TURN).to_bytes(4, "big") + OUT_OF_TURN,
}


@pytest.mark.parametrize("sent", BAD_MESSAGES.values(), ids=BAD_MESSAGES)
async def test_a_bad_message_costs_one_connection_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """Each left its descriptors open, and nesting ended the task."""
    async with offering(monkeypatch, proving=LIMIT_SECONDS, silence=LIMIT_SECONDS, connections=0) as scene:
        (await taker(scene.path)).close()
        await scene.failed()
        scene.log.lines.clear()
        before = open_files()
        with socket.socket(socket.AF_UNIX) as sock, open(os.devnull) as file:  # noqa: PTH123, ASYNC230 - no disk is waited for
            sock.connect(str(scene.path))
            socket.send_fds(sock, [sent], [file.fileno()])
            sock.shutdown(socket.SHUT_WR)
            await scene.failed()
        await trio.testing.wait_all_tasks_blocked()
        assert open_files() - before == set()
        (await taker(scene.path)).close()
    assert scene.server.calls == []


async def test_another_user_cannot_connect_and_one_who_could_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The abstract socket was open to all users, and to every container of the network namespace."""
    async with offering(monkeypatch, proving=LIMIT_SECONDS, silence=LIMIT_SECONDS, connections=0) as scene:
        (await taker(scene.path)).close()
        await scene.failed()
        ask = partial(trio.to_thread.run_sync, connects, ANOTHER_USER, str(scene.path))
        scene.path.parent.chmod(0o755)
        assert await ask() == "PermissionError"
        scene.path.chmod(0o666)
        await ask()
        await trio.testing.wait_all_tasks_blocked()
        assert "uid 65532" in str(scene.log.lines[-1]["error"])
    assert scene.server.calls == []

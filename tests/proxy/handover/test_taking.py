"""The new process' side: what it makes of an old one that gave up, ended too soon, or sends what cannot be taken."""

from __future__ import annotations

import socket
import uuid
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import trio

from proxy.handover import giving
from proxy.handover.channel import Channel
from proxy.handover.giving import Giving
from proxy.handover.serving import HandOver
from proxy.handover.states import SCHEMA, ConnectionState, Hello, LinkState, Offer, Ready
from proxy.process.service_manager import ServiceManager
from proxy.relay.connection import Draining

from ..recorded_log import RecordedLog
from .old_server import BROKER, OldServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import pytest

LIMIT_SECONDS = 20


class Server(OldServer):
    """Without a connection."""

    def __init__(self) -> None:
        self.handed_over = False

    def hand_over(self, _: Giving, __: int) -> None:
        self.handed_over = True


async def never(*_: object) -> None:
    raise AssertionError("no connection is run here")


class New:
    """A process that asks at `address`."""

    def __init__(self) -> None:
        self.log, self.draining = RecordedLog(), Draining()
        settings = SimpleNamespace(broker=SimpleNamespace(id=BROKER), path=Path(f"/nowhere/{uuid.uuid4().hex}"))
        self.handover = HandOver(cast("Any", settings), {}, self.draining, manager=ServiceManager({}), log=self.log)
        self.address = self.handover._address

    async def take(self) -> None:
        await self.handover.take(lambda *_: None, never)


async def offered(new: New, old: Giving, nursery: trio.Nursery) -> None:
    nursery.start_soon(old.run)
    while await new.handover.ask() is None:  # noqa: ASYNC110 - whether it listens yet, only asking tells
        await trio.sleep(0.01)


async def test_a_new_process_that_was_ready_too_late_ends_and_the_old_one_serves_on(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old one had given up; the new one took it for dead, accepted beside it from the same sockets, and both let
    the whole quota through."""
    monkeypatch.setattr(giving, "ANSWER_SECONDS", 0.1)
    new, server, log = New(), Server(), RecordedLog()
    with trio.fail_after(LIMIT_SECONDS):
        await offered(new, Giving(new.address, server, log), nursery)
        while "handover_failed" not in log.events:  # noqa: ASYNC110 - a log has no event of Trio's
            await trio.sleep(0.01)
        await new.take()
    assert not server.handed_over
    assert new.draining.begun.is_set()
    assert "taken_over" not in new.log.events
    assert "serves on" in str([line["error"] for line in new.log.lines if line["event"] == "handover_failed"][-1])
    assert log.lines[-1]["error"] == "the other process was not ready within 0.1 s"


async def test_an_old_process_that_hands_over_and_ends_is_taken_over(nursery: trio.Nursery) -> None:
    new, server = New(), Server()
    with trio.fail_after(LIMIT_SECONDS):
        async with trio.open_nursery() as old:
            await offered(new, Giving(new.address, server, RecordedLog()), old)
            nursery.start_soon(new.take)
            while not server.handed_over:  # noqa: ASYNC110 - as above
                await trio.sleep(0.01)
            old.cancel_scope.cancel()
        while "taken_over" not in new.log.events:  # noqa: ASYNC110 - as above
            await trio.sleep(0.01)
    assert not new.draining.begun.is_set()
    assert set(new.log.events) <= {"nothing_to_take_over", "taken_over"}


@asynccontextmanager
async def old_process(address: str) -> AsyncIterator[Channel]:
    """One that is driven by hand, until it is ready to give."""
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        await listener.bind(address)
        listener.listen(1)
        sock, _ = await listener.accept()
    channel = Channel(sock)
    hello, _ = await channel.receive()
    assert hello == Hello(SCHEMA, BROKER, takes_pairs=True)
    await channel.send(Offer([], {}))
    ready, _ = await channel.receive()
    assert ready == Ready()
    yield channel


async def test_why_no_more_connections_came_is_said(nursery: trio.Nursery) -> None:
    """Where a process had no descriptor left, or the old one was killed, the log told nothing but a lower number."""
    new = New()
    link = LinkState("", None, None, has_begun=True, is_live=True, replicas=[], session=None)
    state = ConnectionState(
        "leader",
        ("", 0),
        "kafka",
        is_opaque=True,
        has_begun=True,
        request_bytes=b"",
        frames=0,
        replica_fetches=0,
        link=link,
    )

    async def old() -> None:
        async with old_process(new.address) as channel:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                dialled = socket.create_connection(listener.getsockname())
                ends = dialled, listener.accept()[0]
            await channel.send(state, [end.fileno() for end in ends])
            await channel._sock.send(b"\0\0")  # the beginning of a message
            channel.close()
            for end in ends:
                end.close()

    held: list[str] = []
    with trio.fail_after(LIMIT_SECONDS):
        nursery.start_soon(old)
        while await new.handover.ask() is None:  # noqa: ASYNC110 - as above
            await trio.sleep(0.01)

        def hold(source: str, _: object, close: Callable[[], object]) -> None:
            held.append(source)
            close()

        await new.handover.take(hold, never)
    assert held == ["127.0.0.1"]
    failed = [line["error"] for line in new.log.lines if line["event"] == "handover_failed"]
    assert failed == ["the other process ended in the middle of a message"]

"""Connections with TLS, which no other process can go on with: they end in turn, at rest, and their peers dial anew."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
import trio
import trio.testing

from protocol.wire.framing import with_length
from proxy.changes import Changes
from proxy.config.settings import Address
from proxy.handover import old_process as giving
from proxy.handover.channel import Channel
from proxy.handover.ending_turns import EndingTurns
from proxy.handover.messages import SCHEMA, Alive, Begin, Confirmed, Hello, Ready
from proxy.handover.old_process import OldProcess
from proxy.relay.connection import Draining, Given, relay
from proxy.relay.poller import open_poller

from ..conversation import fetch_frame, throttle
from ..recorded_log import RecordedLog
from ..relay.wire import T0, limits, read_frame
from ..tls.stage import Keys, connected, made
from .old_server import BROKER, OldServer, socket_path

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from pathlib import Path

    from trio.testing import MockClock

    from proxy.relay.connection import Connection

LIMIT_SECONDS = 30
REQUEST, ANSWER = with_length(fetch_frame({T0: 5})), with_length(b"\0\0\0\7 and what follows")


def connection(*, fetches: int = 0) -> Connection:
    return cast("Connection", SimpleNamespace(in_flight=SimpleNamespace(cause=None, replica_fetches=fetches)))


@pytest.mark.parametrize(
    ("clients", "followers", "seconds"),
    [(1, 0, 0.25), (0, 1, 0.25), (8, 4, 3), (290, 10, 3), (690, 10, 7), (4990, 10, 10)],
)
async def test_followers_end_first_and_all_within_some_seconds(
    autojump_clock: MockClock, clients: int, followers: int, seconds: float
) -> None:
    log, found = RecordedLog(), list[tuple[float, int]]()
    turns = EndingTurns(log)

    async def end(each: Any) -> None:
        assert await turns.give(each) is Given.ENDS
        each.in_flight.cause = "drained"
        found.append((trio.current_time(), each.in_flight.replica_fetches))

    async with trio.open_nursery() as nursery:
        for each in [connection() for _ in range(clients)]:
            nursery.start_soon(end, each)
        for _ in range(followers):
            nursery.start_soon(end, connection(fetches=7))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(turns.report)
    assert [fetches for _, fetches in found] == [7] * followers + [0] * clients
    times = [at for at, _ in found]
    assert len(set(times)) == clients + followers, "one at a time"
    assert times[-1] == pytest.approx(seconds, abs=0.1)
    told = [line["left"] for line in log.lines]
    assert set(log.events) == {"tls_connections_ending"}
    assert told[0] == clients + followers
    assert told[-1] == 0
    assert told == sorted(told, reverse=True)
    assert len(told) <= seconds + 2, "no peer makes more of it"


class Old(OldServer):
    """A process with one connection, whose follower speaks TLS and whose leader does not."""

    def __init__(self, draining: Draining) -> None:
        self.draining = draining
        self.calls: list[str] = []

    def hand_over(self, giving: OldProcess) -> None:
        self.calls.append("hand_over")
        self.draining.give = giving.give
        self.draining.begun.set()

    def take_back(self) -> None:
        self.calls.append("take_back")
        self.draining.call_off()

    def confirm(self, process: int) -> None:
        self.calls.append("confirm")


class Scene:
    def __init__(self, old: Old, channel: Channel, peer: ssl.SSLSocket, leader: trio.SocketStream) -> None:
        self.old, self.channel, self.peer, self.leader = old, channel, peer, leader
        self.log = RecordedLog()

    async def ask(self) -> None:
        """A fetch of the follower's reaches the leader."""
        await trio.to_thread.run_sync(self.peer.sendall, REQUEST)
        assert (await read_frame(self.leader))[:8] == REQUEST[4:12]

    async def answer(self) -> None:
        await self.leader.send_all(ANSWER)
        assert await self.read() == ANSWER

    async def read(self) -> bytes:
        return await trio.to_thread.run_sync(self.peer.recv, 100)

    def causes(self) -> list[object]:
        return [line["cause"] for line in self.log.lines if line["event"] == "connection_closed"]


@asynccontextmanager
async def handing_over(home: Path, monkeypatch: pytest.MonkeyPatch, *, proving: float = 0.2) -> AsyncIterator[Scene]:
    """It, and a new process, which the old one is about to begin with."""
    monkeypatch.setattr(giving, "PROVING_SECONDS", proving)
    keys, path, draining = Keys(home), socket_path(), Draining()
    leg, _ = made(keys.listen())
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    upstream = Address(*listener.socket.getsockname()[:2])
    with trio.fail_after(LIMIT_SECONDS):
        async with (
            open_poller() as poller,
            listener,
            connected(leg, keys.client()) as (own, peer),
            trio.open_nursery() as nursery,
        ):
            log = RecordedLog()

            async def run() -> None:
                await relay(
                    own, upstream, peer="102", throttle=throttle(), limits=limits(), changes=Changes(),
                    draining=draining, poller=poller, log=log,
                )  # fmt: skip

            nursery.start_soon(run)
            old = Old(draining)
            async with await listener.accept() as leader:
                nursery.start_soon(OldProcess(path, old, log).run)
                await trio.testing.wait_all_tasks_blocked(0.05)
                channel = Channel(trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM))
                await channel.connect(path)
                await channel.send(Hello(SCHEMA, BROKER))
                await channel.receive()
                scene = Scene(old, channel, peer, leader)
                scene.log = log
                yield scene
                channel.close()
            nursery.cancel_scope.cancel()


async def begin(channel: Channel) -> None:
    """Prove the new process for as long as it takes."""
    await channel.send(Ready())
    while True:
        await channel.send(Alive())
        with trio.move_on_after(0.05):
            assert await channel.receive() == (Begin({}), [])
            return


async def prove(channel: Channel) -> None:
    while True:
        await channel.send(Alive())
        with trio.move_on_after(0.05):
            assert await channel.receive() == (Confirmed(), []), "nothing of a connection with TLS goes over"
            return


async def test_it_ends_when_what_was_asked_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with handing_over(tmp_path, monkeypatch) as scene:
        await scene.ask()
        await begin(scene.channel)
        await prove(scene.channel)
        await trio.sleep(0.5)
        assert scene.causes() == []
        await scene.answer()
        assert await scene.read() == b""
        scene.peer.close()
        while not scene.causes():  # noqa: ASYNC110 - a log has no event of Trio's
            await trio.sleep(0.01)
    assert scene.causes() == ["drained"]
    assert next(line["left"] for line in scene.log.lines if line["event"] == "tls_connections_ending") == 1


async def test_it_stays_where_the_new_process_fails_before_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EndingTurns, "give", _waits)
    async with handing_over(tmp_path, monkeypatch) as scene:
        await scene.ask()
        await begin(scene.channel)
        scene.channel.close()
        while "take_back" not in scene.old.calls:  # noqa: ASYNC110 - a server of a test has no event
            await trio.sleep(0.01)
        await trio.sleep(0.5)
        await scene.answer()
        await scene.ask()
        await scene.answer()
        assert scene.causes() == []


async def _waits(_turns: EndingTurns, _connection: Connection) -> Given:
    await trio.sleep(0.4)
    return Given.ENDS

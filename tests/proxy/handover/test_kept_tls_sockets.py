"""TLS sockets of connections that are handed over: the other process gets one end of a pair in place of each."""

from __future__ import annotations

import os
import socket
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from protocol.wire.framing import with_length
from proxy.changes import Changes
from proxy.config.settings import Address
from proxy.handover import old_process as giving
from proxy.handover.channel import Channel
from proxy.handover.kept_tls_sockets import open_kept_tls_sockets
from proxy.handover.messages import SCHEMA, Alive, Begin, Confirmed, ConnectionState, Hello, Ready
from proxy.handover.old_process import OldProcess
from proxy.relay.connection import Draining, relay
from proxy.relay.poller import open_poller
from proxy.tls.tls_watchdog import TLS_WATCHDOG
from tests.open_files import open_files

from ..conversation import fetch_frame, throttle
from ..recorded_log import RecordedLog
from ..relay.wire import T0, limits, read_frame
from ..tls.stage import Keys, connected, made
from .old_server import BROKER, OldServer, socket_path

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    import pytest

    from proxy.handover.kept_tls_sockets import KeptTlsSockets

LIMIT_SECONDS = 30
REQUEST, ANSWER = with_length(fetch_frame({T0: 5})), with_length(b"\0\0\0\7 and what follows")


class Old(OldServer):
    """A process with one connection, whose follower (`peer`) speaks TLS and whose leader does not."""

    def __init__(
        self, path: Path, kept: KeptTlsSockets, peer: ssl.SSLSocket, draining: Draining, log: RecordedLog
    ) -> None:
        self.kept, self.peer, self.draining, self.log = kept, peer, draining, log
        self.giving = OldProcess(path, self, log)
        self.giving.kept = kept

        self.channel: Channel
        self.ends_the_other = False
        self.at_hand_over: Callable[[], object] = lambda: None
        self.has_taken_back = trio.Event()

    def is_ending(self) -> bool:
        return not self.ends_the_other  # nothing has to be proven

    def hand_over(self, giving: OldProcess) -> None:
        if self.ends_the_other:
            self.channel.close()
        self.at_hand_over()
        self.draining.give = giving.give
        self.draining.begun.set()

    def take_back(self) -> None:
        self.draining.call_off()
        self.has_taken_back.set()

    def confirm(self, process: int) -> None:
        pass


@asynccontextmanager
async def old_process(
    home: Path, *, ends_the_other: bool = False, at_hand_over: Callable[[], object] = lambda: None
) -> AsyncIterator[tuple[Old, Channel]]:
    """It, and the new process' channel, which is to get the connection next, or ends just then."""
    keys = Keys(home)
    leg, _ = made(keys.listen())
    log, failed = RecordedLog(), list[BaseException]()
    path = socket_path()
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    upstream = Address(*listener.socket.getsockname()[:2])
    with trio.fail_after(LIMIT_SECONDS):
        async with (
            open_poller() as poller,
            open_kept_tls_sockets(log, grace_seconds=0.2, poller_failed=failed.append) as kept,
            listener,
            trio.open_nursery() as nursery,
        ):
            assert kept is not None
            async with connected(leg, keys.client()) as (own, peer):
                draining = Draining()

                async def run() -> None:
                    await relay(
                        own, upstream, peer="102", throttle=throttle(), limits=limits(), changes=Changes(),
                        draining=draining, poller=poller, log=log,
                    )  # fmt: skip

                nursery.start_soon(run)
                async with await listener.accept():
                    channel = Channel(trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                    old = Old(path, kept, peer, draining, log)
                    old.channel, old.ends_the_other, old.at_hand_over = channel, ends_the_other, at_hand_over
                    nursery.start_soon(old.giving.run)
                    await trio.testing.wait_all_tasks_blocked(0.05)
                    await channel.connect(path)
                    await channel.send(Hello(SCHEMA, BROKER))
                    await channel.receive()
                    await channel.send(Ready())
                    if ends_the_other:
                        await channel.send(Alive())
                    else:
                        assert await channel.receive() == (Begin({}), [])
                        assert await channel.receive() == (Confirmed(), [])
                    yield old, channel
                    channel.close()
                nursery.cancel_scope.cancel()
    assert failed == []


async def taken(channel: Channel) -> tuple[ConnectionState, trio.SocketStream, int]:
    """The connection: its state, the follower's socket, the leader's descriptor."""
    state, (follower, leader) = await channel.receive()
    assert isinstance(state, ConnectionState)
    sock = socket.socket(fileno=follower)
    sock.setblocking(False)
    return state, trio.SocketStream(trio.socket.from_stdlib_socket(sock)), leader


async def test_the_other_process_gets_one_end_of_a_pair_and_every_byte_by_way_of_it(tmp_path: Path) -> None:
    async with old_process(tmp_path) as (old, channel):
        state, pair, leader = await taken(channel)
        assert (state.source, pair.socket.family) == ("127.0.0.1", socket.AF_UNIX)
        os.close(leader)
        await trio.to_thread.run_sync(old.peer.sendall, REQUEST)
        assert with_length(await read_frame(pair)) == REQUEST
        await pair.send_all(ANSWER)
        assert await trio.to_thread.run_sync(old.peer.recv, 100) == ANSWER
        assert old.kept.count == 1
        await pair.aclose()
        assert await trio.to_thread.run_sync(old.peer.recv, 100) == b""
        old.peer.close()
        await old.kept.outlast(None)
        assert old.kept.count == 0


async def test_a_process_that_is_told_to_end_closes_them_after_the_grace(tmp_path: Path) -> None:
    async with old_process(tmp_path) as (old, channel):
        _, pair, leader = await taken(channel)
        os.close(leader)
        await trio.testing.wait_all_tasks_blocked(0.05)
        old.kept.end_soon()
        old.kept.end_soon()  # nothing is put off
        await old.kept.outlast(None)
        assert await pair.receive_some(1) == b""
        await pair.aclose()


async def closed(old: Old) -> str:
    while "connection_closed" not in old.log.events:  # noqa: ASYNC110 - a log has no event of Trio's
        await trio.sleep(0.01)
    (line,) = [line for line in old.log.lines if line["event"] == "connection_closed"]
    return str(line["cause"])


async def test_without_a_descriptor_left_the_follower_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left() -> None:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as full:
        fill = partial(full.setattr, giving.socket, "socketpair", none_left)
        async with old_process(tmp_path, at_hand_over=fill) as (old, _):
            assert await closed(old) == "drained"
    assert [line["error"] for line in old.log.lines if line["event"] == "handover_failed"] == [
        "[Errno 24] Too many open files"
    ]


async def test_where_the_other_process_is_gone_the_connection_stays_and_nothing_is_left_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(giving, "PROVING_SECONDS", 0.0)
    # The first read or handshake of a process opens a socket that stays, here or in an earlier test.
    TLS_WATCHDOG.begin(-1)
    TLS_WATCHDOG.end()
    before = open_files()
    async with old_process(tmp_path, ends_the_other=True) as (old, _):
        await old.has_taken_back.wait()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert old.kept.count == 0
        assert "connection_closed" not in old.log.events
    assert open_files() - before == set()

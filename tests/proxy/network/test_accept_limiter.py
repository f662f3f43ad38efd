"""Connections are accepted while there is room, and no error of an accept ends that or fills the log."""

from __future__ import annotations

import contextlib
import errno
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio

from proxy.network.accept_limiter import TELL_SECONDS, AcceptLimiter, Pause
from proxy.network.silent_peers import MIN_SECONDS
from proxy.relay.connection import Draining
from tests.proxy.recorded_log import RecordedLog
from tests.proxy.relay.wire import limits

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator

    from trio.testing import MockClock

LIMIT_SECONDS = 30.0


class Door:
    """A accept_limiter that serves; every connection is held until `leave` is set."""

    def __init__(self, accept_limiter: AcceptLimiter, listener: trio.SocketListener, log: RecordedLog) -> None:
        self.accept_limiter = accept_limiter
        self.listener = listener
        self.log = log
        self.leave = trio.Event()
        self.dialled: list[trio.SocketStream] = []
        self.waits_for_a_word = False

    async def handle(self, sock: socket.socket) -> None:
        if self.waits_for_a_word and not await self.accept_limiter.silent.has_spoken(sock, Draining()):
            sock.close()
            return
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(sock))
        with contextlib.suppress(trio.BrokenResourceError):
            async with stream:
                await stream.send_all(b"x")
                await self.leave.wait()

    async def dial(self) -> trio.SocketStream:
        self.dialled.append(await trio.open_tcp_stream(*self.listener.socket.getsockname()[:2]))
        return self.dialled[-1]


@asynccontextmanager
async def door(
    listener: Any = None,
    *,
    short: Any = lambda: False,
    of_brokers: Any = lambda: 0,
    is_for_brokers: bool = False,
    **changed: int,
) -> AsyncIterator[Door]:
    log = RecordedLog()
    real = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    with trio.fail_after(LIMIT_SECONDS):
        async with real, trio.open_nursery() as nursery:
            limiter = AcceptLimiter(limits(**changed), log, memory_is_short=short, of_brokers=of_brokers)
            found = Door(limiter, real, log)
            serve = partial(limiter.serve, is_for_brokers=is_for_brokers)
            nursery.start_soon(serve, listener(real) if listener else real, found.handle, nursery)
            yield found
            for stream in found.dialled:
                await stream.aclose()
            nursery.cancel_scope.cancel()


async def served(stream: trio.SocketStream, seconds: float = LIMIT_SECONDS) -> bool:
    """`seconds`: for one that waits and is not served."""
    with trio.move_on_after(seconds):
        return await stream.receive_some(1) == b"x"
    return False


async def test_beyond_the_limit_connections_wait_in_the_backlog() -> None:
    async with door(max_connections=2) as to:
        first, second, third = [await to.dial() for _ in range(3)]
        assert [await served(first), await served(second), await served(third, 0.3)] == [True, True, False]
        assert to.log.events == ["accept_paused"]
        assert to.accept_limiter.pauses == {Pause.CONNECTIONS: 1}
        assert to.accept_limiter.pausing is Pause.CONNECTIONS
        assert to.accept_limiter.pause_in_words() == "no connection is accepted (connections): 2 are open"
        to.leave.set()
        assert await served(third)


async def test_those_that_wait_are_accepted_at_once_but_no_more_than_there_is_room_for() -> None:
    async with door(max_connections=5) as to:
        to.accept_limiter.most = 0
        streams = [await to.dial() for _ in range(7)]
        await trio.sleep(0.2)
        assert to.accept_limiter.open == 0
        to.accept_limiter.most = 5
        while not to.accept_limiter.open:
            await trio.lowlevel.checkpoint()
        assert to.accept_limiter.open == 5
        assert [await served(each, 0.3) for each in streams] == [True] * 5 + [False] * 2


async def test_a_silent_peer_makes_room_for_one_that_speaks(mock_clock: MockClock) -> None:
    async with door(max_connections=2) as to:
        to.waits_for_a_word = True
        first, second = await to.dial(), await to.dial()
        await first.send_all(b"?")
        assert await served(first)
        mock_clock.jump(2 * MIN_SECONDS)
        third = await to.dial()
        await third.send_all(b"?")
        assert await served(third)
        assert await second.receive_some(1) == b"", "it had said nothing"
        assert (to.accept_limiter.open, to.accept_limiter.silent.closed) == (2, 1)
        assert to.accept_limiter.pausing is Pause.CONNECTIONS


@pytest.mark.parametrize("knows", ["the address", "a Fetch", "the listener"])
async def test_the_last_tenth_of_the_places_is_for_brokers(knows: str) -> None:
    """Clients that had taken all of them kept followers out."""
    followers = 0
    async with door(max_connections=20, of_brokers=lambda: followers, is_for_brokers=knows == "the listener") as to:
        limiter = to.accept_limiter
        limiter.broker_addresses = frozenset({"127.0.0.9"})
        strangers = [await to.dial() for _ in range(18)]
        assert all([await served(each) for each in strangers])
        if knows == "the address":
            refused = [await to.dial() for _ in range(3)]
            assert not any([await served(each, 1) for each in refused])
            assert limiter.refused_of_others == 3
            assert to.log.events == ["connection_refused"]
            limiter.broker_addresses = frozenset({"127.0.0.1"})
        elif knows == "a Fetch":
            followers = 2
        assert await served(await to.dial())
        assert await served(await to.dial())
        assert limiter.open == 20


async def test_without_addresses_of_brokers_others_wait_in_the_backlog() -> None:
    followers = 0
    async with door(max_connections=20, of_brokers=lambda: followers) as to:
        streams = [await to.dial() for _ in range(19)]
        assert [await served(each, 0.3) for each in streams] == [True] * 18 + [False]
        assert to.accept_limiter.pausing is Pause.CONNECTIONS
        followers = 1
        assert await served(streams[-1])


async def test_one_source_has_no_more_than_its_share() -> None:
    async with door(max_connections_per_source=2) as to:
        streams = [await to.dial() for _ in range(4)]
        assert [await served(each) for each in streams] == [True, True, False, False]
        assert to.accept_limiter.refused_of_source == 2
        assert to.log.events == ["connection_refused"]
        to.leave.set()
        for stream in streams:
            await stream.aclose()
        while to.accept_limiter.open:  # noqa: ASYNC110 - it counts, and tells nobody
            await trio.sleep(0.01)
        assert await served(await to.dial())


async def test_while_memory_is_short_nothing_is_accepted() -> None:
    short = [True]
    async with door(short=lambda: short[0]) as to:
        stream = await to.dial()
        assert not await served(stream, 0.3)
        assert to.accept_limiter.pause_in_words() == "no connection is accepted (memory): 0 are open"
        short.clear()
        short.append(False)
        assert await served(stream)
        assert to.accept_limiter.pausing is None
        assert to.accept_limiter.pause_in_words() is None
        assert to.accept_limiter.pauses == {Pause.MEMORY: 1}


class NoDescriptors:
    """As `ulimit -n` leaves it: accept fails until somebody closes something."""

    def __init__(self, listener: trio.SocketListener, failures: int) -> None:
        self._listener = listener
        self.socket = listener.socket
        self.failures = failures

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        await self._listener.aclose()

    async def accept(self) -> trio.SocketStream:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return await self._listener.accept()


async def close(sock: socket.socket) -> None:
    sock.close()


async def test_without_descriptors_there_is_one_line_a_minute(autojump_clock: MockClock) -> None:
    failures = int(2.5 * TELL_SECONDS / 0.1)
    with trio.fail_after(1e6):
        log = RecordedLog()
        real = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
        async with real, trio.open_nursery() as nursery:
            accept_limiter = AcceptLimiter(limits(), log)
            listener: Any = NoDescriptors(real, failures)
            nursery.start_soon(accept_limiter.serve, listener, close, nursery)
            for _ in range(24):
                await trio.sleep(0.1 * TELL_SECONDS)
                assert accept_limiter.pausing is Pause.DESCRIPTORS
                assert accept_limiter.pause_in_words() == "no connection is accepted (descriptors): 0 are open"
            await trio.sleep(0.2 * TELL_SECONDS)
            assert not listener.failures
            assert accept_limiter.pausing is None
            nursery.cancel_scope.cancel()
    assert log.events == ["accept_paused"] * 3
    assert log.lines[0]["reason"] == "descriptors"
    assert accept_limiter.pauses == {Pause.DESCRIPTORS: failures}


@pytest.mark.parametrize(("soft", "most"), [(256, 96), (10, 1), (1 << 20, 10_000)])
async def test_the_limit_of_open_files_is_a_bound_in_any_case(
    soft: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (soft, soft))
    accept_limiter = AcceptLimiter(limits(), RecordedLog())
    assert accept_limiter.most == most
    few = accept_limiter.few_open_files()
    assert (few is not None and f"{most} connections at most" in few) == (most < 10_000)

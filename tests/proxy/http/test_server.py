"""Who is let in, who makes room, and that `run` may be called again."""

from __future__ import annotations

import errno
import socket
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from proxy.config.settings import Address
from proxy.errors import ConfigurationError
from proxy.http.authorization import Trust
from proxy.http.loop_share import LoopShare
from proxy.http.request_checks import Bounds, HttpStatistics
from proxy.http.routing import Route, Routes
from proxy.http.server import HttpServer
from tests.proxy.recorded_log import RecordedLog

from .serving import ANY_PORT, GET, PATIENT_SECONDS, ROUTES, heard, one_answer, serving, up

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.http.routing import Answer, Request

FEW = Bounds(connections=4)


@pytest.fixture
def log() -> RecordedLog:
    return RecordedLog()


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(PATIENT_SECONDS):
        while not condition():  # noqa: ASYNC110 - what the other side of a socket does has no event
            await trio.sleep(0.01)


async def test_who_has_waited_longest_for_its_peer_makes_room() -> None:
    async with serving(FEW) as served:
        idle = [await served.connect() for _ in range(4)]
        await until(lambda: served.server.connections == 4)
        await idle[0].send_all(GET)  # now the second has waited longest
        await one_answer(idle[0])
        assert await served.serves_the_next()
        assert await heard(idle[1]) == b""
        assert served.refused == {"made_room": 1}
        await idle[2].send_all(GET)
        assert (await one_answer(idle[2])).endswith(b"up\n")
        for stream in idle:
            await stream.aclose()


async def test_a_thousand_that_say_nothing_keep_no_probe_out() -> None:
    async with serving(FEW) as served:
        silent = [await served.connect() for _ in range(60)]
        for _ in range(5):
            assert await served.serves_the_next()
        assert served.server.connections <= 4
        assert served.log.events == ["http_refused"]  # once a minute
        for stream in silent:
            await stream.aclose()


async def test_who_has_just_come_makes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others are being worked for, a probe was the only one that waited, and was cut off for the next."""
    monkeypatch.setattr("proxy.http.server._GRACE_SECONDS", 10.0)
    gate = trio.Event()

    async def slow(request: Request) -> Answer:
        await gate.wait()
        return await up(request)

    async with serving(FEW, routes=[*ROUTES, Route("GET", "/slow", slow)]) as served:
        busy = [await served.connect() for _ in range(3)]
        for stream in busy:
            await stream.send_all(GET.replace(b"/up", b"/slow"))
        probe = await served.connect()
        await until(lambda: served.server.connections == 4)
        late = [await served.connect() for _ in range(5)]
        await trio.sleep(0.05)
        await probe.send_all(GET)
        assert (await one_answer(probe)).endswith(b"up\n")
        assert served.refused == {}
        gate.set()
        for stream in (probe, *busy, *late):
            await stream.aclose()


async def test_who_came_and_went_costs_the_next_little(log: RecordedLog) -> None:
    """The kernel keeps them until they are accepted; one in each turn of the loop made a probe wait for all."""
    many, turns = 600, 0
    with closing(HttpServer.bind(ANY_PORT, log=log)) as server:
        for _ in range(many):
            socket.create_connection(server.address, timeout=PATIENT_SECONDS).close()
        async with trio.open_nursery() as nursery:

            async def count() -> None:
                nonlocal turns
                while True:
                    await trio.lowlevel.checkpoint()
                    turns += 1

            async with await trio.open_tcp_stream(*server.address) as probe:
                await probe.send_all(GET)
                await nursery.start(partial(server.run, Routes(ROUTES), trust=Trust(()), turn=LoopShare()))
                nursery.start_soon(count)
                assert (await one_answer(probe)).endswith(b"up\n")
            nursery.cancel_scope.cancel()
    assert turns < many / 2


async def test_where_all_are_being_worked_for_the_next_waits_its_turn() -> None:
    """It is not refused: what is worked for has an end that no peer draws out."""
    gate = trio.Event()

    async def slow(request: Request) -> Answer:
        await gate.wait()
        return await up(request)

    async with serving(FEW, routes=[*ROUTES, Route("GET", "/slow", slow)]) as served:
        busy = [await served.connect() for _ in range(4)]
        for stream in busy:
            await stream.send_all(GET.replace(b"/up", b"/slow"))
        await until(lambda: served.server.connections == 4)
        await trio.sleep(0.05)
        async with await served.connect() as late:
            await late.send_all(GET)
            await trio.sleep(0.05)
            assert served.server.connections == 4
            assert served.refused == {}
            gate.set()
            assert (await one_answer(late)).endswith(b"up\n")
        for stream in busy:
            assert (await one_answer(stream)).endswith(b"up\n")
            await stream.aclose()


async def test_an_idle_connection_does_not_delay_the_end() -> None:
    patient = Bounds(head_seconds=2 * PATIENT_SECONDS, linger_seconds=2 * PATIENT_SECONDS)
    with trio.fail_after(PATIENT_SECONDS):
        async with serving(patient) as served:
            stream = await served.connect()
            await until(lambda: served.server.connections == 1)
    await stream.aclose()


async def test_it_may_be_run_again_on_the_same_socket(log: RecordedLog) -> None:
    """As a supervisor does: who dialled meanwhile is served by the next run."""
    with closing(HttpServer.bind(ANY_PORT, log=log)) as server:
        run = partial(server.run, Routes(ROUTES), trust=Trust(()), turn=LoopShare())
        async with trio.open_nursery() as nursery:
            await nursery.start(run)
            nursery.cancel_scope.cancel()
        async with await trio.open_tcp_stream(*server.address) as stream, trio.open_nursery() as nursery:
            await stream.send_all(GET)
            await nursery.start(run)
            assert (await one_answer(stream)).endswith(b"up\n")
            nursery.cancel_scope.cancel()


async def test_a_socket_that_is_none_any_more_ends_the_run(log: RecordedLog) -> None:
    server = HttpServer.bind(ANY_PORT, log=log)
    server.close()
    with pytest.RaisesGroup(ValueError):
        await server.run(Routes(ROUTES), trust=Trust(()), turn=LoopShare())


class Refusing:
    """A listener of which accept fails."""

    def __init__(self, listener: socket.socket, error: int) -> None:
        self._listener = listener
        self._error = error
        self.times = 3

    def fileno(self) -> int:
        return self._listener.fileno()

    def getsockname(self) -> object:
        return self._listener.getsockname()

    def close(self) -> None:
        self._listener.close()

    def accept(self) -> object:
        if self.times:
            self.times -= 1
            raise OSError(self._error, "fake")
        return self._listener.accept()


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ECONNABORTED, errno.EPROTO])
async def test_what_accept_fails_with_is_counted_and_tried_again(error: int, log: RecordedLog) -> None:
    listener = socket.create_server(ANY_PORT)
    listener.settimeout(0)
    statistics = HttpStatistics()
    refusing = Refusing(listener, error)
    server = HttpServer(refusing, log=log, bounds=Bounds(), statistics=statistics)
    with closing(server):
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(server.run, Routes(ROUTES), trust=Trust(()), turn=LoopShare()))
            async with await trio.open_tcp_stream(*server.address) as stream:
                await stream.send_all(GET)
                assert (await one_answer(stream)).endswith(b"up\n")
            nursery.cancel_scope.cancel()
    assert sum(statistics.refused.values()) == 3
    assert log.events == ["http_refused"]


def test_a_port_in_use_is_said_at_once(log: RecordedLog) -> None:
    server = HttpServer.bind(ANY_PORT, log=log)
    try:
        with pytest.raises(ConfigurationError) as caught:
            HttpServer.bind(server.address, log=log)
    finally:
        server.close()
    expected = f"http.listen: cannot listen on {server.address}: Address already in use"
    assert str(caught.value) == expected


def test_an_address_of_somebody_else_is_said_at_once(log: RecordedLog) -> None:
    with pytest.raises(ConfigurationError, match=r"http\.listen: cannot listen on 192\.0\.2\.1:9404: "):
        HttpServer.bind(Address("192.0.2.1", 9404), log=log)

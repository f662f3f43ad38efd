from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, cast

import pytest
import trio

from proxy.tls.failures import HandshakeError, Reason
from proxy.tls.handshakes import YIELDS_AFTER_SECONDS, Handshakes

if TYPE_CHECKING:
    from trio.testing import MockClock


class Shaking:
    """A socket whose peer answers when it is told to; never before."""

    def __init__(self) -> None:
        self.ours, self.peers = socket.socketpair()
        self.ours.settimeout(0)
        self.began = False

    def do_handshake(self) -> None:
        self.began = True
        try:
            self.ours.recv(1)
        except BlockingIOError:
            raise ssl.SSLWantReadError from None

    def fileno(self) -> int:
        return self.ours.fileno()

    def answers(self) -> None:
        self.peers.send(b"x")

    def close(self) -> None:
        self.ours.close()
        self.peers.close()


class Crowd:
    def __init__(self, handshakes: Handshakes, nursery: trio.Nursery) -> None:
        self.handshakes, self._nursery = handshakes, nursery
        self.ended: dict[int, str] = {}
        self.all: list[Shaking] = []

    def comes(self) -> Shaking:
        one = Shaking()
        self._nursery.start_soon(self._run, len(self.all), one)
        self.all.append(one)
        return one

    async def _run(self, number: int, one: Shaking) -> None:
        try:
            await self.handshakes.run(cast("ssl.SSLSocket", one))
            self.ended[number] = "done"
        except HandshakeError as error:
            self.ended[number] = error.reason.value
        finally:
            one.close()


async def settled() -> None:
    for _ in range(5):
        await trio.testing.wait_all_tasks_blocked()


async def test_no_more_than_so_many_are_under_way(mock_clock: MockClock, nursery: trio.Nursery) -> None:
    crowd = Crowd(Handshakes(2, 10.0), nursery)
    found = []
    for _ in range(3):
        found.append(crowd.comes())
        await settled()
    first, second, third = found
    assert [each.began for each in (first, second, third)] == [True, True, False]
    assert crowd.handshakes.under_way == 2
    second.answers()
    await settled()
    assert crowd.ended == {1: "done"}
    assert third.began
    for each in (first, third):
        each.answers()
    await settled()
    assert crowd.ended == {0: "done", 1: "done", 2: "done"}
    assert crowd.handshakes.under_way == 0


async def test_who_keeps_others_waiting_yields(mock_clock: MockClock, nursery: trio.Nursery) -> None:
    crowd = Crowd(Handshakes(2, 10.0), nursery)
    for _ in range(2):
        crowd.comes()
        await settled()
        mock_clock.jump(0.001)
    honest = crowd.comes()
    await settled()
    mock_clock.jump(YIELDS_AFTER_SECONDS - 0.01)
    await settled()
    assert not honest.began
    mock_clock.jump(0.02)
    await settled()
    honest.answers()
    await settled()
    assert crowd.ended == {0: Reason.CROWDED_OUT.value, 2: "done"}
    mock_clock.jump(10)
    await settled()
    assert crowd.ended[1] == Reason.TIMEOUT.value


async def test_thousands_half_done_keep_nobody_out_for_long(mock_clock: MockClock, nursery: trio.Nursery) -> None:
    """Who comes last waits for the line, 64 at a time and a second each, until its patience is over."""
    crowd = Crowd(Handshakes(64, 10.0), nursery)
    for _ in range(300):
        crowd.comes()
    await settled()
    honest = crowd.comes()
    for _ in range(9):
        await settled()
        if honest.began:
            break
        mock_clock.jump(YIELDS_AFTER_SECONDS)
    assert honest.began
    honest.answers()
    await settled()
    assert crowd.ended[300] == "done"
    assert crowd.handshakes.under_way <= 64
    mock_clock.jump(20)
    await settled()
    assert len(crowd.ended) == 301


async def test_the_wait_for_a_place_counts(mock_clock: MockClock, nursery: trio.Nursery) -> None:
    crowd = Crowd(Handshakes(1, 0.5), nursery)
    crowd.comes(), crowd.comes()
    await settled()
    mock_clock.jump(0.6)
    await settled()
    assert set(crowd.ended.values()) == {Reason.TIMEOUT.value}


async def test_an_error_of_openssl_is_the_callers(nursery: trio.Nursery) -> None:
    class Broken(Shaking):
        def do_handshake(self) -> None:
            raise ssl.SSLError(1, "no")

    broken, handshakes = Broken(), Handshakes(1, 1.0)
    with pytest.raises(ssl.SSLError):
        await handshakes.run(cast("ssl.SSLSocket", broken))
    broken.close()
    assert handshakes.under_way == 0

from __future__ import annotations

import socket
import ssl
from typing import TYPE_CHECKING, cast

import pytest
import trio
import trio.testing

from proxy.tls.handshakes import YIELDS_AFTER_SECONDS, HandshakeError, Handshakes, Reason

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


class Turns(trio.abc.Instrument):
    """Counts the loop's turns, and the attempts in each."""

    def __init__(self) -> None:
        self.attempts = [0]

    def after_io_wait(self, timeout: float) -> None:
        self.attempts.append(0)


async def test_all_that_come_at_once_have_one_of_the_loops_turns_each(nursery: trio.Nursery) -> None:
    """Each is a signature: 250 that had been silent, and spoke together, took one turn of the loop for all."""
    turns, attempted = Turns(), Shaking.do_handshake

    class Counted(Shaking):
        def do_handshake(self) -> None:
            turns.attempts[-1] += 1
            attempted(self)

    handshakes = Handshakes(64, 10.0)
    strangers = [Counted() for _ in range(40)]
    trio.lowlevel.add_instrument(turns)
    for stranger in strangers:
        nursery.start_soon(handshakes.run, cast("ssl.SSLSocket", stranger))
    await trio.testing.wait_all_tasks_blocked()
    assert sum(turns.attempts) == 40
    for stranger in strangers:
        stranger.answers()
    await trio.testing.wait_all_tasks_blocked(0.05)
    trio.lowlevel.remove_instrument(turns)
    assert (sum(turns.attempts), max(turns.attempts)) == (80, 1)
    assert handshakes.under_way == 0
    for stranger in strangers:
        stranger.close()


async def test_who_has_answered_and_waits_for_a_turn_is_not_crowded_out(
    mock_clock: MockClock, nursery: trio.Nursery
) -> None:
    """A line that is long keeps it waiting, which is not its peer's doing."""
    crowd = Crowd(Handshakes(1, 10.0), nursery)
    answers = crowd.comes()
    await settled()
    async with crowd.handshakes.turn:
        answers.answers()
        await settled()
        newcomer = crowd.comes()
        await settled()
        for _ in range(3):
            mock_clock.jump(YIELDS_AFTER_SECONDS)
            await settled()
        assert (newcomer.began, crowd.ended) == (False, {})
    await settled()
    assert crowd.ended == {0: "done"}
    newcomer.answers()
    await settled()
    assert crowd.ended == {0: "done", 1: "done"}


async def test_who_falls_silent_again_after_its_turn_is_crowded_out(
    mock_clock: MockClock, nursery: trio.Nursery
) -> None:
    crowd = Crowd(Handshakes(1, 10.0), nursery)
    async with crowd.handshakes.turn:
        crowd.comes()
        await settled()
        newcomer = crowd.comes()
        await settled()
        mock_clock.jump(0.5)
        await settled()
    for _ in range(4):
        mock_clock.jump(YIELDS_AFTER_SECONDS / 2)
        await settled()
    assert (newcomer.began, crowd.ended) == (True, {0: Reason.CROWDED_OUT.value})
    newcomer.answers()
    await settled()
    assert crowd.ended[1] == "done"


async def test_an_error_of_openssl_is_the_callers(nursery: trio.Nursery) -> None:
    class Broken(Shaking):
        def do_handshake(self) -> None:
            raise ssl.SSLError(1, "no")

    broken, handshakes = Broken(), Handshakes(1, 1.0)
    with pytest.raises(ssl.SSLError):
        await handshakes.run(cast("ssl.SSLSocket", broken))
    broken.close()
    assert handshakes.under_way == 0

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import trio

from proxy.http.turn import SLICE_SECONDS, Turn

if TYPE_CHECKING:
    from collections.abc import Generator


class Clock:
    """Each step of work takes a third of a slice."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def steps(self, count: int, done: list[int]) -> Generator[None, None, str]:
        for number in range(count):
            self.now += 0.34 * SLICE_SECONDS
            done.append(number)
            yield
        return "result"


async def test_work_is_done_slice_by_slice_and_others_run_between() -> None:
    clock = Clock()
    turn, done, seen = Turn(clock), list[int](), list[int]()

    async def beside() -> None:
        while len(done) < 30:
            seen.append(len(done))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(beside)
        assert await turn.work_out(clock.steps(30, done)) == "result"
    steps = [after - before for before, after in itertools.pairwise(seen)]
    # Three steps are a slice: the third is the one that is over time. Of two turns the tasks run in any order.
    assert max(steps) <= 6


async def test_in_one_turn_of_the_loop_one_works() -> None:
    clock = Clock()
    turn, done = Turn(clock), list[int]()
    most = 0

    async def watch() -> None:
        nonlocal most
        before = 0
        while len(done) < 300:
            most = max(most, len(done) - before)
            before = len(done)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        for _ in range(10):
            nursery.start_soon(turn.work_out, clock.steps(30, done))
    assert 0 < most <= 6


async def test_what_the_work_raises_is_raised_and_the_turn_is_free() -> None:
    def fails() -> Generator[None, None, None]:
        yield
        raise ValueError("x")

    turn = Turn()
    with pytest.raises(ValueError, match="x"):
        await turn.work_out(fails())
    with trio.fail_after(1):
        async with turn:
            pass

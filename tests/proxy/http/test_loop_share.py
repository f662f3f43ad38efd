""""""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from proxy.http.loop_share import SLICE_SECONDS, InterruptedWorkError, LoopShare, Shared

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator

    from trio.testing import MockClock


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


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def test_work_is_done_slice_by_slice_and_others_run_between(clock: Clock) -> None:
    turn, done, seen = LoopShare(clock), list[int](), list[int]()

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


async def test_in_one_turn_of_the_loop_one_works(clock: Clock) -> None:
    turn, done = LoopShare(clock), list[int]()
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


async def test_what_is_short_does_not_wait_for_pages(clock: Clock) -> None:
    """A probe waited for a slice of every page in its line: with sixty of them for seconds."""
    turn, done = LoopShare(clock), list[int]()
    async with trio.open_nursery() as nursery:
        for _ in range(60):
            nursery.start_soon(turn.work_out, clock.steps(30, done))
        await trio.testing.wait_all_tasks_blocked()  # they never are, so this is once round
        before = len(done)
        for _ in range(3):
            async with turn:
                clock.now += 0.1 * SLICE_SECONDS
        assert len(done) - before < 40
        nursery.cancel_scope.cancel()


async def test_what_is_short_is_done_together_up_to_a_slice(clock: Clock) -> None:
    turn, turns = LoopShare(clock), list[int]()
    seconds: dict[int, float] = {}
    now = 0

    async def step() -> None:
        async with turn:
            seconds[now] = seconds.get(now, 0.0) + 0.3 * SLICE_SECONDS
            clock.now += 0.3 * SLICE_SECONDS

    async with trio.open_nursery() as nursery:
        for _ in range(40):
            nursery.start_soon(step)
        while sum(seconds.values()) < 40 * 0.29 * SLICE_SECONDS:
            await trio.lowlevel.checkpoint()
            now += 1
            turns.append(now)
    # Four of them are a slice: the fourth is the one that is over time.
    assert max(seconds.values()) <= 8 * 0.31 * SLICE_SECONDS
    assert len(turns) < 30


async def test_who_stops_waiting_keeps_nobody_waiting(clock: Clock) -> None:
    turn, done = LoopShare(clock), list[int]()
    for after in range(6):
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(turn.work_out, clock.steps(4, done))
                nursery.start_soon(turn.__aenter__)  # is cancelled before its end, or never leaves
            for _ in range(after):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        turn = turn if turn._inside == 0 else LoopShare(clock)
    with trio.fail_after(30):
        assert await turn.work_out(clock.steps(4, done)) == "result"


async def test_what_the_work_raises_is_raised_and_the_turn_is_free() -> None:
    def fails() -> Generator[None, None, None]:
        yield
        raise ValueError("x")

    turn = LoopShare()
    with pytest.raises(ValueError, match="x"):
        await turn.work_out(fails())
    with trio.fail_after(30):
        async with turn:
            pass


class Work:
    """Takes a second; says how manieth time it was."""

    def __init__(self) -> None:
        self.began: list[float] = []
        self.fails = False

    async def __call__(self) -> int:
        self.began.append(trio.current_time())
        await trio.sleep(1)
        if self.fails:
            raise ValueError("x")
        return len(self.began)


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
async def shared(work: Work) -> AsyncIterator[Shared[int]]:
    shared = Shared(work, lambda took: 9 * took)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shared.run)
        yield shared
        nursery.cancel_scope.cancel()


async def test_all_who_ask_before_it_begins_share_one_go(
    shared: Shared[int], work: Work, autojump_clock: MockClock
) -> None:
    results = []

    async def ask() -> None:
        results.append(await shared.fresh())

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
    assert results == [1] * 5


async def test_nobody_asks_nothing_is_done(shared: Shared[int], work: Work, autojump_clock: MockClock) -> None:
    await trio.sleep(100)
    assert work.began == []


async def test_what_is_fresh_began_after_it_was_asked_for(
    shared: Shared[int], work: Work, autojump_clock: MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shared.fresh)
        await trio.sleep(0.5)
        asked_at = trio.current_time()
        assert await shared.fresh() == 2
    assert work.began[1] >= asked_at
    assert work.began[1] - work.began[0] == pytest.approx(1 + 9)  # one second's work, nine of rest


async def test_what_is_recent_is_what_was_found_before_the_rest(
    shared: Shared[int], work: Work, autojump_clock: MockClock
) -> None:
    assert [await shared.recent() for _ in range(100)] == [1] * 100
    await trio.sleep(9.5)
    assert await shared.recent() == 2


async def test_what_is_recent_is_had_even_as_the_rest_ends(work: Work, autojump_clock: MockClock) -> None:
    """Tasks of one turn run in any order: the rest may end while somebody who asked is let others go first."""
    shared = Shared(work, lambda _: 9.0)

    async def ask_at(moment: float) -> None:
        await trio.sleep_until(moment)
        assert await shared.recent() in (1, 2)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(shared.run)
        await shared.fresh()
        ends = trio.current_time() + 9.0
        async with trio.open_nursery() as asking:
            for _ in range(40):
                asking.start_soon(ask_at, ends)
        nursery.cancel_scope.cancel()


async def test_who_stops_waiting_does_not_stop_the_work(
    shared: Shared[int], work: Work, autojump_clock: MockClock
) -> None:
    with trio.move_on_after(0.5):
        await shared.fresh()
    await trio.sleep(1)
    assert await shared.recent() == 1


async def test_who_waits_is_told_that_the_work_failed(work: Work, autojump_clock: MockClock) -> None:
    work.fails = True
    shared = Shared(work, lambda _: 0.0)

    async def ask() -> None:
        with pytest.raises(InterruptedWorkError):
            await shared.fresh()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        with pytest.raises(ValueError, match="x"):
            await shared.run()
    work.fails = False
    async with trio.open_nursery() as nursery:  # as a supervisor does
        nursery.start_soon(shared.run)
        assert await shared.fresh() == 2
        nursery.cancel_scope.cancel()

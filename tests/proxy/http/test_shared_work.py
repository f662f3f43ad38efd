from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from proxy.http.shared_work import InterruptedWorkError, Shared

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trio.testing import MockClock


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

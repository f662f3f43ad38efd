"""Background tasks that fail, on Trio's own clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from proxy.process.supervision import (
    FIRST_PAUSE_SECONDS,
    MAX_PAUSE_SECONDS,
    STEADY_SECONDS,
    Supervisor,
    Task,
    summary,
)
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from trio.testing import MockClock


@pytest.fixture
def log() -> RecordedLog:
    return RecordedLog()


@pytest.fixture
def supervisor(log: RecordedLog) -> Supervisor:
    return Supervisor(log)


async def returns() -> None:
    await trio.lowlevel.checkpoint()


async def fails() -> None:
    await trio.lowlevel.checkpoint()
    raise ValueError("why")


async def fails_at_once() -> None:
    raise KeyError("no checkpoint")


async def fails_in_a_nursery() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fails)
        nursery.start_soon(trio.sleep_forever)


async def fails_in_a_group_of_groups() -> None:
    await trio.lowlevel.checkpoint()
    raise ExceptionGroup("outer", [ExceptionGroup("inner", [OSError("disk"), ValueError("why")]), ValueError("why")])


@pytest.mark.parametrize(
    ("run", "error"),
    [
        (returns, "it returned"),
        (fails, "ValueError: why"),
        (fails_at_once, "KeyError: 'no checkpoint'"),
        (fails_in_a_nursery, "ValueError: why"),
        (fails_in_a_group_of_groups, "OSError: disk; ValueError: why"),
    ],
)
async def test_what_fails_is_logged_counted_and_run_again(
    run: Callable[[], Awaitable[None]],
    error: str,
    supervisor: Supervisor,
    log: RecordedLog,
    autojump_clock: MockClock,
) -> None:
    with trio.move_on_after(FIRST_PAUSE_SECONDS * 1.5) as scope:
        await supervisor.keep(Task.HTTP, run)
    assert scope.cancelled_caught
    assert supervisor.restarts == {Task.HTTP: 2}
    assert [line["event"] for line in log.lines] == ["task_restarted"] * 2
    told = log.lines[1]
    assert (told["level"], told["task"], told["error"], told["restarts"]) == ("error", "http", error, 2)
    assert (told["exc_info"] is None) == (run is returns)


async def test_pauses_double_up_to_a_bound_and_begin_anew_after_a_steady_run(
    supervisor: Supervisor, log: RecordedLog, autojump_clock: MockClock
) -> None:
    began: list[float] = []

    async def run() -> None:
        began.append(trio.current_time())
        await trio.sleep(STEADY_SECONDS if len(began) == 10 else 0)
        raise ValueError

    with trio.move_on_after(5 * MAX_PAUSE_SECONDS + STEADY_SECONDS):
        await supervisor.keep(Task.JOURNAL, run)
    pauses = [line["pause_seconds"] for line in log.lines]
    assert pauses[:9] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10]
    assert pauses[9:12] == [0.1, 0.2, 0.4]
    assert began[1] - began[0] == pytest.approx(0.1)


async def test_a_cancellation_passes_and_is_no_failure(supervisor: Supervisor, log: RecordedLog) -> None:
    async def cancelled_with_children() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.keep, Task.HTTP, cancelled_with_children)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert (log.lines, supervisor.restarts) == ([], {})


async def test_an_error_while_being_cancelled_is_told_and_the_task_is_not_run_again(
    supervisor: Supervisor, log: RecordedLog
) -> None:
    runs = 0

    async def fails_as_it_ends() -> None:
        nonlocal runs
        runs += 1
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("at the end")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.keep, Task.HTTP, fails_as_it_ends)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert (runs, log.events) == (1, ["task_restarted"])


@pytest.mark.parametrize("ends", [KeyboardInterrupt, SystemExit])
async def test_who_wants_the_process_to_end_is_not_held_back(ends: type[BaseException], supervisor: Supervisor) -> None:
    async def run() -> None:
        await trio.lowlevel.checkpoint()
        raise ends

    with pytest.raises(ends):
        await supervisor.keep(Task.HTTP, run)


def test_a_thousand_errors_are_summed_up() -> None:
    errors = ExceptionGroup("many", [ValueError(str(number)) for number in range(1000)])
    assert summary(errors).endswith("ValueError: 4; and 995 more")

"""Work in threads: what it returns and raises, and that nothing of it stays behind."""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
import trio

from proxy.threads import FILE_THREADS, NoThreadError, in_thread
from tests.uncollected import uncollected

if TYPE_CHECKING:
    from collections.abc import Iterator


class Large:
    """What work may have in its hands when it fails."""


@pytest.fixture
def no_collector() -> Iterator[None]:
    with uncollected():
        yield


async def test_work_is_done_by_another_thread_and_its_result_returned() -> None:
    def work(number: int, text: str) -> tuple[str, threading.Thread]:
        return text * number, threading.current_thread()

    text, thread = await in_thread(work, 2, "ab", limiter=FILE_THREADS)
    assert text == "abab"
    assert thread is not threading.current_thread()


async def test_an_error_is_raised_and_keeps_nothing_of_what_the_work_was_about(no_collector: None) -> None:
    held: list[weakref.ref[Large]] = []

    def work(argument: Large) -> None:
        local = Large()
        held.extend((weakref.ref(argument), weakref.ref(local)))
        raise ValueError("line 7")

    with suppress(ValueError):  # pytest.raises would keep the error, and with it everything
        await in_thread(work, Large(), limiter=FILE_THREADS)
    with trio.move_on_after(10):  # the thread lets go of its work a moment after it has told of its error
        while [there() for there in held] != [None, None]:  # noqa: ASYNC110 - a thread tells nobody
            await trio.sleep(0.01)
    assert [there() for there in held] == [None, None]


async def test_the_traceback_leads_to_where_it_was_raised() -> None:
    def breaks() -> None:
        raise KeyError("topic")

    with pytest.raises(KeyError) as raised:
        await in_thread(breaks, limiter=FILE_THREADS)
    assert raised.traceback[-1].name == "breaks"


async def test_where_no_thread_can_be_started_the_error_says_so(no_threads: None) -> None:
    with pytest.raises(NoThreadError, match="can't start new thread"):
        await in_thread(Large, limiter=FILE_THREADS)


async def test_an_error_of_the_works_own_is_not_taken_for_want_of_a_thread() -> None:
    """Whoever does without a thread would do without its result, and nobody would see the defect."""

    def breaks() -> None:
        raise RuntimeError("dictionary changed size during iteration")

    with pytest.raises(RuntimeError, match="changed size") as raised:
        await in_thread(breaks, limiter=FILE_THREADS)
    assert not isinstance(raised.value, NoThreadError)


async def test_who_is_cancelled_leaves_the_thread_to_itself() -> None:
    """Otherwise a token's or a key's file on a disk that hangs kept the process from ending when it was told to."""
    ends = threading.Event()
    with trio.move_on_after(0.01) as scope:
        await in_thread(ends.wait, limiter=trio.CapacityLimiter(1))
    ends.set()
    assert scope.cancelled_caught

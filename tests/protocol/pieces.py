"""Something long in steps, as the relay does it; what happens in between, the tests say."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from protocol import work_in_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from protocol.work_in_steps import Steps

T = TypeVar("T")


@contextmanager
def every_item_a_step() -> Iterator[None]:
    """A loop over two items is two steps."""
    before, work_in_steps.STEP_ITEMS = work_in_steps.STEP_ITEMS, 1
    try:
        yield
    finally:
        work_in_steps.STEP_ITEMS = before


def in_pieces(work: Steps[T], between: Callable[[int], None]) -> T:
    """What `work` returns; `between` is called with the number of each pause, and may end the work by an error."""
    pauses = 0
    try:
        while True:
            next(work)
            pauses += 1
            between(pauses)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        work.close()

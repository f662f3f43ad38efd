"""Something long in pieces, as the relay does it, but stopped wherever it may be; what happens then, the tests say."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from greenlet import getcurrent, greenlet

from protocol import pacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")


@contextmanager
def every_item_a_pause() -> Iterator[None]:
    """Loops over two items may be stopped in between."""
    before = pacing.FEW, pacing.CHEAP
    pacing.FEW = pacing.CHEAP = 1
    try:
        yield
    finally:
        pacing.FEW, pacing.CHEAP = before


def in_pieces(work: Callable[[], T], between: Callable[[int], None]) -> T:
    """What `work` returns; `between` is called with the number of each pause."""
    outside = getcurrent()

    def run() -> T:
        pacing.in_slices(outside.switch)
        return work()

    stack, pauses = greenlet(run), 0
    result: T = stack.switch()
    while not stack.dead:
        pauses += 1
        between(pauses)
        result = stack.switch()
    return result

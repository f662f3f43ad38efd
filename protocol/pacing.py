"""Loops over many partitions, which whoever runs them may cut into slices.

    for key in paced(keys): ...        the same as `for key in keys`, and in between others may have their turn

    in_order(keys, age)                the same as `sorted(keys, key=age)`, in the same way
    let_go(wanted)                     frees what a loop was over, in the same way

The code that loops need not know whether it is cut: without `in_slices` a loop runs through at once. Whoever wants to
cut it calls `in_slices` in its own context (PEP 567), with a function that decides when to pause. Nothing here reads a
clock.

Invariant: what is looped over is the collection as it was when the loop began.
"""

from __future__ import annotations

from contextvars import ContextVar
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

T = TypeVar("T")

FEW = 64
"""The number of items that are looped over without a pause; each takes up to some microseconds."""
CHEAP = 1000
"""The same if each takes only some hundredths of a microsecond: an attribute is read, or two items are compared. To
sort 1000 items takes 0.06 ms, and three times as long in pieces (measured)."""
_PAUSE: ContextVar[Callable[[], None] | None] = ContextVar("pause", default=None)


def in_slices(may_pause: Callable[[], None]) -> None:
    """Call `may_pause` after every few items from now on, in this context: it returns when the loop may go on."""
    _PAUSE.set(may_pause)


def pause() -> None:
    """Pause between two steps of long work that is no loop over a collection."""
    may_pause = _PAUSE.get()
    if may_pause is not None:
        may_pause()


def paced(items: Collection[T], *, cheap: bool = False) -> Iterable[T]:
    """Return the items, in their order. `cheap`: what is done with each takes some hundredths of a microsecond."""
    if len(items) <= FEW:
        return items
    at_once, may_pause = CHEAP if cheap else FEW, _PAUSE.get()
    if may_pause is None or len(items) <= at_once:
        return items
    return chain.from_iterable(_pieces(list(items), may_pause, at_once))


def in_order(items: Collection[T], key: Callable[[T], float]) -> list[T]:
    """Return the same as `sorted(items, key=key)`. To ask each of 25 000 items for its key takes 2 ms where other
    connections' items are in the processor's caches, so that is done in pieces; what is left in one is to sort the
    numbers."""
    if len(items) < 2:
        return list(items)
    if len(items) <= CHEAP or _PAUSE.get() is None:
        return sorted(items, key=key)
    listed = list(items)
    keys = list(map(key, paced(listed)))
    return list(map(listed.__getitem__, paced(sorted(range(len(listed)), key=keys.__getitem__))))


def let_go(*spent: list[Any] | dict[Any, Any] | set[Any]) -> None:
    """Empty collections that nobody needs any more, with pauses in which others have their turn. A Fetch of 25 000
    partitions leaves collections behind that take 5 ms to free in one go (measured). Without `in_slices` nothing is
    done here, and Python frees them as usual."""
    may_pause = _PAUSE.get()
    if may_pause is None:
        return
    for items in spent:
        while len(items) > FEW:
            if isinstance(items, list):
                del items[-FEW:]
            else:
                take = items.popitem if isinstance(items, dict) else items.pop
                for _ in range(FEW):
                    take()
            may_pause()


def _pieces(items: list[T], may_pause: Callable[[], None], at_once: int) -> Iterator[list[T]]:
    for at in range(0, len(items), at_once):
        if at:
            may_pause()
        yield items[at : at + at_once]

"""Work over many partitions, done in steps between which other connections have their turns.

    steps = link.decide(demand, now)     a generator that yields after each step
    decision = run_through(steps)        all steps at once: nothing else happens in between

To decide a Fetch of 1000 partitions takes 3 ms, of 20 000 60 ms. `relay.fetch_handling` runs the steps of such a Fetch
in slices of 0.2 ms, and those of a short one through. A step deals with `STEP_ITEMS` partitions. What takes a few
nanoseconds for each (a list of all keys) is part of a step, however many there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

T = TypeVar("T")
U = TypeVar("U")
K = TypeVar("K")
Steps: TypeAlias = "Generator[None, None, T]"

STEP_ITEMS = 64
"""The number of partitions that a step deals with."""
LIGHT = 4
"""The factor by which a step deals with more where little is done with each."""
HEAVY = 1 / 4
"""The factor by which it deals with fewer where much is done: a replica that is met takes 5 µs."""


def run_through(steps: Steps[T]) -> T:
    """Do all steps, and return the result."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        result: T = done.value
        return result


def parts(items: Sequence[T], times: float = 1) -> Iterable[Sequence[T]]:
    """Cut `items` into parts of `times` `STEP_ITEMS`. Few items are one part, which is `items` itself: nothing to pause
    for."""
    if len(items) <= STEP_ITEMS * times:
        return (items,)
    size = int(STEP_ITEMS * times) or 1
    return (items[at : at + size] for at in range(0, len(items), size))


def collected(items: Sequence[T], of: Callable[[Sequence[T]], list[U]]) -> Steps[list[U]]:
    """Return what `of`, a comprehension that takes some tenths of a microsecond for each, makes of the items."""
    if len(items) <= STEP_ITEMS * LIGHT:
        return of(items)
    found: list[U] = []
    for part in parts(items, LIGHT):
        found += of(part)
        yield
    return found


def gathered(items: Sequence[T], of: Callable[[Sequence[T]], dict[K, U]]) -> Steps[dict[K, U]]:
    """Return the dict that `of`, a comprehension as well, makes of the items, in their order."""
    if len(items) <= STEP_ITEMS * LIGHT:
        return of(items)
    found: dict[K, U] = {}
    for part in parts(items, LIGHT):
        found |= of(part)
        yield
    return found


def freed(items: list[Any]) -> Steps[None]:
    """Drop the items, of which nothing is needed any more: to free 20 000 at once takes up to 1 ms."""
    while len(items) > STEP_ITEMS * LIGHT:
        del items[-STEP_ITEMS * LIGHT :]
        yield

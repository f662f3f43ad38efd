"""Work over many partitions, done in steps between which other connections have their turns.

    steps = link.decide(demand, now)     a generator that yields after each step
    decision = run_through(steps)        all steps at once: nothing else happens in between

To decide a Fetch of 1000 partitions takes 3 ms, of 20 000 60 ms. `relay.fetch_handling` runs the steps of such a Fetch
in slices of 0.2 ms, and those of a short one through. A step deals with `STEP_ITEMS` partitions; a loop that takes some
tenths of a microsecond for each is one step, however long it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

T = TypeVar("T")
Steps: TypeAlias = "Generator[None, None, T]"

STEP_ITEMS = 64
"""How many partitions one step deals with. A loop over more of them is a step of its own."""


def run_through(steps: Steps[T]) -> T:
    """Do all steps, and return the result."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        result: T = done.value
        return result


def parts(items: Sequence[T]) -> Sequence[Sequence[T]]:
    """Cut `items` into parts of `STEP_ITEMS`. Few items are one part, which is `items` itself: nothing to pause for."""
    if len(items) <= STEP_ITEMS:
        return (items,)
    return [items[at : at + STEP_ITEMS] for at in range(0, len(items), STEP_ITEMS)]

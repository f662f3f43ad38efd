"""Work over many partitions is done in steps, and comes to the same when all steps are done at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from protocol.work_in_steps import LIGHT, STEP_ITEMS, collected, freed, parts, run_through

if TYPE_CHECKING:
    from protocol.work_in_steps import Steps


def add(numbers: range) -> Steps[int]:
    total = 0
    for part in parts(numbers):
        total += sum(part)
        yield
    return total


def test_each_part_is_a_step() -> None:
    work = add(range(10 * STEP_ITEMS))
    for _ in range(10):
        next(work)
    with pytest.raises(StopIteration, match=str(sum(range(10 * STEP_ITEMS)))):
        next(work)


def test_all_steps_at_once() -> None:
    assert run_through(add(range(10 * STEP_ITEMS))) == sum(range(10 * STEP_ITEMS))
    assert run_through(add(range(0))) == 0


def test_an_error_of_a_step_is_raised() -> None:
    def fails() -> Steps[int]:
        yield
        raise ValueError("in the second step")

    with pytest.raises(ValueError, match="second"):
        run_through(fails())


@pytest.mark.parametrize("count", [0, 1, STEP_ITEMS, STEP_ITEMS + 1, 5 * STEP_ITEMS + 3])
def test_parts_are_the_items_in_their_order(count: int) -> None:
    found = list(parts(range(count)))
    assert [each for part in found for each in part] == list(range(count))
    assert all(len(part) <= STEP_ITEMS for part in found)
    assert (len(found) > 1) is (count > STEP_ITEMS)


@pytest.mark.parametrize("count", [0, 1, STEP_ITEMS, STEP_ITEMS + 1, 5 * STEP_ITEMS + 3])
def test_what_is_collected_is_of_all_items(count: int) -> None:
    assert run_through(collected(range(count), lambda part: [2 * each for each in part])) == list(
        range(0, 2 * count, 2)
    )


def test_much_is_freed_in_steps() -> None:
    items = list(range(5 * STEP_ITEMS * LIGHT))
    work = freed(items)
    for left in (4, 3, 2, 1):
        next(work)
        assert items == list(range(left * STEP_ITEMS * LIGHT))
    run_through(work)

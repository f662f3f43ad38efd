"""Loops and clearances over many partitions are cut where somebody asked for it, and nowhere else."""

from __future__ import annotations

from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.pacing import CHEAP, FEW, in_order, in_slices, let_go, paced

if TYPE_CHECKING:
    from collections.abc import Callable


def cut(work: Callable[[], object]) -> int:
    """How often `work` let others have their turn."""
    pauses = 0

    def may_pause() -> None:
        nonlocal pauses
        pauses += 1

    def run() -> None:
        in_slices(may_pause)
        work()

    copy_context().run(run)
    return pauses


MANY = range(10 * FEW)


def test_what_is_paced_is_what_it_was_when_the_loop_began() -> None:
    items = list(MANY)
    found = []

    def work() -> None:
        for item in paced(items):
            found.append(item)
            items.clear()

    assert cut(work) == 9
    assert found == list(MANY)


@pytest.mark.parametrize("spent", [list(MANY), dict.fromkeys(MANY), set(MANY)], ids=["list", "dict", "set"])
def test_what_is_let_go_is_let_go_in_pieces(spent: Any) -> None:
    assert cut(lambda: let_go(spent)) == 9
    assert len(spent) == FEW


def test_without_slices_nothing_is_let_go_here() -> None:
    spent = list(MANY)
    let_go(spent)
    assert spent == list(MANY)
    assert list(paced(spent)) == spent


def test_what_is_cheap_is_paced_in_larger_pieces() -> None:
    found: list[int] = []
    assert cut(lambda: found.extend(paced(range(3 * CHEAP), cheap=True))) == 2
    assert found == list(range(3 * CHEAP))


def test_what_is_put_in_order_is_asked_for_its_key_in_pieces() -> None:
    assert cut(lambda: in_order(range(20 * FEW), float)) == 2 * 19
    assert cut(lambda: in_order(range(CHEAP), float)) == 0


@given(st.lists(st.integers(0, 9), max_size=4 * FEW))
def test_the_order_is_that_of_sorted_alike_ones_stay_as_they_were(keys: list[int]) -> None:
    items = list(enumerate(keys * 20))  # more than are put in order at once, as a rule
    found: list[list[tuple[int, int]]] = []
    cut(lambda: found.append(in_order(items, lambda item: item[1])))
    assert found == [sorted(items, key=lambda item: item[1])] == [in_order(items, lambda item: item[1])]

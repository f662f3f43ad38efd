"""Loops and clearances over many partitions are cut where somebody asked for it, and nowhere else."""

from __future__ import annotations

from contextvars import copy_context
from typing import TYPE_CHECKING, Any

import pytest

from protocol.pacing import FEW, in_slices, let_go, paced

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

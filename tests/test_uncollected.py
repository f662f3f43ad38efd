from __future__ import annotations

import pytest

from .uncollected import uncollected


class Circle:
    def __init__(self) -> None:
        self.itself = self


def test_a_circle_of_the_block_is_found() -> None:
    with pytest.raises(AssertionError), uncollected(leaves_nothing=True):
        Circle()


def test_a_circle_from_before_that_is_let_go_meanwhile_is_not_the_block_s() -> None:
    """As those of an earlier test's threads, which end whenever they do."""
    earlier = [Circle()]
    with uncollected(leaves_nothing=True):
        earlier.clear()

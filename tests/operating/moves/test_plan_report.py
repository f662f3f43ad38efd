from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from operating.moves.plan_report import plan_table
from operating.moves.planning import Ground, Wanted, plan_move
from reassignment import PartitionMove, TopicPartition
from tests.operating.moves.shown import shown

if TYPE_CHECKING:
    from reassignment import MoveMap

MB = 1_000_000
ORDERS = TopicPartition("orders", 0)
NOTHING = "Nothing moves between brokers: every replica that is wanted is there already."


@pytest.mark.parametrize(
    ("moves", "warnings", "lines"),
    [
        ({}, (), [NOTHING]),
        # A move between disks, which is one all the same.
        ({}, ("orders-0: log_dirs move data", "second"), [NOTHING, "warning: orders-0: log_dirs move data",
                                                           "warning: second"]),
        ({ORDERS: PartitionMove((101,), (104,))}, ("orders-0: log_dirs move data",),
         ["1 partition to move, of unknown size over the network", "warning: orders-0: log_dirs move data"]),
    ],
)  # fmt: skip
def test_warnings_are_shown_even_if_nothing_moves_over_the_network(
    moves: MoveMap, warnings: tuple[str, ...], lines: list[str]
) -> None:
    found = shown(plan_table(plan_move(Ground(moves, {}, warnings=warnings), Wanted())))
    assert [found[0], *(line for line in found if line.startswith("warning"))] == lines

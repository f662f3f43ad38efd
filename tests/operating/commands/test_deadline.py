from __future__ import annotations

from datetime import UTC, datetime

import pytest

from operating.commands.plan import about_deadline, deadline_to_come
from operating.moves.planning import Ground, Wanted, plan_move
from proxy.errors import ConfigurationError
from reassignment import PartitionMove, Size, TopicPartition

MB = 1_000_000
NOW = datetime(2026, 11, 21, 5, tzinfo=UTC)
BY = "to be over by 2026-11-21 06:00:00 UTC (in 1h00m)"


@pytest.mark.parametrize(
    ("size_bytes", "written", "said"),
    [
        (5000 * MB, 0, f"{BY}; at the full rate it takes 16m40s, the sidecars find the least that will do"),
        (50_000 * MB, 0, f"warning: {BY}, and even at the full rate it takes 2h46m, so it will be late"),
        # Longer than an ETA is told.
        (1_572_858_000 * MB, 0, f"warning: {BY}, and even at the full rate it takes 3640d21h, so it will be late"),
        (5000 * MB, 6 * MB, f"warning: {BY}, and even at the full rate it never ends, so it will be late"),
        (None, 0, f"{BY}; how long it takes at the full rate is not known"),
    ],
)
def test_whether_it_ends_in_time_is_said(size_bytes: float | None, written: float, said: str) -> None:
    partition = TopicPartition("orders", 0)
    sizes = {} if size_bytes is None else {partition: Size(101, size_bytes, written)}
    plan = plan_move(Ground({partition: PartitionMove((101,), (104,))}, sizes), Wanted(5 * MB))
    assert about_deadline(plan, deadline_to_come("06:00", 5 * MB, NOW), NOW) == [said]


def test_a_rate_of_0_ends_nothing() -> None:
    with pytest.raises(ConfigurationError, match=r"^--rate: with --finish-by it has to be above 0, found 0$"):
        deadline_to_come("06:00", 0.0, NOW)

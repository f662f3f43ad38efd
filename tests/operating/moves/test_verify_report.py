from __future__ import annotations

import pytest

from operating.moves.verification import Progress, Stage, Verification
from operating.moves.verify_report import summary, verify_table
from reassignment import TopicPartition
from tests.operating.moves.shown import shown

MIB = 1 << 20


@pytest.mark.parametrize(
    ("partitions", "told"),
    [
        ([(Stage.MOVING, 6 * MIB), (Stage.DONE, 0)], "1 of 2 partitions are in place, 6.00 MiB left"),
        ([(Stage.MOVING, 6 * MIB), (Stage.BEHIND, MIB)], "0 of 2 partitions are in place, 7.00 MiB left"),
        # Nobody leads it, so nobody can say how large it is.
        ([(Stage.MOVING, 6 * MIB), (Stage.BEHIND, None)], "0 of 2 partitions are in place, at least 6.00 MiB left"),
        ([(Stage.MOVING, None), (Stage.BEHIND, None)], "0 of 2 partitions are in place"),
        # It is in place, whatever its size.
        ([(Stage.MOVING, 6 * MIB), (Stage.DONE, None)], "1 of 2 partitions are in place, 6.00 MiB left"),
        ([(Stage.NOT_STARTED, 0), (Stage.DONE, 0)], "1 of 2 partitions are in place"),
    ],
)
def test_what_is_left_is_told_as_far_as_it_is_known(partitions: list[tuple[Stage, int | None]], told: str) -> None:
    found = Verification(
        tuple(
            Progress(TopicPartition("orders", number), stage, (101, 103), left_bytes=left)
            for number, (stage, left) in enumerate(partitions)
        )
    )
    assert summary(found) == told
    assert shown(verify_table(found, removed=[]))[0] == told

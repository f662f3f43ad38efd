from __future__ import annotations

from benchmarks.goodput import CASES, NATIVE, SIDECARS, table


def row(way: str, wire_over_log: float, case: str = "60 kB") -> dict[str, object]:
    return {
        "case": case, "way": way, "wire_over_log": wire_over_log, "mean_over_quota": 1.0,
        "worst_second_over_quota": 1.1, "fetches_per_second": 12.4,
    }  # fmt: skip


def test_a_case_is_one_row_with_what_came_of_it_last_each_way() -> None:
    rows = [row(NATIVE.title, 1.02), row(SIDECARS[0].title, 1.3), row(SIDECARS[0].title, 1.001)]
    assert table(rows).splitlines()[2:] == ["| 60 kB | 1.020, 1.001, - | 1.00, 1.00, - | 1.10, 1.10, - | 12, 12, - |"]


def test_every_case_moves_the_same_batches_each_way() -> None:
    for case in CASES:
        moves = [case.move(way) for way in (NATIVE, *SIDECARS)]
        assert len({(move.shape, move.mixed_with, move.partitions, move.bytes_per_partition) for move in moves}) == 1

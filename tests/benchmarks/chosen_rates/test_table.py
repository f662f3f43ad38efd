from __future__ import annotations

from benchmarks.chosen_rates.run import quantiles
from benchmarks.chosen_rates.table import table


def row(way: str, p99: float, seconds: float = 40.0) -> dict[str, object]:
    return {
        "way": way, "seconds": seconds, "p50_ms": 3.0, "p95_ms": 6.0, "p99_ms": p99, "worst_ms": 2 * p99,
        "link_share": 0.5,
    }  # fmt: skip


def test_a_line_for_each_way_with_the_medians_of_its_runs() -> None:
    found = table([row("auto", 30, 50), row("none", 10), row("none", 12), row("none", 11), row("auto", 25, 40)])
    _, _, none, auto = found.splitlines()
    assert none == "| no move | 3 |  | 3 | 6 | 11 (10, 12, 11) | 1.1 | 24 | 50% |"
    assert auto == "| **sidecar, `auto`, the leader's** | 2 | 45 | 3 | 6 | 28 (30, 25) | 2.8 | 60 | 50% |"


def test_without_a_run_without_a_move_there_is_no_ratio() -> None:
    assert "| 30 (30) |  | 60 |" in table([row("auto", 30)])


def test_quantiles_are_of_all_batches() -> None:
    found = quantiles([number / 1000 for number in range(100, 0, -1)])
    assert found == {"p50_ms": 51, "p95_ms": 96, "p99_ms": 100, "worst_ms": 100}

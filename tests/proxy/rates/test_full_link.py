"""A rate that does not hurt beside producers whose load doubles and halves, on a link whose end it finds again and
again: of what they wait in those seconds their p99 is made."""

from __future__ import annotations

from statistics import mean

import pytest

from .full_link import MB, Catching, FullLink

SEEDS = range(6)
MOVED_BYTES = 300 * MB
CAUTIOUS_SECONDS = 60.0
"""At a fixed rate of 5 MB/s."""


def runs(late: float) -> tuple[list[FullLink], list[FullLink], list[float]]:
    """Without a move, and with one; and how many seconds each move took."""
    alone = [FullLink(None, late, seed) for seed in SEEDS]
    beside = [FullLink(Catching(), late, seed) for seed in SEEDS]
    for run in alone:
        run.run()
    return alone, beside, [run.run(moved_bytes=MOVED_BYTES) for run in beside]


def percentile(share: float, found: list[FullLink]) -> float:
    return mean(run.percentile(share) for run in found)


@pytest.mark.parametrize("late", [0.08, 0.3])
def test_a_move_costs_producers_a_quarter_of_their_p99_at_most(late: float) -> None:
    alone, beside, seconds = runs(late)
    assert percentile(0.99, beside) <= 1.25 * percentile(0.99, alone)
    assert max(seconds) <= 0.6 * CAUTIOUS_SECONDS


def test_where_nobody_is_late_by_chance_few_batches_notice_that_the_link_was_full() -> None:
    """A full link is noticed after some thirty milliseconds, not at the next look: p95 was 2.2 times that without a
    move before."""
    alone, beside, _ = runs(0.02)
    assert percentile(0.95, beside) <= 1.35 * percentile(0.95, alone)


def test_a_link_that_is_full_is_no_reason_for_many_fetches() -> None:
    run = FullLink(Catching())
    assert run.fetches / run.run(moved_bytes=MOVED_BYTES) < 400

"""The journal's cost stays what docs/journal.md says: two minutes of each kind of traffic stand for its hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.journal import HOUR_SECONDS, KINDS, MB, Traffic, measure

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 120


@pytest.mark.parametrize("kind", KINDS)
def test_an_hour_of_100_active_partitions_is_at_most_a_megabyte(kind: str, tmp_path: Path) -> None:
    cost = measure(kind, SECONDS, tmp_path)
    assert 0.1 * MB <= cost.bytes * HOUR_SECONDS / SECONDS <= 1.0 * MB
    assert cost.calls >= SECONDS * 900
    assert (cost.ledger_seconds + cost.writer_seconds) / SECONDS <= 0.02


@pytest.mark.parametrize("megabytes", [10, 100])
def test_as_much_is_caught_up_as_the_kind_says(megabytes: int) -> None:
    traffic, carried = Traffic(seed=73), 0
    for second in range(SECONDS):
        KINDS[f"catch-up at {megabytes} MB/s"](traffic, second)
        carried += sum(report.keywords.get("record_bytes", 0) for report in traffic.reports)
        traffic.report()
        traffic.ledger.take_finished(second + 1.0)
    assert carried / SECONDS / MB == pytest.approx(megabytes, rel=0.05)

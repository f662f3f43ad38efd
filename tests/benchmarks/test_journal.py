"""The journal's cost stays what docs/journal.md says: two minutes of each kind of traffic stand for its hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.journal import HOUR_SECONDS, KINDS, MB, measure

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = 120


@pytest.mark.parametrize("kind", KINDS)
def test_an_hour_of_100_active_partitions_is_at_most_a_megabyte(kind: str, tmp_path: Path) -> None:
    cost = measure(kind, SECONDS, tmp_path)
    assert 0.1 * MB <= cost.bytes * HOUR_SECONDS / SECONDS <= 1.0 * MB
    assert cost.calls >= SECONDS * 900
    assert (cost.ledger_seconds + cost.writer_seconds) / SECONDS <= 0.02

"""Many connections of many partitions: each has its share of the quota, over as many rounds as it takes to tell."""

from __future__ import annotations

import pytest

from ..proxy.conversation import MIB
from .crowd import SETTLED, WATCHER, Crowd

GRANT_SECONDS = 0.1
"""The seconds of the quota that a grant is worth: a round of one grant for each of 64 connections takes 6.4 s."""
ROUNDS = 7.5
"""The length of the window: in it a connection has seven grants or eight, so the least share is 7 / 7.5."""
pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    ("connections", "mib_per_second", "version"), [(16, 1.0, 12), (16, 8.0, 3), (32, 8.0, 12), (8, 64.0, 17)]
)
def test_each_connection_has_its_share(connections: int, mib_per_second: float, version: int) -> None:
    seconds = ROUNDS * GRANT_SECONDS * connections
    outcome = Crowd(connections, 100, mib_per_second, version).scene().run(SETTLED + seconds)
    rates, quota = outcome.rates(SETTLED), mib_per_second * MIB
    shares = [rates.get(name, 0.0) / quota for name in outcome.fetchers if not name.startswith(f"{WATCHER}<")]
    assert outcome.wrong == []
    assert sum(shares) >= 0.9
    assert min(shares) * connections >= 0.85

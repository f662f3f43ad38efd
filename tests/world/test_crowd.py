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
    shares, _ = shared(Crowd(connections, 100, mib_per_second, version, SETTLED + seconds))
    assert sum(shares) >= 0.9
    assert min(shares) * connections >= 0.85


def test_looks_do_not_cost_by_the_number_of_connections() -> None:
    """One partition in sync lets each look be a fetch, with an answer. While each connection looked by itself there
    were eleven times as many."""
    idle, busy = (shared(Crowd(16, 100, 4.0, 17, SETTLED + ROUNDS * GRANT_SECONDS * 16, idle)) for idle in (1, 0))
    assert min(idle[0]) * 16 >= 0.85
    assert idle[1] <= 4 * busy[1]


def shared(crowd: Crowd) -> tuple[list[float], int]:
    """Return what each connection had of the quota, and how many fetches all of them made."""
    outcome = crowd.scene().run(crowd.seconds)
    assert outcome.wrong == []
    rates = outcome.rates(SETTLED)
    names = [name for name in outcome.fetchers if not name.startswith(f"{WATCHER}<")]
    fetches = sum(outcome.fetchers[name].fetches for name in names)
    return [rates.get(name, 0.0) / (crowd.mib_per_second * MIB) for name in names], fetches

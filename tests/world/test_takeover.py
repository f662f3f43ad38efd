"""A sidecar that is replaced by another one while followers catch up: nobody notices, in bytes or in shares."""

from __future__ import annotations

from functools import partial

import pytest

from ..proxy.conversation import MIB
from .drawn import Rates
from .judges import figures
from .scene import Act, Fetch, Scene
from .sidecar import SidecarSpec
from .takeover import take_over

QUOTA = 2.0 * MIB
pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("version", [3, 12, 17])
@pytest.mark.parametrize("is_leader", [True, False])
def test_partitions_go_on_taking_turns(version: int, is_leader: bool) -> None:
    """Of six partitions that catch up one had 93 % of the quota and three had nothing, after an upgrade."""
    spec = SidecarSpec(Rates(leader=QUOTA, follower=QUOTA).toml, ingress=is_leader, egress=not is_leader)
    fetches = (Fetch(2, 1, {"t": 6}, version=version), Fetch(2, 3, {"t": 2}, 20, version=version, live={"live": 1}))
    acts = [Act(at, "take_over", partial(take_over, broker_id=1 if is_leader else 2)) for at in (6.0, 7.0)]
    outcome = Scene({1 if is_leader else 2: spec}, fetches, acts=tuple(acts)).run(16)
    assert outcome.wrong == []
    assert outcome.world.left == []
    assert figures(outcome) == []
    assert outcome.ledger.faults["taken_over"] == (2 if is_leader else 4)
    assert [(each.reconnects, each.refusals) for each in outcome.fetchers.values()] == [(0, 0), (0, 0)]
    before = outcome.rates(1, end=6)["2<1"]
    parts = outcome.rates(8, lambda each: (each.reader, each.key))
    found = [rate for (reader, _), rate in parts.items() if reader == "2<1"]
    assert len(found) == 6
    assert min(found) >= 0.7 * max(found)
    assert sum(found) >= 0.9 * before

"""Consumers of which only reads behind the tail count (``catch_up_only``), on the real relay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .clients import Client
from .drawn import Rates
from .ledger import worst_window
from .scene import Act, Scene
from .sidecar import SidecarSpec

if TYPE_CHECKING:
    from .scene import World

RATE = 2e6
PARTITIONS = 40
BATCH = 16_000
QUOTAS = f"{Rates().toml}[clients.mirror]\nconsumer_byte_rate = {int(RATE)}\ncatch_up_only = true\n"
pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("stands_still", [2.0, 6.0])
def test_a_mirror_that_stood_still_catches_up_within_its_quota(stands_still: float) -> None:
    """The first answer of each partition was free: 21 MB in one second under 2 MB/s."""
    resumes, each_bytes = 5 + stands_still, 1_000_000

    def flow(world: World) -> None:
        for partition in range(PARTITIONS):
            world.broker(1).append(("m", partition))
        world.network.at(world.network.now + 1.0, flow, world)

    def stand_still(world: World) -> None:
        world.fetchers["mirror"].paused_until = resumes

    def write(world: World) -> None:
        for partition in range(PARTITIONS):
            world.broker(1).append(("m", partition), each_bytes // BATCH)

    acts = (Act(0.1, "flow", flow), Act(5.0, "stands still", stand_still), Act(6.0, "written", write))
    scene = Scene(
        {1: SidecarSpec(QUOTAS, egress=False)}, (), (Client("consumer", 1, "mirror", {"m": PARTITIONS}),), acts
    )
    outcome = scene.run(resumes + 45)
    assert outcome.wrong == []
    arrivals = [each for each in outcome.ledger.arrivals if each.at >= resumes]
    assert worst_window(arrivals, 1.0) <= 1.3 * RATE + BATCH
    before = [each for each in outcome.ledger.arrivals if 1 <= each.at < 5]
    assert sum(each.size for each in before) == pytest.approx(4 * PARTITIONS * BATCH, rel=0.3)
    log = outcome.world.broker(1).log(("m", 0))
    assert max(outcome.fetchers["mirror"].wants.values()) >= log.end_offset - 4 * log.records  # it has caught up

"""A throttled link with nothing else on it never becomes a hot loop: at most 25 fetches a second, 3 at quota 0."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
import trio

from lab.measuring.figures import fetches_per_second
from lab.moves.move import MIB, How, Move, Side
from lab.moves.open_move import open_move

from .expectations import assert_intact

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.cluster.cluster import Cluster
    from lab.sidecars.sidecars import Sidecar

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

SECONDS = 5.0
CASES: list[tuple[How, Side, float, float]] = [
    ("sidecar strict", "leader", 0, 3),
    ("sidecar strict", "follower", 0, 3),
    ("sidecar strict", "both", 0, 3),
    ("sidecar strict", "leader", 1 * MIB, 25),
    ("sidecar strict", "leader", 4 * MIB, 25),
    ("sidecar strict", "follower", 4 * MIB, 25),
    ("sidecar strict", "both", 4 * MIB, 25),
    ("sidecar kip73", "leader", 4 * MIB, 25),
    ("sidecar kip73", "follower", 4 * MIB, 25),
]


def replica_fetches(sidecar: Sidecar, role: str) -> float:
    """How many of them the follower has sent to this sidecar."""
    found = sidecar.metrics()["replication_throttle_fetch_requests_total"]
    return sum(count for labels, count in found.items() if f'role="{role}"' in labels)


@pytest.mark.parametrize(("how", "side", "quota", "most"), CASES)
async def test_fetches_a_second(
    sidecar_cluster: Cluster,
    how: How,
    side: Side,
    quota: float,
    most: float,
    record_property: Callable[[str, object], None],
) -> None:
    egress = sidecar_cluster.sidecars[102]
    async with open_move(sidecar_cluster, Move(how, side, quota, bytes_per_partition=5 * MIB)) as move:
        await trio.sleep(1.5)
        start = time.monotonic()
        from_follower = -await trio.to_thread.run_sync(replica_fetches, egress, "follower")
        await trio.sleep(SECONDS)
        from_follower += await trio.to_thread.run_sync(replica_fetches, egress, "follower")
        end = time.monotonic()
        on_the_wire = fetches_per_second(move.samples(), start=start, end=end, follower=102)
        await move.set_quota(None)
        assert_intact(await move.finish(timeout_seconds=30))
    record_property("fetches a second", [round(on_the_wire, 1), round(from_follower / (end - start), 1)])
    assert on_the_wire <= most
    # Where the egress is opaque (nothing throttled there) it still counts replica fetches as they pass.
    assert 1 <= from_follower / (end - start) <= most

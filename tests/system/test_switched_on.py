"""The throttle is switched on in the middle of a move: from 250 ms later on the quota holds, for all followers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from lab.measuring.figures import within
from lab.moves.move import MIB, Move, Side
from lab.moves.open_move import open_move

from .expectations import EFFECT_SECONDS, assert_all_kept, assert_intact, mean, ratios

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.cluster.cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

QUOTA = 4 * MIB
SECONDS = 14.0
MAX_UNFAIR = 0.05
FOLLOWERS = (102, 103)


@pytest.mark.parametrize("side", ["leader", "follower", "both"])
@pytest.mark.parametrize("before", [None, 40 * MIB], ids=["from no quota", "from 40 MiB per second"])
async def test_the_quota_holds_from_250_ms_after_it_is_switched_on(
    sidecar_cluster: Cluster, side: Side, before: float | None, record_property: Callable[[str, object], None]
) -> None:
    size = 320 if before is None else 200
    move = Move("sidecar strict", side, before or 0, bytes_per_partition=size * MIB // 8, followers=FOLLOWERS)
    async with open_move(sidecar_cluster, move, begin=False) as opened:
        await opened.set_quota(before)
        await opened.begin()
        await opened.wait_moved_bytes(60 * MIB)
        changed = opened.write_quota(QUOTA)
        await trio.sleep(SECONDS)
        lifted = opened.write_quota(None)
        outcome = await opened.finish(timeout_seconds=60)
        assert_intact(outcome)
        start = changed + EFFECT_SECONDS
        assert_all_kept(opened, start, lifted, QUOTA)
        # What was in flight is repaid first: at most a response of 10 MiB from each of two followers.
        throttled = [opened.moved(start, lifted, follower=follower) for follower in FOLLOWERS]
        per_broker = throttled if side == "follower" else [opened.moved(start, lifted)]
        for found in per_broker:
            record_property("kept", ratios(found, QUOTA))
            assert mean(found, lifted - 6, lifted) >= 0.93 * QUOTA
        record_property("last 6 seconds", [round(mean(found, lifted - 6, lifted) / QUOTA, 3) for found in per_broker])
        shares = [sum(e.size_bytes for e in within(found, start, lifted)) for found in throttled]
        record_property("shares", shares)
        assert (max(shares) - min(shares)) / max(shares) <= MAX_UNFAIR, shares

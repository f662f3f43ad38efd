from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from proxy.diagnostics.replica_stats import ReplicaStats
from proxy.http.loop_share import LoopShare
from proxy.observing.replica_stats_task import LEAST_PAUSE_SECONDS, MOST_PAUSE_SECONDS, ReplicaStatsTask, pause_seconds
from proxy.roles import Role
from tests.proxy.conversation import Conversation, throttle

if TYPE_CHECKING:
    from trio.testing import MockClock


async def test_a_look_is_taken_when_it_is_wanted_and_kept_for_a_second(autojump_clock: MockClock) -> None:
    shared = throttle()
    replica_stats_task = ReplicaStatsTask({Role.LEADER: shared}, LoopShare())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(replica_stats_task.run)
        await trio.sleep(5)
        Conversation(shared, offsets={("t", 0): 0}).meet()
        assert replica_stats_task.last(Role.LEADER) == ReplicaStats()  # nobody wanted one
        await replica_stats_task.refresh()
        assert replica_stats_task.last(Role.LEADER).in_sync == 1
        Conversation(shared, offsets={("t", 0): 0}).meet()
        await replica_stats_task.refresh()
        assert replica_stats_task.last(Role.LEADER).in_sync == 1  # of the same second
        await trio.sleep(LEAST_PAUSE_SECONDS * 1.01)
        await replica_stats_task.refresh()
        assert replica_stats_task.last(Role.LEADER).in_sync == 2
        assert replica_stats_task.last(Role.FOLLOWER) == ReplicaStats()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("took", "pause"), [(0.0, 1.0), (0.1, 1.0), (0.5, 4.5), (60.0, MOST_PAUSE_SECONDS)])
def test_looks_take_a_tenth_of_the_loop_at_most(took: float, pause: float) -> None:
    assert pause_seconds(took) == pytest.approx(pause)

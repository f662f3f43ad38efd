"""What administrators do to topics, and elections do to leaders."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import trio

from lab.errors import LabError
from lab.moves.move import MIB
from lab.moves.scenes import fill_topic, topic, until, until_equal

from .scene import FOLLOWER, LEADER

if TYPE_CHECKING:
    from .scene import Scene


async def records_deleted(scene: Scene) -> None:
    """DeleteRecords past where the follower is."""
    admin, name = scene.cluster.admin, scene.move.topic
    ends = await trio.to_thread.run_sync(admin.end_offsets, name, range(8))
    before = {partition: ends[partition] * 3 // 4 for partition in range(4)}
    await trio.to_thread.run_sync(partial(admin.delete_records, name, before))


async def segments_rolled(scene: Scene) -> None:
    """A replica that is behind on an older segment is answered at once by any leader: no reason for a loop."""
    for _ in range(6):
        await scene.move.fill(MIB, dict.fromkeys(range(8), scene.cluster.addresses.direct(LEADER)))
        await trio.sleep(0.5)


async def leader_moved(scene: Scene) -> None:
    """Of a topic in sync beside, back and forth: its leader epoch rises on connections that serve the move as well."""
    cluster, admin = scene.cluster, scene.cluster.admin
    async with topic(cluster, {0: [LEADER, FOLLOWER]}, prefix="led") as name:
        for leader, other in ((LEADER, FOLLOWER), (FOLLOWER, LEADER), (LEADER, FOLLOWER)):
            await trio.to_thread.run_sync(partial(admin.reassign, name, {0: [leader, other]}))
            await trio.to_thread.run_sync(partial(admin.elect_preferred_leaders, name, {0: leader}, timeout_seconds=20))
            await fill_topic(cluster, name, {0: leader}, bytes_per_partition=MIB // 4)
            await until_equal(cluster, name, timeout_seconds=20)
            # A follower hears of the high watermark at its next fetch; as leader it would begin with an older one.
            await trio.sleep(1.5)


async def deleted_and_created(scene: Scene) -> None:
    """The topic is deleted in the middle of its move, created by the same name, filled, and moved anew: high
    watermarks of before are nobody's."""
    admin, move = scene.cluster.admin, scene.move
    await trio.to_thread.run_sync(admin.delete_topic, move.topic)
    gone = [broker.log_dir / f"{move.topic}-0" for broker in scene.cluster.brokers.values()]
    await until(lambda: not any(map(os.path.exists, gone)), what="the topic is deleted", timeout_seconds=30)
    create = partial(admin.create_topic, move.topic, move.move.assignment())
    with trio.fail_after(30):
        while True:
            try:
                await trio.to_thread.run_sync(create)
            except LabError:
                await trio.sleep(0.5)
            else:
                break
    leaders = dict.fromkeys(range(8), scene.cluster.addresses.direct(LEADER))
    await move.fill(2 * MIB, leaders)
    await trio.to_thread.run_sync(admin.reassign, move.topic, move.move.target())


async def unclean_election(scene: Scene) -> None:
    """The leader dies while the follower is behind, and the follower leads with what it has; then the old leader
    follows it, and drops what the new one never had."""
    admin, name = scene.cluster.admin, scene.move.topic
    old, new = scene.move.move.leaders[0], scene.move.move.followers[0]
    await trio.to_thread.run_sync(partial(admin.set_topic_configs, name, {"unclean.leader.election.enable": "true"}))
    await scene.cluster.brokers[old].kill()

    def elected() -> bool:
        try:
            return all(state.leader == new for state in admin.describe(name))
        except LabError:  # who was asked has just died
            return False

    await until(elected, what=f"{new} leads", timeout_seconds=60)
    await scene.cluster.brokers[old].start()

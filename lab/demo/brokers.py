"""The demo on three real brokers: a topic's replicas move from one broker to another, throttled on both ends.

Knows the lab, no screen. Invariant: nothing of it is left when the block ends.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from ..brokers.fetch_jars import fetch_jars
from ..brokers.security import Security
from ..cluster.cluster import Cluster, cluster
from ..cluster.plan import ClusterPlan
from ..load.fill import fill
from ..measuring.compare_replicas import compare
from ..measuring.figures import Event, events
from ..sidecars.sidecars import SidecarPlan, quotas_toml
from .stage import Check, journal_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from rich.console import Console

TOPIC = "orders"
PARTITIONS = 6
LEADER, OLD, NEW = 101, 102, 103
POLL_SECONDS = 0.2
HIGH_WATERMARK_SECONDS = 1.5
MIB = 1 << 20


class BrokersStage:
    """`orders` is led by 101 and followed by 102; its followers move to 103."""

    title = f"{TOPIC}: replicas move from broker {OLD} to broker {NEW}; broker {LEADER} leads"

    def __init__(self, running: Cluster, total_bytes: int) -> None:
        self._cluster = running
        self.total_bytes = total_bytes
        self._mark = running.taps.position() if running.taps else 0
        self._seen: list[Event] = []

    async def set_quota(self, bytes_per_second: float) -> str:
        for broker, role in ((LEADER, "leader"), (NEW, "follower")):
            text = quotas_toml({role: bytes_per_second}, TOPIC, range(PARTITIONS), [broker])
            await self._cluster.sidecars[broker].set_quotas(text)
        rate = f'"{bytes_per_second / MIB:g}MiB/s"'
        return f"quotas.toml of {LEADER} and {NEW}: leader|follower….throttled.rate = {rate}"

    async def begin(self) -> None:
        target = {partition: [LEADER, NEW] for partition in range(PARTITIONS)}
        await trio.to_thread.run_sync(self._cluster.admin.reassign, TOPIC, target)

    async def is_over(self) -> bool:
        moving = partial(self._cluster.admin.moving, TOPIC, range(PARTITIONS))
        return not await trio.to_thread.run_sync(moving)

    def seen(self) -> Sequence[Event]:
        if self._cluster.taps is not None:
            fresh, self._mark = self._cluster.taps.read_from(self._mark)
            self._seen += events(fresh, topic=TOPIC, follower=NEW)
        return self._seen

    async def throttles(self) -> list[dict[str, Any]]:
        sidecars = (self._cluster.sidecars[broker] for broker in (LEADER, NEW))
        return [await trio.to_thread.run_sync(sidecar.throttle) for sidecar in sidecars]

    async def checks(self) -> list[Check]:
        admin = self._cluster.admin
        await trio.to_thread.run_sync(partial(admin.wait_in_sync, TOPIC, timeout_seconds=30))
        states = await trio.to_thread.run_sync(admin.describe, TOPIC)
        in_sync = sum(sorted(state.in_sync) == [LEADER, NEW] for state in states)
        shrinks, bad = self._cluster.shrinks(), self._cluster.bad_log_lines()
        compared = await trio.to_thread.run_sync(self._compare)
        equal = sum(compared)
        return [
            Check("in sync on both brokers", in_sync == PARTITIONS, f"{in_sync} of {PARTITIONS} partitions"),
            Check("no ISR shrank", not shrinks, f"{len(shrinks)} lines in the brokers' logs"),
            Check("brokers' logs are clean", not bad, f"{len(bad)} bad lines"),
            Check(
                "replicas are equal: offsets, SHA-256 of the records",
                equal == PARTITIONS,
                f"{equal} of {PARTITIONS} partitions",
            ),
        ]

    def _compare(self) -> list[bool]:
        leader, follower = (self._cluster.brokers[broker].log_dir for broker in (LEADER, NEW))
        return [compare(TOPIC, partition, leader=leader, follower=follower).equal for partition in range(PARTITIONS)]


async def _sizes(running: Cluster) -> dict[tuple[int, int], int]:
    """Return the bytes on disk by (broker, partition).

    To compare sizes is enough here, since all partitions are filled alike.
    """
    return await trio.to_thread.run_sync(running.admin.replica_sizes, TOPIC, (LEADER, OLD))


@asynccontextmanager
async def brokers_stage(
    total_bytes: int,
    console: Console,
    *,
    journal: Path | None = None,
    security: Security = Security.PLAINTEXT,
) -> AsyncIterator[BrokersStage]:
    """Run three brokers with their sidecars, which keep their journals in `journal`, and fill a topic.

    Raises LabError.
    """
    await trio.to_thread.run_sync(fetch_jars, console)
    secured = "" if security is Security.PLAINTEXT else f", {security.value}"
    console.print(f"starting three Kafka 3.9.1 brokers (Fetch v3{secured}) and their sidecars …", highlight=False)
    settings = None if journal is None else {"journal": journal_settings(journal)}
    plan = ClusterPlan(brokers=(LEADER, OLD, NEW), sidecars=SidecarPlan(settings=settings), security=security)
    async with cluster(plan) as running:
        console.print(f"filling {TOPIC}: {PARTITIONS} partitions, {total_bytes / MIB:.0f} MiB …", highlight=False)
        assignment = {partition: [LEADER, OLD] for partition in range(PARTITIONS)}
        await trio.to_thread.run_sync(running.admin.create_topic, TOPIC, assignment)
        leaders = dict.fromkeys(range(PARTITIONS), running.addresses.direct(LEADER))
        load = partial(fill, TOPIC, leaders, bytes_per_partition=total_bytes // PARTITIONS)
        await trio.to_thread.run_sync(load)
        # In sync is not enough: a follower in the ISR may still be fetching what was filled, which would count as
        # moved.
        while len(set((await _sizes(running)).values())) > 1:  # noqa: ASYNC110 - a broker tells nobody
            await trio.sleep(POLL_SECONDS)
        # With this old protocol a follower truncates to its own high watermark when the leader epoch changes, as in a
        # reassignment. It hears the last high watermark only with the fetch after the last records.
        await trio.sleep(HIGH_WATERMARK_SECONDS)
        yield BrokersStage(running, total_bytes)
        if journal is not None:
            for sidecar in running.sidecars.values():
                await sidecar.stop()  # in order: it closes its journal

"""docs/removal.md on real brokers: a sidecar leaves its broker's path and comes back, and no record is lost.

What came of it goes to build/removal.jsonl; the page has the figures.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

import lab.clients
from lab.brokers.releases import release
from lab.clients.program import ClientProgram, servers
from lab.cluster.cluster import Cluster, cluster
from lab.cluster.plan import ClusterPlan
from lab.host.addresses import KAFKA_PORT, after_egress, after_tap, hosts_file
from lab.host.namespaces import open_rooms
from lab.moves.scenes import topic, until_equal
from lab.sidecars.sidecars import SidecarPlan

from .test_transparent import SCRIPT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from lab.sidecars.sidecars import Sidecar

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

BROKERS = (101, 102, 103)
LEFT = 102
"""The broker whose sidecar leaves; 101 is the controller as well."""
LEADERS = {partition: BROKERS[partition % len(BROKERS)] for partition in range(6)}
PRODUCER = ClientProgram(Path(lab.clients.__file__).with_name("steady_producer.py"), None)
SETTLE_SECONDS = 3.0
DURABLE = {"min.insync.replicas": "2"}
IN_SYNC_SECONDS = 60.0


def plan(**more: object) -> ClusterPlan:
    return ClusterPlan(BROKERS, release=release(protocol="3.9"), **more)


@asynccontextmanager
async def producers(running: Cluster, name: str, outcome: dict[str, int]) -> AsyncIterator[None]:
    """An idempotent acks=all producer meanwhile, by the advertised addresses; then what came of its records."""
    until = running.home / "enough"

    async def produce() -> None:
        arguments = (servers(running), name, len(LEADERS), until)
        route = running.plan.route(follower=BROKERS[0], leader=LEFT)
        advertised = {broker: after_tap(running.addresses, route, broker) for broker in BROKERS}
        events = await PRODUCER.run(running, advertised, arguments)
        outcome.update({what: int(count) for what, count in events})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce)
        await trio.sleep(SETTLE_SECONDS)
        yield
        await trio.sleep(SETTLE_SECONDS)
        until.touch()


@asynccontextmanager
async def drill(running: Cluster, outcome: dict[str, int]) -> AsyncIterator[str]:
    """Give a topic that is being written to. Afterwards no record has failed, is missing or is there twice."""
    assignment = {p: [leader, *(b for b in BROKERS if b != leader)] for p, leader in LEADERS.items()}
    said = running.log_mark()
    async with topic(running, assignment, configs=DURABLE) as name:
        async with producers(running, name, outcome):
            yield name
        assert outcome["failed"] == 0
        assert outcome["acknowledged"] > 0
        ends = await trio.to_thread.run_sync(running.admin.end_offsets, name, LEADERS)
        assert sum(ends.values()) == outcome["acknowledged"]
        await until_equal(running, name, timeout_seconds=IN_SYNC_SECONDS)
    # A new leader may have heard of a high watermark later than its followers: Kafka's own, when leaders change.
    bad = [line for line in running.bad_log_lines(since=said) if "Non-monotonic update" not in line]
    assert bad == []


def passed(sidecar: Sidecar) -> dict[str, int]:
    """The replica fetches that it has seen, by role."""
    return {name: sum(role["fetch_versions"].values()) for name, role in sidecar.throttle()["roles"].items()}


async def is_in_the_path(sidecar: Sidecar, *roles: str) -> bool:
    """Whether replicas fetch through it in these roles."""
    before = passed(sidecar)
    await trio.sleep(1.5)
    after = passed(sidecar)
    return all(after[role] > before[role] for role in roles)


def lead_hosts(running: Cluster, *, around: bool) -> None:
    """Write the broker's hosts file: at which address it listens itself, and where the others' names lead."""
    addresses = running.addresses
    own = addresses.ingress(LEFT) if around else addresses.direct(LEFT)
    others = [
        (
            addresses.name(leader),
            after_egress(addresses, running.plan.route(follower=LEFT, leader=leader), leader)
            if around
            else addresses.egress(LEFT, leader),
        )
        for leader in BROKERS
        if leader != LEFT
    ]
    hosts_file(running.home / f"hosts-of-{LEFT}", [(addresses.name(LEFT), own), *others])


async def lead_again(running: Cluster, name: str) -> None:
    """Wait until every replica is in sync and the broker leads its partitions."""
    wait = partial(running.admin.wait_in_sync, name, timeout_seconds=IN_SYNC_SECONDS)
    await trio.to_thread.run_sync(wait)
    await trio.to_thread.run_sync(running.admin.elect_preferred_leaders, name, LEADERS)


async def test_with_a_restart_of_the_broker(record: Callable[..., None]) -> None:
    """Both roles, where names lead to the sidecar."""
    outcome: dict[str, int] = {}
    async with cluster(plan(sidecars=SidecarPlan())) as running:
        broker, sidecar = running.brokers[LEFT], running.sidecars[LEFT]
        async with drill(running, outcome) as name:
            assert await is_in_the_path(sidecar, "leader", "follower")
            began = time.monotonic()
            lead_hosts(running, around=True)
            await broker.stop()
            await sidecar.stop()
            await broker.start()
            await lead_again(running, name)
            out = time.monotonic() - began
            await trio.sleep(SETTLE_SECONDS)
            began = time.monotonic()
            lead_hosts(running, around=False)
            await broker.stop()
            await sidecar.start()
            await broker.start()
            await lead_again(running, name)
            back = time.monotonic() - began
            assert await is_in_the_path(sidecar, "leader", "follower")
    record("removal", way="restart", out_seconds=round(out, 1), back_seconds=round(back, 1), **outcome)


async def test_a_transparent_egress_without_a_restart(record: Callable[..., None]) -> None:
    """Its rules go and come back; connections are closed so that the broker dials again."""
    outcome: dict[str, int] = {}
    only = SidecarPlan(leader=frozenset(), follower=frozenset({LEFT}), transparent=True)
    with open_rooms(BROKERS) as rooms:
        rooms.run(LEFT, str(SCRIPT), "add")
        async with cluster(plan(sidecars=only, rooms=rooms)) as running:
            sidecar = running.sidecars[LEFT]
            close = partial(rooms.run, LEFT, "ss", "-tK", "dport", "=", str(KAFKA_PORT))
            async with drill(running, outcome) as name:
                assert await is_in_the_path(sidecar, "follower")
                began = time.monotonic()
                rooms.run(LEFT, str(SCRIPT), "remove")
                close()
                await sidecar.stop()
                await lead_again(running, name)
                out = time.monotonic() - began
                await trio.sleep(SETTLE_SECONDS)
                began = time.monotonic()
                await sidecar.start()
                rooms.run(LEFT, str(SCRIPT), "add")
                close()
                await lead_again(running, name)
                back = time.monotonic() - began
                assert await is_in_the_path(sidecar, "follower")
    record("removal", way="transparent", out_seconds=round(out, 1), back_seconds=round(back, 1), **outcome)

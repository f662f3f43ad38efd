"""The beginning and end of every scene on a running cluster: a topic of its own, and quotas for its length.

Knows no measurement. Invariant: however a scene ends, its topic and its quotas are gone afterwards.
"""

from __future__ import annotations

import time
import uuid
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from ..errors import LabError
from ..load.fill import fill
from ..measuring.compare_replicas import compare
from ..measuring.high_watermarks import high_watermarks
from ..sidecars.sidecars import UNLIMITED
from ..wire.records import SMALL
from .native_quotas import throttle_natively, unthrottle_natively

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence

    from ..cluster.admin import Assignment
    from ..cluster.cluster import Cluster
    from ..measuring.compare_replicas import Comparison
    from ..wire.records import Shape

_POLL_SECONDS = 0.1
_CLEAN_UP_SECONDS = 30.0


@asynccontextmanager
async def topic(
    cluster: Cluster, assignment: Assignment, *, prefix: str = "scene", configs: Mapping[str, str] | None = None
) -> AsyncGenerator[str]:
    """Create a topic with these replicas, by a name that was never used."""
    name = f"{prefix}-{uuid.uuid4().hex[:8]}"
    await trio.to_thread.run_sync(partial(cluster.admin.create_topic, name, assignment, configs=configs))
    try:
        yield name
    finally:
        with trio.move_on_after(_CLEAN_UP_SECONDS, shield=True):
            await trio.to_thread.run_sync(cluster.admin.delete_topic, name)


async def fill_topic(
    cluster: Cluster, name: str, leaders: Mapping[int, int], *, bytes_per_partition: int, shape: Shape = SMALL
) -> None:
    """Write to each partition at its leader (broker id), directly. Raises LabError."""
    addresses = {partition: cluster.addresses.direct(leader) for partition, leader in leaders.items()}
    stored = cluster.shape(shape)
    await trio.to_thread.run_sync(partial(fill, name, addresses, bytes_per_partition=bytes_per_partition, shape=stored))


@asynccontextmanager
async def sidecar_quotas(cluster: Cluster, text: str, brokers: Iterable[int], *, policy: str) -> AsyncGenerator[None]:
    """Write one quotas file for the sidecars of these brokers, under a policy (which stays)."""
    throttling = list(brokers)
    try:
        for broker in throttling:
            await cluster.sidecars[broker].use_policy(policy)
            await cluster.sidecars[broker].set_quotas(text)
        yield
    finally:
        with trio.move_on_after(_CLEAN_UP_SECONDS, shield=True):
            for broker in throttling:
                await cluster.sidecars[broker].set_quotas(UNLIMITED)


@asynccontextmanager
async def native_quotas(
    cluster: Cluster, name: str, *, lists: Mapping[str, str], rates: Mapping[str, float], brokers: Sequence[int]
) -> AsyncGenerator[None]:
    """Set the brokers' own quotas, see `lab.moves.native_quotas`."""
    try:
        await throttle_natively(cluster, name, lists=lists, rates=rates, brokers=brokers)
        yield
    finally:
        with trio.move_on_after(_CLEAN_UP_SECONDS, shield=True):
            await unthrottle_natively(cluster, brokers=brokers)


async def until(
    condition: Callable[[], bool], *, what: str, timeout_seconds: float, poll_seconds: float = _POLL_SECONDS
) -> float:
    """Poll a condition, in a thread, until it holds; return when that was, on `time.monotonic()`.

    Raises:
        LabError: it did not in time.
    """
    deadline = time.monotonic() + timeout_seconds
    while not await trio.to_thread.run_sync(condition):
        if time.monotonic() > deadline:
            raise LabError(f"not within {timeout_seconds:g} s: {what}")
        await trio.sleep(poll_seconds)
    return time.monotonic()


async def until_moved(cluster: Cluster, name: str, partitions: Sequence[int], *, timeout_seconds: float) -> float:
    """Wait until no partition moves any more, see `until`."""
    return await until(
        lambda: not cluster.admin.moving(name, partitions), what=f"{name} is moved", timeout_seconds=timeout_seconds
    )


async def until_in_sync(cluster: Cluster, name: str, *, timeout_seconds: float) -> float:
    """Wait until every replica of every partition is in sync, see `until`."""
    return await until(
        lambda: all(set(state.in_sync) == set(state.replicas) for state in cluster.admin.describe(name)),
        what=f"{name} is in sync",
        timeout_seconds=timeout_seconds,
    )


async def compare_replicas(cluster: Cluster, name: str) -> list[Comparison]:
    """Compare every follower's log with its leader's, on disk. Raises LabError."""

    def work() -> list[Comparison]:
        brokers = cluster.brokers
        return [
            compare(name, state.partition, leader=brokers[state.leader].log_dir, follower=brokers[replica].log_dir)
            for state in cluster.admin.describe(name)
            for replica in state.replicas
            if replica != state.leader
        ]

    return await trio.to_thread.run_sync(work)


async def until_equal(cluster: Cluster, name: str, *, timeout_seconds: float) -> None:
    """Wait until every replica is in sync and holds what its leader holds: a replica in sync may still be fetching the
    last records. Raises LabError if it does not happen in time."""
    await until_in_sync(cluster, name, timeout_seconds=timeout_seconds)
    deadline = time.monotonic() + timeout_seconds
    while different := [found for found in await compare_replicas(cluster, name) if not found.equal]:
        if time.monotonic() > deadline:
            raise LabError(f"{name}: replicas differ: {different}")
        await trio.sleep(_POLL_SECONDS)


async def until_committed(
    cluster: Cluster, name: str, offsets: Mapping[int, int], *, broker: int, timeout_seconds: float
) -> None:
    """Wait until this replica's high watermark has reached these offsets, by partition. Raises LabError.

    A follower that holds every record may not know yet that they are committed: it hears that with its next fetch. If
    it becomes a follower anew before that, it drops the records again at a protocol before KIP-101. If it were elected
    then, it would lead with an empty log.
    """
    log_dir = cluster.brokers[broker].log_dir

    def committed() -> bool:
        found = high_watermarks(log_dir)
        return all(found.get((name, partition), -1) >= offset for partition, offset in offsets.items())

    what = f"broker {broker} knows high watermarks {dict(offsets)} of {name}"
    await until(committed, what=what, timeout_seconds=timeout_seconds)

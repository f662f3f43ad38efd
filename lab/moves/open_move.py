"""A move that is interfered with while it runs: quotas change, processes die, leaders and logs move.

    async with open_move(cluster, Move("sidecar strict")) as move:
        await move.wait_moved_bytes(8 * MIB)
        changed = move.write_quota(1 * MIB)
        ...
        outcome = await move.finish(timeout_seconds=60)

Unlike `mover` it does not wait for the end by itself, and judges nothing. Invariant: however it ends, afterwards
brokers and sidecars run, there are no quotas, the policy is the plan's, and its topic is gone.
"""

from __future__ import annotations

import time
import uuid
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import trio

from ..errors import LabError
from ..load.fill import fill
from ..measuring.compare_replicas import compare
from ..measuring.figures import events, within
from ..sidecars.sidecars import UNLIMITED, quotas_toml

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from ..cluster.cluster import Cluster
    from ..measuring.compare_replicas import Comparison
    from ..measuring.figures import Event, Sample
    from .move import Move

_POLL_SECONDS = 0.05
_IN_SYNC_SECONDS = 40.0
_CLEAN_UP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state that a move left behind. `lines` are those of brokers' logs that must not be there."""

    comparisons: Sequence[Comparison]
    lines: Sequence[str]

    @property
    def equal(self) -> bool:
        """True if every follower holds, byte for byte, what its leader holds."""
        return bool(self.comparisons) and all(comparison.equal for comparison in self.comparisons)


class OpenMove:
    """Made by `open_move`. Times are `time.monotonic()`, as the taps'."""

    def __init__(self, cluster: Cluster, move: Move) -> None:
        if cluster.taps is None or not move.how.startswith("sidecar"):
            raise LabError("only a sidecar's move through taps can be watched while it is interfered with")
        self.move = move
        self.topic = f"open-{uuid.uuid4().hex[:8]}"
        self.started = 0.0
        self._cluster = cluster
        self._taps = cluster.taps
        self._mark = self._taps.position()
        self._samples: list[Sample] = []
        self._said = cluster.log_mark()

    @property
    def throttling(self) -> tuple[int, ...]:
        """The brokers whose sidecars throttle."""
        ends = {"leader": self.move.leaders, "follower": self.move.followers}
        return tuple(sorted({broker for role in self.move.roles for broker in ends[role]}))

    def samples(self) -> list[Sample]:
        """Return all samples from the wire since the move was made."""
        fresh, self._mark = self._taps.read_from(self._mark)
        self._samples += fresh
        return self._samples

    def moved(
        self,
        start: float = 0.0,
        end: float = float("inf"),
        *,
        leader: int | None = None,
        follower: int | None = None,
    ) -> list[Event]:
        """Record bytes of its topic that arrived in the half-open range, by when their response was complete."""
        return within(events(self.samples(), topic=self.topic, leader=leader, follower=follower), start, end)

    def quotas(self, bytes_per_second: float | None) -> str:
        """Return the quotas file that throttles its partitions on all brokers that throttle; None: no quotas at all."""
        if bytes_per_second is None:
            return UNLIMITED
        rates: dict[str, float] = dict.fromkeys(self.move.roles, bytes_per_second)
        return quotas_toml(rates, self.topic, range(self.move.partitions), self.throttling)

    def write_quota(self, bytes_per_second: float | None) -> float:
        """Replace the quotas files by renames; return the time just before the first."""
        changed = time.monotonic()
        for broker in self.throttling:
            self._cluster.sidecars[broker].write_quotas(self.quotas(bytes_per_second))
        return changed

    async def set_quota(self, bytes_per_second: float | None) -> None:
        """Replace the quotas files and wait until the sidecars hold them. Raises LabError."""
        for broker in self.throttling:
            await self._cluster.sidecars[broker].set_quotas(self.quotas(bytes_per_second))

    async def prepare(self) -> None:
        """Create and fill the topic, put the quota in force."""
        admin, addresses, move = self._cluster.admin, self._cluster.addresses, self.move
        await trio.to_thread.run_sync(
            partial(admin.create_topic, self.topic, move.assignment(), configs=move.topic_configs)
        )
        await self.fill(move.bytes_per_partition, {p: addresses.direct(r[0]) for p, r in move.assignment().items()})
        for broker in self.throttling:
            await self._cluster.sidecars[broker].use_policy(move.how.removeprefix("sidecar "))
        await self.set_quota(move.quota_bytes_per_second)

    async def fill(self, bytes_per_partition: int, leaders: Mapping[int, str]) -> None:
        """Write to its partitions, directly at their leaders. Raises LabError."""
        shape = self._cluster.shape(self.move.shape)
        await trio.to_thread.run_sync(
            partial(fill, self.topic, leaders, bytes_per_partition=bytes_per_partition, shape=shape)
        )

    async def begin(self) -> None:
        """Ask for the reassignment."""
        self.started = time.monotonic()
        await trio.to_thread.run_sync(self._cluster.admin.reassign, self.topic, self.move.target())

    async def wait_moved_bytes(self, size: int, *, timeout_seconds: float = 30.0) -> None:
        """Wait until so many record bytes were seen on the wire. Raises LabError if they were not in time."""
        deadline = time.monotonic() + timeout_seconds
        while (seen := sum(event.size_bytes for event in self.moved())) < size:
            if time.monotonic() > deadline:
                raise LabError(f"{self.topic}: {seen} of {size} bytes moved after {timeout_seconds:g} s")
            await trio.sleep(_POLL_SECONDS)

    async def wait_first_byte(self, since: float, *, timeout_seconds: float = 5.0) -> float:
        """Wait for the first record bytes after `since`; return the seconds to them.

        Raises LabError if there were none in time.
        """
        while not (found := self.moved(since)):
            if time.monotonic() > since + timeout_seconds:
                raise LabError(f"{self.topic}: nothing moved for {timeout_seconds:g} s")
            await trio.sleep(_POLL_SECONDS)
        return found[0].t - since

    async def wait_moved(self, *, timeout_seconds: float) -> None:
        """Wait until the controller says that the move is done. Raises LabError."""
        partitions = list(range(self.move.partitions))
        wait = partial(self._cluster.admin.wait_moved, self.topic, partitions, timeout_seconds=timeout_seconds)
        await trio.to_thread.run_sync(wait)

    async def finish(self, *, timeout_seconds: float) -> Outcome:
        """Wait until the move is done and every replica in sync, then compare. Raises LabError."""
        admin = self._cluster.admin
        await self.wait_moved(timeout_seconds=timeout_seconds)
        await trio.to_thread.run_sync(partial(admin.wait_in_sync, self.topic, timeout_seconds=_IN_SYNC_SECONDS))
        return Outcome(await trio.to_thread.run_sync(self._compare), self._lines())

    def _lines(self) -> list[str]:
        return [*self._cluster.bad_log_lines(since=self._said), *self._cluster.shrinks(since=self._said)]

    def _compare(self) -> list[Comparison]:
        brokers = self._cluster.brokers
        return [
            compare(
                self.topic,
                state.partition,
                leader=brokers[state.leader].log_dir,
                follower=brokers[replica].log_dir,
            )
            for state in self._cluster.admin.describe(self.topic)
            for replica in state.replicas
            if replica != state.leader
        ]

    async def clean_up(self) -> None:
        """Leave the cluster as it was found."""
        plan = self._cluster.plan.sidecars
        for sidecar in self._cluster.sidecars.values():
            sidecar.write_quotas(UNLIMITED)
            if plan is not None:
                await sidecar.use_policy(plan.policy)
            if not sidecar.process.running:
                await sidecar.start()
            await sidecar.set_quotas(UNLIMITED)
        for broker in self._cluster.brokers.values():
            if not broker.process.running:
                await broker.start()
        await trio.to_thread.run_sync(self._cluster.admin.delete_topic, self.topic)


@asynccontextmanager
async def open_move(cluster: Cluster, move: Move, *, begin: bool = True) -> AsyncGenerator[OpenMove]:
    """Open a move under its quota, begun unless `begin` says otherwise.

    Raises:
        LabError: something of it failed.
    """
    made = OpenMove(cluster, move)
    try:
        await made.prepare()
        if begin:
            await made.begin()
        yield made
    finally:
        with trio.move_on_after(_CLEAN_UP_SECONDS, shield=True):
            await made.clean_up()

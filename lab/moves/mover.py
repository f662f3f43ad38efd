"""Carries moves out on a running cluster, one after the other, and measures each.

The cluster is reused. Every move has topics of its own, and a move under a cold quota first waits until the brokers'
quota windows have forgotten the move before. Knows neither how figures are computed nor how brokers are started.
Invariant: whatever happens to a move, its throttles and topics are gone afterwards.
"""

from __future__ import annotations

import time
import uuid
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from ..errors import LabError
from ..load.fill import fill
from ..load.live_producer import LIVE, LiveProducer
from ..measuring.compare_replicas import compare
from ..measuring.figures import Sample, events, fetch_versions, fetches_per_second, figures
from ..sidecars.sidecars import UNLIMITED, quotas_toml
from .move import Latencies, Move, MoveResult, Progress
from .native_quotas import throttle_natively, unthrottle_natively

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

    from ..cluster.cluster import Cluster
    from ..measuring.compare_replicas import Comparison

WARM_SECONDS = 15.0
"""How long a broker is warmed: longer than the quota's window of 11 s, so that all of the window is recorded, as
empty."""
COLD_SECONDS = 13.0
"""How long a cold move waits: longer than that window, so that none of it is recorded any more."""
LIVE_WARM_UP_SECONDS = 2.5
_POLL_SECONDS = 0.1
_TELL_SECONDS = 0.5


class Mover:
    """Args: cluster: running; tell: called with progress, from Trio's thread."""

    def __init__(self, cluster: Cluster, *, tell: Callable[[Progress], None] | None = None) -> None:
        self._cluster = cluster
        self._tell = tell or (lambda _: None)
        self._topics: list[str] = []
        """The topics of the move that is under way."""

    async def run(self, move: Move) -> MoveResult:
        """Carry one move out.

        Raises:
            LabError: the cluster lacks what the move needs, or something failed or took far too long.
        """
        self._check(move)
        topic = f"move-{uuid.uuid4().hex[:8]}"
        self._topics = []
        try:
            await self._prepare(move, topic)
            return await self._measured(move, topic)
        finally:
            with trio.move_on_after(30, shield=True):
                await self._remove(move)
            self._cluster.quota_windows_clear_at = time.monotonic() + COLD_SECONDS

    def _check(self, move: Move) -> None:
        missing = set(move.leaders + move.followers) - set(self._cluster.brokers)
        if missing:
            raise LabError(f"the cluster has no broker {sorted(missing)}")
        if move.how.startswith("sidecar"):
            for role in move.roles:
                for broker in _brokers_of(move, role):
                    if broker not in self._cluster.sidecars:
                        raise LabError(f"broker {broker} has no sidecar to throttle as {role}")

    async def _prepare(self, move: Move, topic: str) -> None:
        self._tell(Progress("filling"))
        addresses = self._cluster.addresses
        await self._create(topic, move.assignment(), configs=move.topic_configs)
        leaders = {p: addresses.direct(replicas[0]) for p, replicas in move.assignment().items()}
        shape, *others = [self._cluster.shape(each) for each in (move.shape, *move.mixed_with)]
        size = move.bytes_per_partition
        load = partial(fill, topic, leaders, bytes_per_partition=size, shape=shape, mixed_with=others)
        await trio.to_thread.run_sync(load)
        if move.how == "native cold":
            self._tell(Progress("waiting until the quota's window is empty"))
            await trio.sleep(max(0.0, self._cluster.quota_windows_clear_at - time.monotonic()))
        if move.how == "native warm":
            self._tell(Progress("warming the quota's window"))
            await self._create_in_sync(_idle(topic), move)
            await trio.sleep(WARM_SECONDS)
        await self._throttle(move, topic)

    async def _create_in_sync(self, topic: str, move: Move) -> None:
        """Create a partition for each leader that the first follower follows in sync and that no quota throttles."""
        await self._create(topic, {n: [leader, move.followers[0]] for n, leader in enumerate(move.leaders)})

    async def _create(
        self, topic: str, assignment: Mapping[int, Sequence[int]], configs: Mapping[str, str] | None = None
    ) -> None:
        create = partial(self._cluster.admin.create_topic, topic, assignment, configs=configs)
        await trio.to_thread.run_sync(create)
        self._topics.append(topic)

    async def _throttle(self, move: Move, topic: str) -> None:
        if move.how.startswith("native"):
            await self._throttle_natively(move, topic)
        for role in move.roles if move.how.startswith("sidecar") else ():
            for broker in _brokers_of(move, role):
                await self._cluster.sidecars[broker].use_policy(move.how.removeprefix("sidecar "))
        if move.how.startswith("sidecar"):
            for broker in {broker for role in move.roles for broker in _brokers_of(move, role)}:
                rates: dict[str, float] = {
                    role: move.quota_bytes_per_second for role in move.roles if broker in _brokers_of(move, role)
                }
                text = quotas_toml(rates, topic, range(move.partitions), [broker])
                await self._cluster.sidecars[broker].set_quotas(text)

    async def _throttle_natively(self, move: Move, topic: str) -> None:
        lists = {
            "leader": ",".join(f"{p}:{r[0]}" for p, r in move.assignment().items()),
            "follower": ",".join(f"{p}:{f}" for p in range(move.partitions) for f in move.followers),
        }
        await throttle_natively(
            self._cluster,
            topic,
            lists={role: lists[role] for role in move.roles},
            rates=dict.fromkeys(move.roles, move.quota_bytes_per_second),
            brokers=move.leaders + move.followers,
        )

    async def _measured(self, move: Move, topic: str) -> MoveResult:
        cluster = self._cluster
        said = cluster.log_mark()
        mark = cluster.taps.position() if cluster.taps else 0
        async with self._live_producer(move, topic) as live:
            started = time.monotonic()
            await trio.to_thread.run_sync(cluster.admin.reassign, topic, move.target())
            await self._wait_moved(move, topic, started)
            ended = time.monotonic()
        await trio.to_thread.run_sync(partial(cluster.admin.wait_in_sync, topic, timeout_seconds=30))
        self._tell(Progress("comparing replicas", ended - started))
        samples = [s for s in cluster.taps.samples(since=mark) if s.t >= started] if cluster.taps else []
        return _result(
            move,
            topic,
            samples,
            started=started,
            ended=ended,
            comparisons=await trio.to_thread.run_sync(self._compare, move, topic),
            bad_log_lines=cluster.bad_log_lines(since=said),
            shrinks=cluster.shrinks(since=said),
            latencies=_latencies(live) if live else None,
        )

    @asynccontextmanager
    async def _live_producer(self, move: Move, topic: str) -> AsyncGenerator[LiveProducer | None]:
        if not move.live:
            yield None
            return
        await self._create_in_sync(_live(topic), move)
        leader = self._cluster.addresses.direct(move.leaders[0])
        producer = LiveProducer(leader, _live(topic), 0, shape=self._cluster.shape(LIVE))
        async with trio.open_nursery() as nursery:
            await nursery.start(producer.run)
            # The follower's fetcher takes a moment to find a new topic, and its leader, which refuses records
            # meanwhile, to hear of it; neither must be counted against the throttle.
            await trio.sleep(LIVE_WARM_UP_SECONDS)
            producer.acknowledged.clear()
            producer.errors.clear()
            yield producer
            nursery.cancel_scope.cancel()

    async def _wait_moved(self, move: Move, topic: str, started: float) -> None:
        admin, taps = self._cluster.admin, self._cluster.taps
        patience = 3 * move.ideal_seconds() + 60
        total = move.partitions * move.bytes_per_partition * len(move.followers)
        told, moved, mark = started, 0, taps.position() if taps else 0
        while await trio.to_thread.run_sync(admin.moving, topic, range(move.partitions)):
            now = time.monotonic()
            if now - started > patience:
                raise LabError(f"{topic} is not moved after {patience:.0f} s")
            if now - told > _TELL_SECONDS:
                told = now
                if taps:
                    fresh, mark = taps.read_from(mark)
                    moved += sum(event.size_bytes for event in events(fresh, topic=topic))
                self._tell(Progress("moving", now - started, moved, total))
            await trio.sleep(_POLL_SECONDS)

    def _compare(self, move: Move, topic: str) -> list[Comparison]:
        directories = {broker: self._cluster.brokers[broker].log_dir for broker in self._cluster.brokers}
        return [
            compare(topic, partition, leader=directories[leader], follower=directories[follower])
            for partition, (leader,) in move.assignment().items()
            for follower in move.followers
        ]

    async def _remove(self, move: Move) -> None:
        """Remove throttles and topics, as many as there are; topics go even if a throttle cannot be taken back."""
        try:
            await self._unthrottle(move)
        finally:
            for name in self._topics:
                await trio.to_thread.run_sync(self._cluster.admin.delete_topic, name)

    async def _unthrottle(self, move: Move) -> None:
        if move.how.startswith("native"):
            await unthrottle_natively(self._cluster, brokers=move.leaders + move.followers)
        if move.how.startswith("sidecar"):
            for sidecar in self._cluster.sidecars.values():
                if sidecar.process.running:
                    await sidecar.set_quotas(UNLIMITED)
                else:
                    sidecar.write_quotas(UNLIMITED)


def _result(move: Move, topic: str, samples: list[Sample], *, started: float, ended: float, **seen: Any) -> MoveResult:
    """Return figures from what the taps saw; `seen` are the fields of the result that need none."""
    ends = {f: events(samples, topic=topic, follower=f) for f in move.followers}
    last = max((found[-1].t for found in ends.values() if found), default=ended)
    by_broker = {broker: events(samples, topic=topic, **{_end(move): broker}) for broker in move.measured_brokers}
    links = len(move.leaders) * len(move.followers)
    return MoveResult(
        move=move,
        topic=topic,
        duration_seconds=last - started,
        figures={b: figures(found, start=started) for b, found in by_broker.items() if found},
        follower_seconds={f: found[-1].t - started for f, found in ends.items() if found},
        fetches_per_second=sum(fetches_per_second(samples, start=started, end=last, follower=f) for f in move.followers)
        / links,
        fetch_versions=fetch_versions(samples),
        **seen,
    )


def _end(move: Move) -> str:
    return "follower" if move.side == "follower" else "leader"


def _brokers_of(move: Move, role: str) -> tuple[int, ...]:
    return move.leaders if role == "leader" else move.followers


def _idle(topic: str) -> str:
    return f"{topic}-idle"


def _live(topic: str) -> str:
    return f"{topic}-live"


def _latencies(producer: LiveProducer) -> Latencies:
    return Latencies(
        records=len(producer.acknowledged),
        errors=len(producer.errors),
        p50=producer.percentile(0.5),
        p95=producer.percentile(0.95),
        p99=producer.percentile(0.99),
        worst=producer.percentile(1.0),
    )

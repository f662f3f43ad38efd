"""One way after the other, on the cluster that it is of: the figures of each run. Raises LabError, judges nothing."""

from __future__ import annotations

import statistics
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import trio

from lab.moves.scenes import fill_topic, topic, until_equal, until_moved
from lab.sidecars.sidecars import SidecarPlan

from .scene import FOLLOWER, LEADER, MB, MOVED, Clock, open_stage, producing
from .shapes import LOADS, free_share
from .ways import BY_SIDECARS, MOVES, quotas

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.load.live_producer import Acknowledged

    from .scene import Stage

Row = dict[str, Any]

QUANTILES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "worst_ms": 1.0}
_LAST_ANSWERS_SECONDS = 2.0
_PATIENCE_SECONDS = 300.0
_ALONE_SECONDS = 30.0
"""How long a run without a move lasts."""


async def measure(
    ways: Sequence[str],
    loads: Sequence[str],
    *,
    link: float,
    rounds: int,
    moved_bytes: int,
    keep: Callable[[Row], None],
    tell: Callable[[str], None],
) -> None:
    """Measure every way so many times, in turns.

    Brokers that speak to each other directly are a cluster of their own.
    """
    async with AsyncExitStack() as stack:
        stages = {}
        for plan in (None, SidecarPlan()):
            if any((way in BY_SIDECARS) == (plan is not None) for way in ways):
                stages[plan is not None] = await stack.enter_async_context(open_stage(plan, tell, link))
        for _ in range(rounds):
            for load in loads:
                for way in ways:
                    keep(await run(stages[way in BY_SIDECARS], way, load, moved_bytes=moved_bytes))


async def run(stage: Stage, way: str, load: str = "doubles and halves", *, moved_bytes: int) -> Row:
    """Time one move and the producers beside it; without a move they are timed for `_ALONE_SECONDS`."""
    kafka, clock = stage.kafka, Clock()
    async with AsyncExitStack() as stack:
        name = await stack.enter_async_context(topic(kafka, {p: [LEADER] for p in MOVED}, prefix="moved"))
        if way in MOVES:
            each = moved_bytes // len(MOVED)
            await fill_topic(kafka, name, dict.fromkeys(MOVED, LEADER), bytes_per_partition=each)
        producers = await stack.enter_async_context(producing(stage, LOADS[load], clock))
        await stack.enter_async_context(quotas(stage, way, name, clock))
        for producer in producers:
            producer.acknowledged.clear()
        clock.begin()
        began, before = trio.current_time(), stage.rooms.carried(LEADER)[1]
        if way in MOVES:
            await trio.to_thread.run_sync(kafka.admin.reassign, name, {p: [LEADER, FOLLOWER] for p in MOVED})
            await until_moved(kafka, name, MOVED, timeout_seconds=_PATIENCE_SECONDS)
        else:
            await trio.sleep(_ALONE_SECONDS)
        ended, sent = trio.current_time(), stage.rooms.carried(LEADER)[1] - before
        await trio.sleep(_LAST_ANSWERS_SECONDS)
        if way in MOVES:
            await until_equal(kafka, name, timeout_seconds=30)
    found = [each for producer in producers for each in producer.acknowledged if each.due_at <= ended]
    _tell_seconds(stage, began, found)
    return {
        "way": way,
        "link": stage.link / MB,
        "load": load,
        "moved_bytes": moved_bytes,
        "seconds": round(ended - began, 1),
        **quantiles([each.latency_seconds for each in found]),
        "batches": len(found),
        "refused": sum(len(producer.errors) for producer in producers),
        "link_share": round(sent / (ended - began) / stage.link, 3),
        "used": round(moved_bytes / stage.link / free_share(LOADS[load], ended - began), 3),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _tell_seconds(stage: Stage, began: float, found: Sequence[Acknowledged]) -> None:
    """Tell what batches waited second by second: their median, and the slowest, in ms."""
    seconds: dict[int, list[float]] = {}
    for each in found:
        seconds.setdefault(int(each.due_at - began), []).append(each.latency_seconds * 1000)
    waits = [f"{statistics.median(each):.0f}/{max(each):.0f}" for _, each in sorted(seconds.items())]
    stage.tell(f"  each second's median and slowest batch, ms: {' '.join(waits)}")


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return `QUANTILES` in milliseconds. There is at least one."""
    ordered = sorted(seconds)
    places = {name: min(int(part * len(ordered)), len(ordered) - 1) for name, part in QUANTILES.items()}
    return {name: round(ordered[place] * 1000, 1) for name, place in places.items()}

"""The ways to choose a move's rate: nobody does, an operator, autothrottle's formula, the sidecar with `auto`."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio

from lab.cluster.admin import FOLLOWER_RATE, LEADER_RATE
from lab.moves.scenes import native_quotas, sidecar_quotas

from .autothrottle import INTERVAL_SECONDS, WINDOW_SECONDS, Autothrottle
from .scene import BROKERS, FOLLOWER, LEADER, MB, MOVED

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from contextlib import AbstractAsyncContextManager

    from .scene import Clock, Stage

LEAST, MOST = 1 * MB, 100 * MB
FIXED = {"best": 10 * MB, "cautious": 5 * MB}
"""The first leaves a tenth of the link free beside producers at their busiest; the second is half of the first."""
PACE = 60.0
"""The factor by which autothrottle looks more often than by default: producers change much faster here than in a
day."""
WAYS = {
    "none": "no move",
    "none, sidecars": "no move, through sidecars",
    "unthrottled": "a move without a throttle",
    "best": f"the broker's quota, {FIXED['best'] / MB:g} MB/s",
    "cautious": f"the broker's quota, {FIXED['cautious'] / MB:g} MB/s",
    "autothrottle": "the broker's quota by autothrottle's formula",
    "best, sidecars": f"the sidecars' quota, {FIXED['best'] / MB:g} MB/s",
    "cautious, sidecars": f"the sidecars' quota, {FIXED['cautious'] / MB:g} MB/s",
    "auto": "**sidecar, `auto`, the leader's**",
    "auto both": "**sidecar, `auto`, both ends'**",
}
BY_SIDECARS = frozenset({"none, sidecars", "best, sidecars", "cautious, sidecars", "auto", "auto both"})
MOVES = frozenset(WAYS) - {"none", "none, sidecars"}

_AUTO = f"{{ auto = true, min = {int(LEAST)}, max = {int(MOST)} }}"
_BROKER_OF = {"leader": LEADER, "follower": FOLLOWER}
_KEY_OF = {"leader": LEADER_RATE, "follower": FOLLOWER_RATE}
_LISTS = {role: ",".join(f"{partition}:{broker}" for partition in MOVED) for role, broker in _BROKER_OF.items()}


def quotas(stage: Stage, way: str, topic: str, clock: Clock) -> AbstractAsyncContextManager[None]:
    """Return a block during which one of `WAYS` throttles the partitions of `topic`."""
    match way:
        case "autothrottle":
            return _autothrottled(stage, topic, clock)
        case "auto":
            return _by_sidecars(stage, topic, {"leader": _LISTS["leader"]}, _AUTO, clock)
        case "auto both":
            return _by_sidecars(stage, topic, _LISTS, _AUTO, clock)
        case "best, sidecars" | "cautious, sidecars":
            return _by_sidecars(stage, topic, _LISTS, str(int(FIXED[way.partition(",")[0]])), clock)
        case _ if way in FIXED:
            rates = dict.fromkeys(_LISTS, FIXED[way])
            return native_quotas(stage.kafka, topic, lists=_LISTS, rates=rates, brokers=BROKERS)
    return _none()


@asynccontextmanager
async def _none() -> AsyncGenerator[None]:
    yield


@asynccontextmanager
async def _by_sidecars(
    stage: Stage, topic: str, lists: Mapping[str, str], rate: str, clock: Clock
) -> AsyncGenerator[None]:
    """Throttle by sidecars at `rate`, as quotas.toml has it."""
    lines = [
        "[brokers.default]", *(f"{role}.replication.throttled.rate = {rate}" for role in lists),
        f'[topics."{topic}"]', *(f'{role}.replication.throttled.replicas = "{lists[role]}"' for role in lists),
    ]  # fmt: skip
    async with (
        sidecar_quotas(stage.kafka, "\n".join(lines) + "\n", BROKERS, policy="strict"),
        trio.open_nursery() as nursery,
    ):
        for role in lists:
            nursery.start_soon(_watch, stage, role, clock)
        yield
        nursery.cancel_scope.cancel()


async def _watch(stage: Stage, role: str, clock: Clock) -> None:
    sidecar = stage.kafka.sidecars[_BROKER_OF[role]]
    while True:
        state = (await trio.to_thread.run_sync(sidecar.throttle))["roles"][role]
        if state["rate"] is not None:
            why = f"{state['rate']['held_by']}: {state['rate']['reason']}"
            _tell(stage, clock, role, state["quota_bytes_per_second"], why)
        await trio.sleep(1.0)


@asynccontextmanager
async def _autothrottled(stage: Stage, topic: str, clock: Clock) -> AsyncGenerator[None]:
    """Throttle by Autothrottle, which knows the link and its load before the move: its first rates come from the
    producers' traffic alone."""
    throttles = {role: Autothrottle(stage.link, LEAST) for role in _LISTS}
    found = await _carried(stage)
    rates = {role: throttle.next(found[role]) or LEAST for role, throttle in throttles.items()}
    async with (
        native_quotas(stage.kafka, topic, lists=_LISTS, rates=rates, brokers=BROKERS),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(_keep_throttling, stage, throttles, clock)
        yield
        nursery.cancel_scope.cancel()


async def _keep_throttling(stage: Stage, throttles: Mapping[str, Autothrottle], clock: Clock) -> None:
    while True:
        await trio.sleep((INTERVAL_SECONDS - WINDOW_SECONDS) / PACE)
        for role, carried in (await _carried(stage)).items():
            if (rate := throttles[role].next(carried)) is None:
                continue
            _tell(stage, clock, role, rate, f"{carried / MB:.1f} MB/s carried")
            configs = {_KEY_OF[role]: str(int(rate))}
            await trio.to_thread.run_sync(partial(stage.kafka.admin.set_broker_configs, [_BROKER_OF[role]], configs))


async def _carried(stage: Stage) -> dict[str, float]:
    """Return bytes per second that the leader sent and the follower received, over autothrottle's window."""
    seconds = WINDOW_SECONDS / PACE
    sent, received = stage.rooms.carried(LEADER)[1], stage.rooms.carried(FOLLOWER)[0]
    await trio.sleep(seconds)
    return {
        "leader": (stage.rooms.carried(LEADER)[1] - sent) / seconds,
        "follower": (stage.rooms.carried(FOLLOWER)[0] - received) / seconds,
    }


def _tell(stage: Stage, clock: Clock, role: str, rate: float, why: str) -> None:
    stage.tell(f"  {clock.seconds:5.1f} s, {role}: {rate / MB:.1f} MB/s, {why}")

"""Sidecars and brokers that are ended, stopped, handed over, or given what no process should be given."""

from __future__ import annotations

import contextlib
import signal
import socket
from typing import TYPE_CHECKING

import trio

from lab.host.addresses import HTTP_PORT
from lab.sidecars.sidecars import restarted_by

from .scene import LEADER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from lab.sidecars.sidecars import Sidecar

    from .scene import Scene

FEW_DESCRIPTORS = 40


async def _restart(sidecar: Sidecar) -> None:
    await sidecar.kill()
    await sidecar.start()


async def leaders_sidecar_killed(scene: Scene) -> None:
    await _restart(scene.leader)


async def followers_sidecar_killed(scene: Scene) -> None:
    await _restart(scene.follower)


async def both_sidecars_handed_over(scene: Scene) -> None:
    await scene.leader.hand_over()
    await scene.follower.hand_over()


def stopped_for(broker: int, seconds: float) -> Callable[[Scene], Awaitable[None]]:
    """The sidecar of that broker stands still: it keeps its connections, and serves nobody."""

    async def strike(scene: Scene) -> None:
        process = scene.cluster.sidecars[broker].process
        process.signal(signal.SIGSTOP)
        try:
            await trio.sleep(seconds)
        finally:
            process.signal(signal.SIGCONT)

    return strike


def broker_restarted(broker: int, *, kill: bool) -> Callable[[Scene], Awaitable[None]]:
    async def strike(scene: Scene) -> None:
        restarted = scene.cluster.brokers[broker]
        await (restarted.kill() if kill else restarted.stop())
        await restarted.start()

    return strike


async def descriptors_used_up(scene: Scene) -> None:
    """The leader's sidecar may open forty descriptors, and a crowd dials it."""
    few = f"--nofile={FEW_DESCRIPTORS}:{FEW_DESCRIPTORS}"
    async with restarted_by(scene.leader, "prlimit", few):
        with _crowd(scene.cluster.addresses.http(LEADER)) as connected:
            await trio.sleep(5)
            assert connected


@contextlib.contextmanager
def _crowd(address: str, size: int = 50) -> Iterator[int]:
    with contextlib.ExitStack() as opened:
        connected = 0
        for _ in range(size):
            dialled = opened.enter_context(socket.socket())
            dialled.settimeout(0.2)
            connected += dialled.connect_ex((address, HTTP_PORT)) == 0
        yield connected


async def nobody_reads_the_log(scene: Scene) -> None:
    """The reader of the sidecar's standard output ends after its first byte."""
    async with restarted_by(scene.leader, "bash", "-c", 'exec "$@" > >(head -c 1 > /dev/null)', "bash"):
        await trio.sleep(3)

"""Cables that are pulled, and links that carry little."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from .scene import FOLLOWER

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .scene import Scene


def network_cut(seconds: float) -> Callable[[Scene], Awaitable[None]]:
    """The follower's host is cut off from everybody."""

    async def strike(scene: Scene) -> None:
        scene.rooms.cut(FOLLOWER)
        try:
            await trio.sleep(seconds)
        finally:
            scene.rooms.mend(FOLLOWER)

    return strike


async def peer_half_open(scene: Scene) -> None:
    """The follower's sidecar is ended while nobody can be told of it: the leader's side of each connection stays."""
    scene.rooms.cut(FOLLOWER)
    try:
        await scene.follower.kill()
    finally:
        scene.rooms.mend(FOLLOWER)
    await scene.follower.start()


def receives_at_most(bytes_per_second: int, seconds: float) -> Callable[[Scene], Awaitable[None]]:
    async def strike(scene: Scene) -> None:
        scene.rooms.limit(FOLLOWER, bytes_per_second)
        try:
            await trio.sleep(seconds)
        finally:
            scene.rooms.limit(FOLLOWER, None)

    return strike

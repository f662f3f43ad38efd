"""Rates that set themselves in a whole sidecar: a follower catches up through it, over real sockets."""

from __future__ import annotations

import json
import urllib.request
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trio

from lab.embedded.follower import EmbeddedFollower, FetcherSettings
from lab.embedded.leader import EmbeddedLeader
from tests.proxy.serving.test_sidecar import running, settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.proxy.serving.test_sidecar import Running

KEYS = [("t", partition) for partition in range(4)]
MESSAGE_BYTES = 1000
LOOK_SECONDS = 0.5
MAX_GAP_SECONDS, TIMES = 0.5, 3
"""A machine that stood still for longer has taken that time from the catch-up: the scene is played again, three times
at most."""


@asynccontextmanager
async def catching_up(
    folder: Path, rate: str, messages: int
) -> AsyncIterator[tuple[Running, EmbeddedLeader, EmbeddedFollower]]:
    """A follower that begins to fetch so many messages of each partition, under this rate of the leader's."""
    (folder / "quotas.toml").write_text(
        f'[brokers.default]\nleader.replication.throttled.rate = {rate}\nleader.replication.throttled.replicas = "*"\n'
    )
    leader = EmbeddedLeader(value_bytes=MESSAGE_BYTES)
    for topic, partition in KEYS:
        leader.produce(topic, partition, messages)
    follower = EmbeddedFollower(KEYS, value_bytes=MESSAGE_BYTES, settings=FetcherSettings(backoff_seconds=0.05))
    async with (
        leader.listening() as (_, upstream),
        running(settings(folder, upstream=upstream)) as sidecar,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(follower.run, *sidecar.addresses["ingress.listen"])
        yield sidecar, leader, follower
        nursery.cancel_scope.cancel()


async def state(sidecar: Running) -> dict[str, Any]:
    """What /throttle says of the leader's role."""

    def read() -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{sidecar.addresses['http.listen']}/throttle") as answer:
            found: dict[str, Any] = json.load(answer)["roles"]["leader"]
            return found

    return await trio.to_thread.run_sync(read)


async def caught_up(leader: EmbeddedLeader, follower: EmbeddedFollower) -> None:
    await follower.wait_caught_up({key: log.log_end_offset for key, log in leader.logs.items()})


@dataclass
class Scene:
    """A catch-up that has a deadline, with producers for the first four seconds."""

    found: dict[str, Any] = field(default_factory=dict)
    """What /throttle said in the midst of it."""
    took: float = 0.0
    longest_gap: float = 0.0
    """By which the loop that all of them share was late."""
    events: list[str] = field(default_factory=list)

    async def run(self, folder: Path, rate: str, messages: int) -> None:
        began = trio.current_time()
        async with catching_up(folder, rate, messages) as (sidecar, leader, follower), trio.open_nursery() as nursery:
            nursery.start_soon(self._note_gaps)
            await self._produce(sidecar, leader)
            await caught_up(leader, follower)
            self.took = trio.current_time() - began
            nursery.cancel_scope.cancel()
        self.events = sidecar.log.events

    async def _produce(self, sidecar: Running, leader: EmbeddedLeader) -> None:
        for half_seconds in range(8):
            await trio.sleep(0.5)
            for key in KEYS:
                leader.produce(*key, 50)
            # On a machine with other work the follower may not have begun after two seconds.
            if half_seconds >= 3 and (not self.found or self.found["rate"]["held_by"] == "nothing_behind"):
                self.found = await state(sidecar)

    async def _note_gaps(self) -> None:
        while True:
            due = trio.current_time() + 0.05
            await trio.sleep_until(due)
            self.longest_gap = max(self.longest_gap, trio.current_time() - due)


async def test_a_catch_up_takes_nearly_all_of_the_time_that_it_has(tmp_path: Path) -> None:
    """16 MB in 7 s, where 100 MiB/s would take a fifth of a second."""
    for _ in range(TIMES):
        scene = Scene()
        await scene.run(tmp_path, '{ within = "7s", max = "100MiB/s" }', 4000)
        if scene.longest_gap <= MAX_GAP_SECONDS:
            break
    found = scene.found
    assert 5.0 <= scene.took <= 12.0  # 7 s, and what a busy machine adds
    assert found["rate"]["source"].startswith("what is needed to end within 7s, from 64.00 KiB/s")
    assert (found["rate"]["held_by"], found["rate"]["late"]) == ("deadline", False)
    assert 1e6 < found["quota_bytes_per_second"] < 1e7
    assert found["lag_bytes"] > 1e6
    assert "rate_chosen" in scene.events
    assert "deadline_late" not in scene.events


async def test_a_catch_up_that_hurts_nobody_is_let_go_faster_and_faster(tmp_path: Path) -> None:
    """40 MB: at the least they take 40 s. How soon they go faster depends on how busy the machine is."""
    began = trio.current_time()
    rate = '{ auto = true, min = "1MiB/s", max = "200MiB/s" }'
    found: dict[str, Any] = {}
    async with catching_up(tmp_path, rate, 10_000) as (sidecar, leader, follower), trio.open_nursery() as nursery:

        async def look() -> None:
            while not found or found["quota_bytes_per_second"] <= 1.4 * 2**20:
                await trio.sleep(LOOK_SECONDS)
                found.update(await state(sidecar))

        nursery.start_soon(look)
        await caught_up(leader, follower)
        took = trio.current_time() - began
        nursery.cancel_scope.cancel()
    assert took <= 30
    assert found["rate"]["source"].startswith("what does not hurt, from 1.00 MiB/s")
    assert found["quota_bytes_per_second"] > 1.4 * 2**20

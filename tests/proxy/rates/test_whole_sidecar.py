"""Rates that set themselves in a whole sidecar: a follower catches up through it, over real sockets."""

from __future__ import annotations

import json
import urllib.request
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from lab.embedded.follower import EmbeddedFollower, FetcherSettings
from lab.embedded.leader import EmbeddedLeader
from tests.proxy.test_server import running, settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.proxy.test_server import Running

KEYS = [("t", partition) for partition in range(4)]
MESSAGE_BYTES = 1000


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


async def test_a_catch_up_takes_nearly_all_of_the_time_that_it_has(tmp_path: Path) -> None:
    """16 MB in 7 s, where 100 MiB/s would take a fifth of a second, with producers for the first four of them."""
    began = trio.current_time()
    rate = '{ within = "7s", max = "100MiB/s" }'
    async with catching_up(tmp_path, rate, 4000) as (sidecar, leader, follower):
        found: dict[str, Any] = {}
        for half_seconds in range(8):
            await trio.sleep(0.5)
            for key in KEYS:
                leader.produce(*key, 50)
            # On a machine with other work the follower may not have begun after two seconds.
            if half_seconds >= 3 and (not found or found["rate"]["held_by"] == "nothing_behind"):
                found = await state(sidecar)
        await caught_up(leader, follower)
        took = trio.current_time() - began
    assert 5.0 <= took <= 12.0  # 7 s, and what a busy machine adds
    assert found["rate"]["source"].startswith("what is needed to end within 7s, from 64.00 KiB/s")
    assert (found["rate"]["held_by"], found["rate"]["late"]) == ("deadline", False)
    assert 1e6 < found["quota_bytes_per_second"] < 1e7
    assert found["lag_bytes"] > 1e6
    assert "rate_chosen" in sidecar.log.events
    assert "deadline_late" not in sidecar.log.events


async def test_a_catch_up_that_hurts_nobody_is_let_go_faster_and_faster(tmp_path: Path) -> None:
    """40 MB: at the least they take 40 s."""
    began = trio.current_time()
    rate = '{ auto = true, min = "1MiB/s", max = "200MiB/s" }'
    async with catching_up(tmp_path, rate, 10_000) as (sidecar, leader, follower):
        await trio.sleep(4)
        found = await state(sidecar)
        await caught_up(leader, follower)
        took = trio.current_time() - began
    assert took <= 30
    assert found["rate"]["source"].startswith("what does not hurt, from 1.00 MiB/s")
    assert found["quota_bytes_per_second"] > 1.4 * 2**20

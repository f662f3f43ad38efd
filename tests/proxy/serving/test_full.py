"""What a sidecar says of itself while it has no room for another connection."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import trio

from proxy.config.settings import load_settings
from proxy.observing.condition_checks import LOOK_SECONDS

from .test_sidecar import get, running, settings, write_quotas

if TYPE_CHECKING:
    from pathlib import Path

    from .test_sidecar import Running

NAME = "replication_throttle_accept_paused"


async def told(sidecar: Running) -> tuple[list[str], list[str]]:
    """Return the warnings of /readyz, and the reasons of which the gauge is 1."""
    http = sidecar.addresses["http.listen"]
    ready = json.loads(await trio.to_thread.run_sync(get, http, "/readyz"))
    metrics = await trio.to_thread.run_sync(get, http, "/metrics")
    paused = [each["text"] for each in ready["conditions"] if each["name"] == "accepting_paused"]
    return paused, [line for line in metrics.splitlines() if line.startswith(NAME) and line.endswith(" 1.0")]


async def _end_all(leader: trio.SocketListener) -> None:
    """End the second one's connection, which has been accepted since, and the sidecar's own questions."""
    while True:
        await (await leader.accept()).aclose()


async def test_while_nothing_is_accepted_readyz_and_metrics_say_so(tmp_path: Path) -> None:
    """`ready: true, warnings: []` was all that was said of a sidecar whose places were all taken."""
    write_quotas(tmp_path, "0")
    leader = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    path = settings(tmp_path, upstream=leader.socket.getsockname()[1]).path
    path.write_text(path.read_text() + "max_connections = 1\n")
    async with leader, running(load_settings(path)) as sidecar:
        assert await told(sidecar) == ([], [])
        async with await sidecar.dial() as first, await sidecar.dial() as second:
            for each in (first, second):
                await each.send_all(b"\0")
            ours = await leader.accept()
            await trio.sleep(1.5 * LOOK_SECONDS)
            full = ["no connection is accepted (connections): 1 are open"], [f'{NAME}{{reason="connections"}} 1.0']
            assert await told(sidecar) == full
        await ours.aclose()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_end_all, leader)
            with trio.fail_after(10):
                while await told(sidecar) != ([], []):  # noqa: ASYNC110 - it counts, and tells nobody
                    await trio.sleep(0.05)
            nursery.cancel_scope.cancel()
        (started,) = [line for line in sidecar.log.lines if line["event"] == "started"]
        assert started["max_connections"] == 1
        assert started["open_files"] >= 1024

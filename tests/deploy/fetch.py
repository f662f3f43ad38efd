"""A follower in a network namespace: `python -m tests.deploy.fetch HOST PORT MESSAGES` fetches one partition up to that
many messages and prints the log's digest, the seconds it took, and the connections it had."""

from __future__ import annotations

import json
import sys
import time

import trio

from lab.embedded.follower import EmbeddedFollower, FetcherSettings

KEY = ("t", 0)
MAX_SECONDS = 20


async def fetch(host: str, port: int, messages: int) -> None:
    follower = EmbeddedFollower([KEY], settings=FetcherSettings(backoff_seconds=0.05))
    began = time.monotonic()
    with trio.move_on_after(MAX_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follower.run, host, port)
            await follower.wait_caught_up({KEY: messages})
            nursery.cancel_scope.cancel()
    seconds = time.monotonic() - began
    found = {"digest": follower.logs[KEY].digest(), "seconds": seconds, "reconnects": follower.reconnects}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    trio.run(fetch, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

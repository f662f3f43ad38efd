"""The demo without Java: a leader and a follower of our own over real sockets, the real sidecar between them.

Knows the embedded ends and the sidecar's command line. Invariant: nothing of it is left when the block ends.
"""

from __future__ import annotations

import json
import tempfile
import time
import urllib.request
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from ..embedded.follower import EmbeddedFollower
from ..embedded.leader import EmbeddedLeader
from ..errors import LabError
from ..host.processes import Process, wait_until
from ..measuring.figures import Event
from ..sidecars.sidecars import throttle_sidecar_script
from .stage import Check, journal_settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from rich.console import Console

TOPIC = "orders"
PARTITIONS = 6
LEADER, FOLLOWER = 101, 103
VALUE_BYTES = 1000
START_SECONDS = 20.0
POLL_SECONDS = 0.02
DRAIN_SECONDS = 15.0
"""A sidecar that is stopped in order closes its journal."""


class OwnStage:
    """One leader, one follower, one sidecar as the leader's ingress."""

    title = f"{TOPIC}: a follower of our own catches up with a leader of our own"

    def __init__(
        self, leader: EmbeddedLeader, follower: EmbeddedFollower, *, home: Path, http: str, nursery: trio.Nursery
    ) -> None:
        self._leader, self._follower = leader, follower
        self._home, self._http = home, http
        self._nursery = nursery
        self.total_bytes = sum(log.log_end_offset * log.message_bytes for log in leader.logs.values())
        self.ingress: tuple[str, int] = ("", 0)

    async def set_quota(self, bytes_per_second: float) -> str:
        # In whole bytes, as the sidecar keeps it: a fraction, or what is left of it in six digits, would never be found
        # in force.
        wanted = int(bytes_per_second)
        rate = f"leader.replication.throttled.rate = {wanted}"
        fresh = self._home / "quotas.new"
        text = f'[brokers.{LEADER}]\n{rate}\n[topics.{TOPIC}]\nleader.replication.throttled.replicas = "*"\n'
        await trio.Path(fresh).write_text(text)
        await trio.Path(fresh).rename(self._home / "quotas.toml")
        deadline = trio.current_time() + START_SECONDS
        while (found := await trio.to_thread.run_sync(self._quota)) != wanted:
            if trio.current_time() > deadline:
                raise LabError(f"expected {wanted} bytes/s in force, found {found} after {START_SECONDS:g} s")
            await trio.sleep(POLL_SECONDS)
        return f"quotas.toml: {rate}"

    async def begin(self) -> None:
        self._nursery.start_soon(self._follower.run, *self.ingress)
        await trio.lowlevel.checkpoint()

    async def is_over(self) -> bool:
        await trio.lowlevel.checkpoint()
        ends = {key: log.log_end_offset for key, log in self._leader.logs.items()}
        return all(self._follower.logs[key].log_end_offset >= end for key, end in ends.items())

    def seen(self) -> Sequence[Event]:
        skew = time.monotonic() - trio.current_time()
        return [Event(d.time + skew, d.record_bytes) for d in self._follower.deliveries]

    async def throttles(self) -> list[dict[str, Any]]:
        return [await trio.to_thread.run_sync(self._throttle)]

    async def checks(self) -> list[Check]:
        await trio.lowlevel.checkpoint()
        equal = sum(log.digest() == self._follower.logs[key].digest() for key, log in self._leader.logs.items())
        return [
            Check(
                "replicas are equal: log end offsets and SHA-256 of the records",
                equal == PARTITIONS,
                f"{equal} of {PARTITIONS} partitions",
            ),
            Check("the connection held", self._follower.reconnects == 0, f"{self._follower.reconnects} reconnects"),
        ]

    def _quota(self) -> float | None:
        found: float | None = self._throttle()["roles"]["leader"]["quota_bytes_per_second"]
        return found

    def _throttle(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://{self._http}/throttle", timeout=2) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


@asynccontextmanager
async def own_stage(total_bytes: int, console: Console, *, journal: Path | None = None) -> AsyncIterator[OwnStage]:
    """Run both ends and the sidecar between them, its journal in `journal`.

    Raises LabError if the sidecar does not start.
    """
    console.print("starting a leader and a follower of our own, and the sidecar between them …", highlight=False)
    leader = EmbeddedLeader(value_bytes=VALUE_BYTES)
    for partition in range(PARTITIONS):
        log = leader.log(TOPIC, partition)
        await trio.to_thread.run_sync(log.produce, total_bytes // PARTITIONS // log.message_bytes)
    follower = EmbeddedFollower([(TOPIC, p) for p in range(PARTITIONS)], value_bytes=VALUE_BYTES)
    with tempfile.TemporaryDirectory(prefix="throttle-demo-") as folder:
        async with leader.listening() as (host, port), trio.open_nursery() as nursery:
            home = Path(folder)
            http = home / "proxy.toml"
            _write_config(http, upstream=f"{host}:{port}", journal=journal)
            sidecar = Process(
                "sidecar",
                [throttle_sidecar_script(), "run", "--config", str(http)],
                output=home / "sidecar.log",
                environment={"RUNTIME_DIRECTORY": folder},  # another demo, or the broker's own sidecar, has this id too
            )
            sidecar.start()
            try:
                await wait_until(
                    lambda: bool(_started(home / "sidecar.log")),
                    process=sidecar, what="it said it started", timeout_seconds=START_SECONDS,
                )  # fmt: skip
                bound = _started(home / "sidecar.log")
                stage = OwnStage(leader, follower, home=home, http=bound["http"], nursery=nursery)
                address, _, ingress_port = bound["ingress.listen"].rpartition(":")
                stage.ingress = (address, int(ingress_port))
                yield stage
            finally:
                nursery.cancel_scope.cancel()
                with trio.CancelScope(shield=True):
                    await (sidecar.kill() if journal is None else sidecar.terminate(grace_seconds=DRAIN_SECONDS))


def _write_config(path: Path, *, upstream: str, journal: Path | None) -> None:
    (path.parent / "quotas.toml").write_text("# filled in by the demo\n", "utf-8")
    kept = "" if journal is None else f"[journal]\n{journal_settings(journal)}\n"
    path.write_text(
        f'[broker]\nid = {LEADER}\n[ingress]\nlisten = "127.0.0.1:0"\nupstream = "{upstream}"\n'
        f'[quotas]\nfile = "quotas.toml"\n[http]\nlisten = "127.0.0.1:0"\n{kept}',
        "utf-8",
    )


def _started(log: Path) -> dict[str, str]:
    """Return the sidecar's own line with the addresses it was given; empty until it is there."""
    for line in log.read_text("utf-8").splitlines():
        if '"event":"started"' in line:
            found: dict[str, str] = json.loads(line)
            return found
    return {}

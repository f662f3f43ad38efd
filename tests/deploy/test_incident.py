"""The incident on embedded ends: a real sidecar and a real Prometheus, a leader and a follower of our own."""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from lab.embedded.follower import EmbeddedFollower
from lab.embedded.leader import EmbeddedLeader
from lab.host.processes import Process, kill_all, wait_until
from lab.measuring.prometheus import Target
from lab.sidecars.sidecars import throttle_sidecar_script
from tests.deploy.exporter import exporter
from tests.deploy.incident import LEFT_BEHIND, LOOP_LAGGING, PINNED, RELOAD_FAILED, play, watched

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


KIB, MIB = 1 << 10, 1 << 20
START_SECONDS = 20.0
BROKER = (
    b"# TYPE kafka_server_replicamanager_isrshrinks_total counter\nkafka_server_replicamanager_isrshrinks_total 3\n"
)


class EmbeddedScene:
    """Two partitions, far behind from the start, and producers that write 1 MiB/s."""

    too_little = 256.0 * KIB
    plenty = 6.0 * MIB

    def __init__(self, leader: EmbeddedLeader, quotas_file: Path) -> None:
        self._leader, self._file = leader, quotas_file

    def quotas(self, bytes_per_second: float) -> str:
        return (
            f"[brokers.101]\nleader.replication.throttled.rate = {int(bytes_per_second)}\n"
            'until = 2099-01-01T00:00:00Z\n[topics.orders]\nleader.replication.throttled.replicas = "*"\n'
        )

    def write_quotas(self, text: str) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(text, "utf-8")
        fresh.rename(self._file)

    async def produce(self) -> None:
        while True:
            for topic, partition in self._leader.logs:
                self._leader.produce(topic, partition, 51)  # messages of about 1 KiB
            await trio.sleep(0.1)


@asynccontextmanager
async def embedded_scene(home: Path) -> AsyncIterator[tuple[EmbeddedScene, str]]:
    """The scene, and the sidecar's HTTP address."""
    leader = EmbeddedLeader()
    for partition in range(2):
        leader.log("orders", partition)
        leader.produce("orders", partition, 3072)
    scene = EmbeddedScene(leader, home / "quotas.toml")
    # From the first fetch on: whoever has caught up once is in sync, and never held back.
    scene.write_quotas(scene.quotas(scene.too_little))
    config, log = home / "proxy.toml", home / "sidecar.log"
    sidecar = Process("sidecar", [throttle_sidecar_script(), "run", "--config", str(config)], output=log)
    async with leader.listening() as (host, port), trio.open_nursery() as nursery:
        config.write_text(
            f'[broker]\nid = 101\n[ingress]\nlisten = "127.0.0.1:0"\nupstream = "{host}:{port}"\n'
            '[quotas]\nfile = "quotas.toml"\n[journal]\ndirectory = "journal"\n[http]\nlisten = "127.0.0.1:0"\n'
            "partition_rates = true\n",
            "utf-8",
        )
        sidecar.start()
        try:
            await wait_until(
                lambda: '"event":"started"' in log.read_text("utf-8"),
                process=sidecar, what="it said it started", timeout_seconds=START_SECONDS,
            )  # fmt: skip
            started = next(json.loads(line) for line in log.read_text("utf-8").splitlines() if '"started"' in line)
            ingress_host, _, ingress_port = started["ingress.listen"].rpartition(":")
            follower = EmbeddedFollower(list(leader.logs))
            nursery.start_soon(follower.run, ingress_host, int(ingress_port))
            yield scene, started["http"]
        finally:
            nursery.cancel_scope.cancel()
            kill_all([sidecar])


@pytest.mark.timeout(240)  # five steps, and each may take PATIENCE_SECONDS
async def test_alerts_fire_and_resolve_and_the_dashboard_has_something_to_show(
    tmp_path: Path,
) -> None:
    async with embedded_scene(tmp_path) as (scene, http), exporter(BROKER) as broker:
        targets = [Target("throttle-sidecar", http), Target("kafka", broker)]
        async with watched(targets, tmp_path) as watch:
            await play(scene, watch)
    assert set(watch.fired) - {LOOP_LAGGING} == {PINNED, RELOAD_FAILED, LEFT_BEHIND}
    assert watch.fired[PINNED].labels["role"] == "leader"
    # Those of clients with a quota, of encrypted legs, of rates that set themselves, of peers, of connections that pass
    # unthrottled, of replicas in need, of overrides, of guards and of a listener's rate have nothing to show where none
    # are.
    without = re.compile(
        "_client_|_tls_|certificate|_deadline_|_auto_|_bound_|_opaque_connections|_in_need|_overrides|_guard_|_listener_"
    )
    assert {each for each in watch.unanswered if not without.search(each)} == set()

"""`set --fleet` with a ConfigMap on a real API server and real brokers: on the wire within 250 ms of kubectl's patch.

The mount shows every version seconds later, as a kubelet's does, and takes nothing back.
"""

from __future__ import annotations

import shlex
import subprocess
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from lab.cluster import start_cluster
from lab.cluster_plan import ClusterPlan
from lab.kubernetes.clients import kubectl_command
from lab.kubernetes.mounts import MountedConfigMap
from lab.moves import MIB, Move
from lab.open_move import open_move
from lab.sidecars import SidecarPlan, throttle_sidecar_script
from tests.system.expectations import EFFECT_SECONDS, assert_intact

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.cluster import Cluster
    from lab.kubernetes.control_plane import ControlPlane

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300)]

LEADER = 101
TURNS = 5
RATE = "leader.replication.throttled.rate"
SILENCE_SECONDS = 1.5


@pytest.fixture(scope="module")
def token(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text("a-token-that-only-tests-know")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def kafka(token: Path) -> Iterator[Cluster]:
    """Two brokers with sidecars that take quotas over HTTP."""
    plan = ClusterPlan(brokers=(101, 102), sidecars=SidecarPlan(settings={"http": f'token_file = "{token}"'}))
    found = trio.run(partial(start_cluster, plan))
    try:
        yield found
    finally:
        found.close()


class Fleet:
    """One sidecar, whose quotas are a ConfigMap, and a kubectl that notes when it was over."""

    def __init__(self, folder: Path, kafka: Cluster, servers: ControlPlane, token: Path) -> None:
        self._noted = folder / "patched"
        self._file = folder / "fleet.toml"
        real = shlex.join([kubectl_command(), f"--kubeconfig={servers.kubeconfig}"])
        (folder / "kubectl").write_text(
            f'#!/bin/bash\n{real} "$@"; status=$?\necho $EPOCHREALTIME > {self._noted}\nexit $status\n'
        )
        (folder / "kubectl").chmod(0o755)
        self._file.write_text(
            f'[kubernetes]\nkubectl = "{folder / "kubectl"}"\n[[sidecars]]\nbroker = {LEADER}\n'
            f'url = "{kafka.sidecars[LEADER].url}"\nconfigmap = "kafka/throttle-quotas"\ntoken_file = "{token}"\n'
        )

    async def set_rate(self, rate: str) -> float:
        """Return when kubectl was over, on the taps' clock."""
        command = [throttle_sidecar_script(), "set", RATE, rate, "--fleet", str(self._file)]
        said = await trio.run_process(command, capture_stdout=True, stderr=subprocess.STDOUT, check=False)
        assert said.returncode == 0, said.stdout.decode()
        assert f"in force: broker {LEADER}" in said.stdout.decode()
        return float(self._noted.read_text()) - time.time() + time.monotonic()


async def test_a_patch_is_on_the_wire_within_250_ms_and_no_late_mount_takes_it_back(
    cluster: ControlPlane, kafka: Cluster, token: Path, tmp_path: Path
) -> None:
    sidecar, fleet = kafka.sidecars[LEADER], Fleet(tmp_path, kafka, cluster, token)
    delays = []
    async with open_move(kafka, Move("sidecar strict", "leader", 0, bytes_per_partition=4 * MIB)) as move:
        data = {sidecar.quotas_file.name: move.quotas(0)}
        cluster.kubectl("create", "namespace", "kafka")
        literal = f"--from-literal=quotas.toml={move.quotas(0)}"
        cluster.kubectl("create", "configmap", "throttle-quotas", "--namespace=kafka", literal)
        mount = MountedConfigMap(sidecar.quotas_file.parent, data)
        await trio.sleep(SILENCE_SECONDS)
        versions = []
        for _ in range(TURNS):
            raised = await fleet.set_rate("4MiB/s")
            delays.append(await move.wait_first_byte(raised))
            versions.append(cluster.get("configmap", "throttle-quotas", "--namespace=kafka")["data"])
            stopped = await fleet.set_rate("0")
            await trio.sleep(SILENCE_SECONDS)
            assert move.moved(stopped + EFFECT_SECONDS) == []
            mount.publish(versions[-1])  # what held before, late
            await trio.sleep(SILENCE_SECONDS)
            assert move.moved(stopped + EFFECT_SECONDS) == []
        assert sidecar.log_lines("pushed_quotas_replaced") == []
        mount.publish({"quotas.toml": "# unlimited\n"})
        assert_intact(await move.finish(timeout_seconds=60))
    assert max(delays) <= EFFECT_SECONDS, delays

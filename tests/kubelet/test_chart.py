"""deploy/helm on a node: brokers that run without it get their sidecars, pod by pod, are held, and lose them again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import yaml

from lab.moves.move import MIB
from tests.deploy.containers import IMAGE, REDIRECT_IMAGE
from tests.deploy.helm_cases import CHART, brokers

from .deployed import kustomization
from .expectations import assert_held
from .throttled_move import FOLLOWER, PARTITIONS, TOPIC, make_topic, move, quotas

if TYPE_CHECKING:
    from pathlib import Path

    from .deployed import Deployed

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(900)]

QUOTA = 4 * MIB
BYTES_PER_PARTITION = 10 * MIB
VALUES = {
    "brokers": brokers(),
    "image": {"repository": IMAGE.rpartition(":")[0], "tag": IMAGE.rpartition(":")[2]},
    # Their replication listener stays where it is: the follower role alone.
    "ingress": {"enabled": False},
    # Brokers that listen on every interface leave no address of that port to a sidecar.
    "egress": {"mode": "transparent"},
    "redirectImage": {"repository": REDIRECT_IMAGE.rpartition(":")[0], "tag": REDIRECT_IMAGE.rpartition(":")[2]},
    "quotas": {"initial": quotas(QUOTA)},
}


def of_ones_own(deployed: Deployed, folder: Path) -> str:
    """Manifests of brokers without a sidecar: the base's, with replication where others reach it."""
    rendered = deployed.servers.kubectl("kustomize", str(kustomization("base", folder)))
    documents = [
        each for each in yaml.safe_load_all(rendered) if each["kind"] in ("Namespace", "Service", "StatefulSet")
    ]
    (brokers_of_ones_own,) = (each for each in documents if each["kind"] == "StatefulSet")
    spec = brokers_of_ones_own["spec"]["template"]["spec"]
    del spec["initContainers"], spec["volumes"]
    (listeners,) = (each for each in spec["containers"][0]["env"] if each["name"] == "KAFKA_LISTENERS")
    listeners["value"] = listeners["value"].replace("REPLICATION://127.0.0.1:19092", "REPLICATION://:9092")
    return yaml.safe_dump_all(documents)


def test_brokers_of_ones_own_get_sidecars_and_lose_them_again(deployed: Deployed, tmp_path: Path) -> None:
    servers = deployed.servers
    servers.kubectl("apply", "--server-side", "-f", "-", said=of_ones_own(deployed, tmp_path))
    deployed.wait_ready()
    make_topic(deployed, BYTES_PER_PARTITION)
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(VALUES))
    servers.helm("helm 4", "install", "throttle", os.fspath(CHART), "--namespace=kafka", f"--values={values}")
    patches = servers.get("configmap", "throttle-patch", "--namespace=kafka")["data"]
    patch = ("patch", "statefulset", "kafka", "--namespace=kafka", "--patch-file=/dev/stdin")

    servers.kubectl(*patch, said=patches["add.json"])
    deployed.wait_ready()
    assert deployed.sidecar_of(FOLLOWER)["ready"]
    moved = move(deployed, QUOTA)
    print(f"chart: {moved}")  # noqa: T201 - shown by -rP
    assert_held(moved)
    assert deployed.throttled_bytes(FOLLOWER) >= 0.95 * len(PARTITIONS) * BYTES_PER_PARTITION
    comparisons = deployed.compare(TOPIC)
    assert comparisons
    assert all(comparison.equal for comparison in comparisons), comparisons
    assert deployed.complaints() == []

    servers.kubectl(*patch, said=patches["remove.json"])
    deployed.wait_ready()
    assert "initContainers" not in deployed.pod(FOLLOWER)["spec"]
    deployed.admin.wait_in_sync(TOPIC, timeout_seconds=60)

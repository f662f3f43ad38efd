"""A pod of deploy/kubernetes on a real node: its sidecar serves before the broker starts, and a quota that kubectl
writes into the ConfigMap comes into force."""

from __future__ import annotations

import hashlib
import json
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lab.brokers.jars import required_command
from lab.kubernetes.node import cluster_with_node
from lab.kubernetes.node_files import SANDBOX_IMAGE
from tests.deploy.containers import IMAGE, Containers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.kubernetes.control_plane import ControlPlane

pytestmark = [pytest.mark.kubelet, pytest.mark.timeout(900)]

BASE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "base"
HERE = "--namespace=kafka"
STARTED_SECONDS = 240.0
TAKEN_SECONDS = 150.0
"""A kubelet looks at a pod's volumes once a minute, and half a minute later at times."""
QUOTAS = '[brokers.default]\nleader.replication.throttled.rate = "7MiB/s"\n'
BROKER = """
import time, urllib.request
print(urllib.request.urlopen("http://127.0.0.1:9404/healthz", timeout=5).status, flush=True)
time.sleep(3600)
"""
"""In place of a broker: it ends at once where its sidecar does not serve yet."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Our image is in it, and the one that holds a pod together: one static program that does nothing but reap."""
    containers = Containers()
    containers.build()
    program = Path(required_command("catatonit", "containers' first process (Debian: apt-get install catatonit)"))
    made = containers.run("buildah", "from", "scratch").strip()
    try:
        containers.run("buildah", "copy", made, str(program.resolve()), "/catatonit")
        containers.run("buildah", "config", "--entrypoint", '["/catatonit", "-P"]', made)
        containers.run("buildah", "commit", "--format=docker", made, SANDBOX_IMAGE)
    finally:
        containers.run("buildah", "rm", made)
    with cluster_with_node() as (servers, node):
        for number, image in enumerate((SANDBOX_IMAGE, IMAGE)):
            archive = tmp_path_factory.mktemp("images") / f"{number}.tar"
            containers.podman("save", "--format=docker-archive", f"--output={archive}", image)
            node.import_image(archive)
        yield servers


def objects(servers: ControlPlane) -> list[dict[str, Any]]:
    """What the base has that a pod needs, and one pod of its StatefulSet on the node: there is no scheduler."""
    found = list(yaml.safe_load_all(servers.kubectl("kustomize", str(BASE))))
    (template,) = (each["spec"]["template"] for each in found if each["kind"] == "StatefulSet")
    spec = template["spec"]
    (sidecar,), (broker,) = spec["initContainers"], spec["containers"]
    sidecar["image"] = broker["image"] = IMAGE
    broker["command"] = ["python", "-c", BROKER]
    del broker["readinessProbe"]
    spec |= {"nodeName": "node", "restartPolicy": "Never"}
    spec["volumes"].append({"name": "data", "emptyDir": {}})
    labels = {**template["metadata"]["labels"], "apps.kubernetes.io/pod-index": "0"}
    metadata = {"name": "kafka-0", "namespace": "kafka", "labels": labels}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return [*(each for each in found if each["kind"] in ("Namespace", "ConfigMap")), pod]


def wait(condition: Callable[[], Any], seconds: float, servers: ControlPlane) -> Any:
    """Return the first true value of the condition."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            asked = (("get", "pods", "-o", "yaml"), ("get", "events"), ("logs", "kafka-0", "-c", "throttle-sidecar"))
            pytest.fail("\n".join(servers.try_kubectl(*words, HERE).out[-4000:] for words in asked))
        time.sleep(0.2)
    return found


def test_the_sidecar_starts_first_and_takes_a_quota_of_the_configmap(cluster: ControlPlane) -> None:
    *first, pod = objects(cluster)
    cluster.kubectl("apply", "-f", "-", said=yaml.safe_dump_all(first))
    # Its service account takes the controllers a moment.
    wait(lambda: cluster.try_kubectl("create", "-f", "-", said=json.dumps(pod)).status == 0, 30.0, cluster)
    wait(
        lambda: cluster.try_kubectl("logs", "kafka-0", HERE, "-c=kafka").out.strip() == "200", STARTED_SECONDS, cluster
    )
    status = cluster.get("pod", "kafka-0", HERE)["status"]
    (sidecar,), (broker,) = status["initContainerStatuses"], status["containerStatuses"]
    assert sidecar["started"]
    assert sidecar["restartCount"] == 0
    # RFC 3339 in UTC, so that text compares as time.
    assert sidecar["state"]["running"]["startedAt"] <= broker["state"]["running"]["startedAt"]

    patch = json.dumps({"data": {"quotas.toml": QUOTAS}})
    cluster.kubectl("patch", "configmap", "throttle-quotas", HERE, "--patch", patch)
    wanted = hashlib.sha256(QUOTAS.encode()).hexdigest()

    def is_taken() -> bool:
        with urllib.request.urlopen(f"http://{status['podIP']}:9404/throttle", timeout=5) as answer:
            return wanted.startswith(json.loads(answer.read())["quotas"]["hash"])

    wait(is_taken, TAKEN_SECONDS, cluster)

"""Three brokers in pods of a StatefulSet, made from deploy/, reached by their pods' addresses."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import yaml

from lab.brokers.log_lines import RELEVANT, complaints
from lab.brokers.releases import release
from lab.cluster.admin import Admin
from lab.host.addresses import HTTP_PORT, hosts_file
from lab.load.fill import fill
from lab.measuring.compare_replicas import compare
from lab.wire.records import SMALL
from tests.deploy.containers import IMAGE, REDIRECT_IMAGE

from .images import BROKER_IMAGE, KAFKA
from .volumes import local_volume

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lab.kubernetes.control_plane import ControlPlane
    from lab.kubernetes.node import Node
    from lab.measuring.compare_replicas import Comparison

MANIFESTS = Path(__file__).parents[2] / "deploy" / "kubernetes"
BROKERS = (0, 1, 2)
CLIENTS_PORT = 9094
READY_SECONDS = 240.0
_TAKEN_SECONDS = 150.0
"""A kubelet looks at a pod's volumes once a minute or so."""

# What docs/kubernetes.md says is one's own: the images' registry, resources, storage.
_OWN = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: kafka, namespace: kafka}
spec:
  template:
    spec:
      containers:
        - name: kafka
          env: [{name: KAFKA_HEAP_OPTS, value: -Xms64m -Xmx256m}]
          resources: {requests: {cpu: 100m, memory: 256Mi}, limits: {memory: 1Gi}}
"""


def kustomization(overlay: str, folder: Path) -> Path:
    """A folder that makes an overlay of deploy/kubernetes one's own."""
    images = {
        "apache/kafka": BROKER_IMAGE,
        "registry.example.com/kafka-throttle-sidecar": IMAGE,
        "registry.example.com/kafka-throttle-sidecar-redirect": REDIRECT_IMAGE,
    }
    renamed = [
        {"name": name, "newName": image.rpartition(":")[0], "newTag": image.rpartition(":")[2]}
        for name, image in images.items()
    ]
    document = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS / overlay, folder.resolve())],
        "images": renamed,
        "patches": [{"patch": _OWN}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(document))
    return folder


class Deployed:
    """Namespace `kafka` of a cluster. Blocking."""

    def __init__(self, servers: ControlPlane, node: Node, folder: Path) -> None:
        self.servers = servers
        self._node, self._folder = node, folder
        self._data = node.files / folder.name

    def make_volumes(self) -> None:
        """What a provisioner would do: a folder for each broker's claim."""
        for broker in BROKERS:
            (self._data / str(broker)).mkdir(parents=True)
        volumes = [
            local_volume(
                f"data-{broker}",
                node=self._node.name,
                folder=f"{self._data.name}/{broker}",
                namespace="kafka",
                claim=f"data-kafka-{broker}",
            )
            for broker in BROKERS
        ]
        self.servers.kubectl("apply", "-f", "-", said="".join(volumes))

    def wait_ready(self) -> None:
        """Until every pod is of the newest revision and ready: its broker and its sidecar."""
        rollout = ("rollout", "status", "statefulset/kafka", "--namespace=kafka", "--timeout=5s")
        deadline = time.monotonic() + READY_SECONDS
        while self.servers.try_kubectl(*rollout).status:
            assert time.monotonic() < deadline, self.trouble()
        self._forget_addresses()

    def trouble(self) -> str:
        """What a failure is to be explained by."""
        logs = [("logs", f"kafka-{broker}", "-c", each) for broker in BROKERS for each in ("throttle-sidecar", "kafka")]
        asked = (("get", "pods", "-o", "wide"), ("get", "events"), *logs)
        found = [self.servers.try_kubectl(*words, "--namespace=kafka") for words in asked]
        return "\n".join(answer.out[-3000:] + answer.error for answer in found)

    def delete(self) -> None:
        """Whatever is there of it."""
        self._forget_addresses()
        there, once = ("--namespace=kafka", "--ignore-not-found", "--timeout=50s"), ("--all", "--grace-period=1")
        self.servers.kubectl("delete", "statefulset", "kafka", "--cascade=orphan", *there)
        # Brokers that end at once wait for each other in vain, as long as they are allowed to.
        self.servers.kubectl("delete", "pods", *once, *there)
        self.servers.kubectl("delete", "namespace", "kafka", *there[1:])
        self.servers.kubectl("delete", "persistentvolume", "--all", *there[1:])

    def pod(self, broker: int) -> dict[str, Any]:
        return self.servers.get("pod", f"kafka-{broker}", "--namespace=kafka")

    def sidecar_of(self, broker: int) -> dict[str, Any]:
        """What the kubelet says of a pod's sidecar."""
        (found,) = (
            each for each in self.pod(broker)["status"]["initContainerStatuses"] if each["name"] == "throttle-sidecar"
        )
        return dict(found)

    def address(self, broker: int) -> str:
        return str(self.pod(broker)["status"]["podIP"])

    def first_process(self, broker: int) -> int:
        """The pid of a broker's JVM."""
        for process in psutil.Process(self._node.process.pid).children(recursive=True):
            if process.name() == "java" and process.environ().get("POD_NAME") == f"kafka-{broker}":
                return process.pid
        raise AssertionError(f"broker {broker} does not run")

    @functools.cached_property
    def admin(self) -> Admin:
        names = [(f"kafka-{b}.kafka.kafka.svc.cluster.local", self.address(b)) for b in BROKERS]
        hosts = hosts_file(self._folder / "hosts", names)
        return Admin(hosts=hosts, names=[name for name, _ in names], port=CLIENTS_PORT)

    def fill(self, topic: str, leaders: Mapping[int, int], size: int) -> None:
        """Write so much to each partition, at its leader."""
        addresses = {partition: self.address(leader) for partition, leader in leaders.items()}
        fill(topic, addresses, bytes_per_partition=size, shape=SMALL.stored_as("v2"), port=CLIENTS_PORT)

    def change_quotas(self, text: str) -> float:
        """In the ConfigMap. Return when kubectl was over."""
        patch = json.dumps({"data": {"quotas.toml": text}})
        self.servers.kubectl("patch", "configmap", "throttle-quotas", "--namespace=kafka", "--patch", patch)
        return time.monotonic()

    def wait_taken(self, text: str, brokers: Sequence[int] = BROKERS) -> dict[int, float]:
        """When each sidecar was first seen to go by these quotas."""
        wanted = hashlib.sha256(text.encode()).hexdigest()
        taken: dict[int, float] = {}
        urls = {broker: f"http://{self.address(broker)}:{HTTP_PORT}" for broker in brokers}
        deadline = time.monotonic() + _TAKEN_SECONDS
        while len(taken) < len(brokers):
            assert time.monotonic() < deadline, f"only {sorted(taken)} took the quotas"
            for broker in set(brokers) - set(taken):
                if wanted.startswith(self.throttle(urls[broker])["quotas"]["hash"]):
                    taken[broker] = time.monotonic()
            time.sleep(0.05)
        return taken

    def throttle(self, url: str) -> dict[str, Any]:
        with urllib.request.urlopen(f"{url}/throttle", timeout=5) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def throttled_bytes(self, follower: int) -> int:
        """That its sidecar says to have throttled."""
        page = self.throttle(f"http://{self.address(follower)}:{HTTP_PORT}")
        return sum(page["roles"]["follower"]["throttled_bytes_total"].values())

    def compare(self, topic: str) -> list[Comparison]:
        """Every follower's files with its leader's."""
        return [
            compare(topic, state.partition, leader=self._logs(state.leader), follower=self._logs(replica))
            for state in self.admin.describe(topic)
            for replica in state.replicas
            if replica != state.leader
        ]

    def _logs(self, broker: int) -> Path:
        """KAFKA_LOG_DIRS, as it is on this machine."""
        return self._data / str(broker) / "logs"

    def _forget_addresses(self) -> None:
        """A pod that is made anew has another."""
        if "admin" in self.__dict__:
            self.__dict__.pop("admin").close()

    def complaints(self) -> list[str]:
        """Lines of brokers' logs that altered fetches must never cause."""
        noise = release(kafka=KAFKA).noise
        found = []
        for broker in BROKERS:
            lines = self.servers.kubectl("logs", f"kafka-{broker}", "--namespace=kafka", "-c=kafka").splitlines()
            found += complaints([line for line in lines if RELEVANT.search(line)], noise)
        return found

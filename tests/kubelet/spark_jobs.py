"""The pipeline in pods, as docs/pipeline.md says: its image, a namespace for it, and what spark-submit starts there."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import yaml

from .volumes import local_volume

if TYPE_CHECKING:
    from lab.kubernetes.control_plane import ControlPlane
    from lab.kubernetes.node import Node
    from tests.deploy.containers import Containers

ROOT = Path(__file__).parents[2]
DEPLOYED = ROOT / "deploy" / "spark"
NAMESPACE = "throttle-pipeline"
IMAGE = "localhost/kafka-throttle-pipeline:ci"
PUBLISHED = "registry.example.com/kafka-throttle-pipeline:0.1.0"
DATA = "/data"
_SUBMITTED_SECONDS = 600.0
_POD_SECONDS = 300.0
_RESTRICTED = f"""
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels: {{pod-security.kubernetes.io/enforce: restricted}}
"""
_CLAIM = f"""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data, namespace: {NAMESPACE}}}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ""
  resources: {{requests: {{storage: 10Gi}}}}
"""


def archive_image(containers: Containers, folder: Path) -> Path:
    """Build the image of deploy/spark and write it to an archive; blocks for minutes the first time."""
    containers.build_base()
    containers.build_image(IMAGE, "--layers", f"--file={DEPLOYED / 'Dockerfile'}")
    archive = folder / "pipeline.tar"
    containers.podman("save", "--format=docker-archive", f"--output={archive}", IMAGE)
    return archive


class SparkJobs:
    """A namespace in which jobs of the pipeline run, and a volume that all their pods have at /data. Blocking."""

    def __init__(self, servers: ControlPlane, node: Node, folder: Path) -> None:
        self._servers, self._node = servers, node
        self.data = node.files / f"{folder.name}-pipeline"
        """The folder on this machine that all pods have at /data."""
        written = (DEPLOYED / "pod.yaml").read_text("utf-8")
        self._template = folder / "pod.yaml"
        self._template.write_text(written.replace(PUBLISHED, IMAGE), "utf-8")

    def make(self) -> None:
        self.data.mkdir()
        self.data.chmod(0o777)
        volume = local_volume(
            "pipeline-data",
            node=self._node.name,
            folder=self.data.name,
            namespace=NAMESPACE,
            claim="data",
            mode="ReadWriteMany",
        )
        self._servers.kubectl("apply", "-f", "-", said=_RESTRICTED)
        self._servers.kubectl("apply", "-f", "-", said=volume + _CLAIM)
        self._servers.kubectl("apply", f"--namespace={NAMESPACE}", "-f", str(DEPLOYED / "driver.yaml"))

    def delete(self) -> None:
        there = ("--ignore-not-found", "--timeout=50s")
        self._servers.kubectl("delete", "namespace", NAMESPACE, *there)
        self._servers.kubectl("delete", "persistentvolume", "pipeline-data", *there)

    def submit(self, name: str, *arguments: str) -> tuple[str, str]:
        """The phase in which the driver's pod ended, and what it printed. spark-submit itself ends with 0 whenever
        there was a pod to wait for."""
        said = {
            "spark.kubernetes.namespace": NAMESPACE,
            "spark.kubernetes.container.image": IMAGE,
            "spark.kubernetes.authenticate.driver.serviceAccountName": "throttle-pipeline",
            "spark.kubernetes.driver.podTemplateFile": str(self._template),
            "spark.kubernetes.executor.podTemplateFile": str(self._template),
            "spark.kubernetes.driver.pod.name": name,
            **{
                f"spark.kubernetes.{role}.volumes.persistentVolumeClaim.data.{key}": value
                for role in ("driver", "executor")
                for key, value in (("options.claimName", "data"), ("mount.path", DATA))
            },
            "spark.executor.instances": "2",
            # What this one node is too small for otherwise, and its network: services have no addresses there.
            "spark.kubernetes.driver.request.cores": "100m",
            "spark.kubernetes.executor.request.cores": "100m",
            "spark.kubernetes.driver.master": self._servers.url,
            "spark.sql.shuffle.partitions": "2",
            "spark.kubernetes.executor.deleteOnTermination": "false",
        }
        command = [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            "--master", f"k8s://{self._servers.url}", "--deploy-mode", "cluster", "--name", name,
            *(word for key, value in said.items() for word in ("--conf", f"{key}={value}")),
            "local:///opt/pipeline/main.py", *arguments,
        ]  # fmt: skip
        environment = {**os.environ, "KUBECONFIG": str(self._servers.kubeconfig)}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SUBMITTED_SECONDS, check=False, env=environment
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return self._ended(name)

    def run_alone(self, name: str, *arguments: str) -> tuple[str, str]:
        """The phase in which a pod ended that does a job without executors, and what it printed."""
        pod: dict[str, Any] = yaml.safe_load(self._template.read_text("utf-8"))
        pod["metadata"]["name"] = name
        pod["spec"] |= {
            "restartPolicy": "Never",
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        }
        pod["spec"]["containers"][0] |= {
            "args": ["python", "-m", "pipeline", *arguments],
            "volumeMounts": [{"name": "data", "mountPath": DATA}],
        }
        self._servers.kubectl("apply", f"--namespace={NAMESPACE}", "-f", "-", said=yaml.safe_dump(pod))
        return self._ended(name)

    def executors(self, name: str) -> list[str]:
        """In which phase each executor of a job ended."""
        application = self._pod(name)["metadata"]["labels"]["spark-app-selector"]
        selected = f"--selector=spark-role=executor,spark-app-selector={application}"
        found = self._servers.get("pods", f"--namespace={NAMESPACE}", selected)["items"]
        return [pod["status"]["phase"] for pod in found]

    def _ended(self, name: str) -> tuple[str, str]:
        deadline = time.monotonic() + _POD_SECONDS
        while (phase := self._pod(name)["status"]["phase"]) not in ("Succeeded", "Failed"):
            assert time.monotonic() < deadline, self._servers.kubectl("get", "events", f"--namespace={NAMESPACE}")
            time.sleep(0.5)
        return phase, self._servers.kubectl("logs", name, f"--namespace={NAMESPACE}")

    def _pod(self, name: str) -> dict[str, Any]:
        return self._servers.get("pod", name, f"--namespace={NAMESPACE}")

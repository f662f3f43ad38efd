"""deploy/kubernetes on a cluster without the Prometheus Operator: applied, again, upgraded, rolled back, deleted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .waiting import wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.kubernetes.control_plane import ControlPlane

pytestmark = pytest.mark.kubernetes

ROOT = Path(__file__).parents[2] / "deploy" / "kubernetes"
OVERLAYS = ("peers", "transparent", "mtls")
QUOTAS = '[brokers.default]\nleader.replication.throttled.rate = "7MiB/s"\n'


DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {plural}.{group}}}
spec:
  group: {group}
  scope: Namespaced
  names: {{kind: {kind}, plural: {plural}}}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}
"""
"""An operator's name for it; what may be in one is held to its own schema in tests/deploy/test_kubernetes.py."""


@pytest.fixture(scope="module", autouse=True)
def cert_manager(servers: ControlPlane) -> Iterator[None]:
    """Its kind, for the overlay with mutual TLS."""
    said = DEFINITION.format(kind="Certificate", plural="certificates", group="cert-manager.io")
    servers.kubectl("apply", "-f", "-", said=said)
    servers.kubectl("wait", "--for=condition=Established", "crd", "certificates.cert-manager.io")
    yield
    servers.kubectl("delete", "-f", "-", said=said)


def pods(cluster: ControlPlane) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get("pods", "--namespace=kafka")["items"]
    return found


def sidecar(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = (each for each in pod["spec"]["initContainers"] if each["name"] == "throttle-sidecar")
    return dict(found)


def stateful_set(cluster: ControlPlane) -> dict[str, Any]:
    return cluster.get("statefulset", "kafka", "--namespace=kafka")


def revisions(cluster: ControlPlane) -> set[str]:
    found = cluster.get("controllerrevisions", "--namespace=kafka")["items"]
    return {each["metadata"]["name"] for each in found}


def apply(cluster: ControlPlane, folder: Path) -> str:
    answer = cluster.try_kubectl("apply", "--server-side", "-k", str(folder))
    assert answer.status == 0, answer.error
    return answer.error


@pytest.mark.timeout(180)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_it_is_accepted_whole_and_the_controller_makes_its_pods(cluster: ControlPlane, overlay: str) -> None:
    warned = apply(cluster, ROOT / "overlays" / overlay)
    # NET_ADMIN, of the redirecting init container, is all that "restricted" has to say.
    assert ("would violate PodSecurity" in warned) == (overlay == "transparent")
    assert warned.count("Warning") == (overlay == "transparent")
    found = wait(lambda: pods(cluster) if len(pods(cluster)) == 3 else None)
    for index, pod in enumerate(sorted(found, key=lambda each: str(each["metadata"]["name"]))):
        assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == str(index)
        assert sidecar(pod)["restartPolicy"] == "Always"
    assert "throttle-sidecar" in found[0]["spec"]["initContainers"][-1]["name"]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_applied_again_it_changes_nothing(cluster: ControlPlane, overlay: str) -> None:
    folder = ROOT / "overlays" / overlay
    apply(cluster, folder)
    before = stateful_set(cluster)["metadata"]["generation"]
    apply(cluster, folder)
    assert stateful_set(cluster)["metadata"]["generation"] == before
    answer = cluster.try_kubectl("diff", "--server-side", "-k", str(folder))
    assert (answer.status, answer.out) == (0, ""), answer.out


@pytest.mark.timeout(180)
def test_quotas_that_somebody_edited_are_taken_into_the_file_before_it_is_applied_again(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """As docs/kubernetes.md says; the way that kubectl suggests puts the file's in the place of those in force."""
    tree = shutil.copytree(ROOT, tmp_path / "kubernetes")
    folder = tree / "overlays" / "peers"
    apply(cluster, folder)
    there = ("configmap", "throttle-quotas", "--namespace=kafka")
    patch = json.dumps({"data": {"quotas.toml": QUOTAS}})
    cluster.kubectl("patch", *there, "--patch", patch, "--field-manager=kubectl-edit")
    answer = cluster.try_kubectl("apply", "--server-side", "-k", str(folder))
    assert 'conflict with "kubectl-edit"' in answer.error
    assert ".data.quotas.toml" in answer.error
    assert cluster.get(*there)["data"]["quotas.toml"] == QUOTAS
    in_force = cluster.kubectl("get", *there, "--output", r"jsonpath={.data.quotas\.toml}")
    (tree / "base" / "quotas.toml").write_text(in_force)
    apply(cluster, folder)
    assert cluster.get(*there)["data"]["quotas.toml"] == QUOTAS


@pytest.mark.timeout(180)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_upgrade_rolls_the_pods_and_is_rolled_back(cluster: ControlPlane, overlay: str, tmp_path: Path) -> None:
    apply(cluster, ROOT / "overlays" / overlay)
    wait(lambda: len(revisions(cluster)) == 1)
    before = stateful_set(cluster)
    tree = shutil.copytree(ROOT, tmp_path / "kubernetes")
    kustomization = tree / "base" / "kustomization.yaml"
    kustomization.write_text(kustomization.read_text().replace("newTag: 0.2.0", "newTag: 0.3.0"))
    for path in (tree / "overlays").rglob("*.toml"):
        path.write_text(path.read_text().replace('drain = "10s"', 'drain = "20s"'))
    apply(cluster, tree / "overlays" / overlay)
    after = stateful_set(cluster)
    assert sidecar(after["spec"]["template"])["image"].endswith(":0.3.0")
    volumes = [each["spec"]["template"]["spec"]["volumes"] for each in (before, after)]
    assert volumes[0] != volumes[1], "a changed proxy.toml has a ConfigMap of another name"
    wait(lambda: len(revisions(cluster)) == 2)
    cluster.kubectl("rollout", "undo", "statefulset/kafka", "--namespace=kafka")
    assert stateful_set(cluster)["spec"]["template"] == before["spec"]["template"]
    # What the old pods mount is there yet.
    names = {each["metadata"]["name"] for each in cluster.get("configmaps", "--namespace=kafka")["items"]}
    mounted = {each["configMap"]["name"] for each in volumes[0] if "configMap" in each}
    assert mounted
    assert mounted <= names


@pytest.mark.timeout(180)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_deleted_it_leaves_nothing(cluster: ControlPlane, overlay: str) -> None:
    folder = ROOT / "overlays" / overlay
    apply(cluster, folder)
    cluster.kubectl("delete", "-k", str(folder), "--wait=false")
    cluster.kubectl("delete", "pods", "--all", "--namespace=kafka", "--force", "--grace-period=0")
    wait(lambda: cluster.try_kubectl("get", "namespace", "kafka").status)
    answer = cluster.try_kubectl("get", "-k", str(folder), "--output=name")
    assert answer.out == ""


@pytest.mark.timeout(180)
def test_what_the_prometheus_operator_reads_comes_with_its_component_alone(cluster: ControlPlane) -> None:
    component = ["-k", str(ROOT / "components" / "prometheus-operator"), "--namespace=kafka"]
    cluster.kubectl("create", "namespace", "kafka")
    assert "no matches for kind" in cluster.try_kubectl("apply", "--server-side", *component).error
    kinds = {"PodMonitor": "podmonitors", "PrometheusRule": "prometheusrules"}
    definitions = "---".join(
        DEFINITION.format(kind=kind, plural=plural, group="monitoring.coreos.com") for kind, plural in kinds.items()
    )
    cluster.kubectl("apply", "-f", "-", said=definitions)
    try:
        cluster.kubectl(
            "wait", "--for=condition=Established", "crd", *(f"{k}.monitoring.coreos.com" for k in kinds.values())
        )
        wait(lambda: cluster.try_kubectl("apply", "--server-side", *component).status == 0)
        found = cluster.get(",".join(kinds.values()), "--namespace=kafka")["items"]
        assert sorted(each["kind"] for each in found) == sorted(kinds)
    finally:
        cluster.kubectl("delete", "-f", "-", said=definitions)

"""The policies that add the sidecar, on a real API server: pods of a StatefulSet, pods as Strimzi makes them, and those
that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.deploy.helm_cases import CHART, brokers

from .pods import LABEL, MARK, REFUSED, labelled, pod
from .test_chart import OWN
from .waiting import wait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.kubernetes.control_plane import ControlPlane

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(180)]

ROOT = Path(__file__).parents[2] / "deploy" / "kubernetes" / "policies"
NAMES = ["throttle-redirect", "throttle-sidecar"]
VALUES: dict[str, Any] = {
    "brokers": brokers(2),
    "ingress": {"enabled": False},
    "egress": {"port": 9091, "mode": "transparent"},
    "http": {"port": 9405},
    "injection": {"engine": "kubernetes"},
}
LEFT_OVER = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: throttle-webhook-kafka
  labels: {app.kubernetes.io/name: kafka-throttle-sidecar}
webhooks:
  - name: inject.kafka-throttle-sidecar.internal
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Fail
    timeoutSeconds: 1
    objectSelector: {matchLabels: {kafka-throttle-sidecar/inject: "true"}}
    rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
    clientConfig: {service: {name: throttle-webhook, namespace: kafka, path: /inject}}
"""
"""What 0.1.0 registered, without those who answered."""


class Policies:
    """The chart's policies, or those of deploy/kubernetes, in namespace kafka."""

    def __init__(self, cluster: ControlPlane, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder

    def install(self, **values: Any) -> None:
        (self._folder / "values.yaml").write_text(yaml.safe_dump({**VALUES, **values}))
        verb = ("upgrade", "--install", "--create-namespace", "--namespace=kafka", "throttle", str(CHART))
        self._cluster.helm("helm 4", *verb, "--values", str(self._folder / "values.yaml"))
        self.wait()

    def wait(self) -> None:
        """The API server takes a moment to see policies."""
        wait(lambda: "expected" in self.create(labelled("True"), "--dry-run=server")[1])

    def create(self, what: dict[str, Any], *options: str) -> tuple[int, str]:
        answer = self._cluster.try_kubectl("create", "--namespace=kafka", "-f", "-", *options, said=json.dumps(what))
        return answer.status, answer.error

    def pod(self, name: str = "kafka-0") -> dict[str, Any]:
        return self._cluster.get("pod", name, "--namespace=kafka")


@pytest.fixture
def policies(cluster: ControlPlane, tmp_path: Path) -> Iterator[Policies]:
    yield Policies(cluster, tmp_path)
    cluster.try_kubectl("delete", "mutatingwebhookconfiguration", "throttle-webhook-kafka")
    if "throttle" in cluster.helm("helm 4", "list", "--namespace=kafka"):
        cluster.helm("helm 4", "uninstall", "throttle", "--namespace=kafka")


def added(pod: dict[str, Any]) -> list[str]:
    return [name for each in pod["spec"].get("initContainers", []) if (name := each["name"]).startswith("throttle-")]


def has(given: Any, asked: Any) -> bool:
    """Whether it is what was asked for; the API server adds defaults."""
    if isinstance(asked, dict):
        return all(key in given and has(given[key], each) for key, each in asked.items())
    if isinstance(asked, list):
        # A service account's token is mounted in every container.
        return len(given) >= len(asked) and all(has(*pair) for pair in zip(given, asked, strict=False))
    return bool(given == asked)


def test_pods_as_strimzi_makes_them_get_their_sidecar_and_keep_what_they_had(policies: Policies) -> None:
    policies.install()
    assert policies.create(pod(initContainers=[{"name": "own-init", "image": "example.com/init:1"}])) == (0, "")
    found = policies.pod()
    assert [each["name"] for each in found["spec"]["initContainers"]] == [*NAMES, "own-init"]
    assert found["spec"]["initContainers"][1]["restartPolicy"] == "Always"
    (kafka,) = found["spec"]["containers"]
    assert [port["containerPort"] for port in kafka["ports"]] == [9090, 9091, 9092]
    names = [each["name"] for each in found["spec"]["volumes"]]
    assert names[:2] == ["data", "broker-certs"]
    assert {"throttle-sidecar", "throttle-quotas"} <= set(names)
    assert found["metadata"]["annotations"].keys() == {*pod()["metadata"]["annotations"], MARK}


def test_everything_that_the_chart_has_to_add_is_added(policies: Policies, cluster: ControlPlane) -> None:
    """Roles, names, Secrets, settings: as the patch for a StatefulSet has them."""
    more = {
        "ingress": {"enabled": True, "port": 9096}, "egress": {"mode": "peers", "port": 9096},
        "tls": [{"name": "brokers", "secretName": "brokers"}], "imagePullSecrets": [{"name": "registry"}],
        "http": {"port": 9405, "tokenSecretName": "token"}, "settings": {"log.level": "debug"},
    }  # fmt: skip
    policies.install(**more)
    own = [{"ip": "10.1.2.3", "hostnames": ["own.example"]}]
    assert policies.create(pod(hostAliases=own, imagePullSecrets=[{"name": "own"}])) == (0, "")
    found = policies.pod()["spec"]
    data = cluster.get("configmap", "throttle-patch", "--namespace=kafka")["data"]["add.json"]
    wanted = json.loads(data)["spec"]["template"]["spec"]
    assert found["hostAliases"] == [*own, *wanted["hostAliases"]]
    assert found["imagePullSecrets"] == [{"name": "own"}, {"name": "registry"}]
    volumes = {each["name"] for each in found["volumes"]}
    assert {each["name"] for each in wanted["volumes"]} < volumes
    for given, asked in zip(found["initContainers"], wanted["initContainers"], strict=True):
        assert has(given, asked), (given, asked)
    refused = pod("kafka-1", hostAliases=[{"ip": "10.1.2.3", "hostnames": ["kafka-1.kafka"]}])
    assert "leads a broker's name to 10.1.2.3" in policies.create(refused, "--dry-run=server")[1]
    without = pod("kafka-1", securityContext={})
    assert "spec.securityContext.fsGroup is missing" in policies.create(without, "--dry-run=server")[1]
    supplemental = pod("kafka-1", securityContext={"supplementalGroups": [0]})
    assert policies.create(supplemental, "--dry-run=server") == (0, "")


def test_the_pods_of_a_stateful_set_that_asks_get_theirs_and_others_are_left_alone(
    policies: Policies, cluster: ControlPlane
) -> None:
    policies.install()
    own = yaml.safe_load(OWN)
    own["spec"]["template"]["metadata"]["labels"][LABEL] = "true"
    cluster.kubectl("apply", "--namespace=kafka", "-f", "-", said=json.dumps(own))
    of_kafka = ("pods", "--namespace=kafka", "--selector=app.kubernetes.io/name=kafka")
    found = wait(lambda: pods if len(pods := cluster.get(*of_kafka)["items"]) == 2 else None)
    for each in found:
        assert [each["name"] for each in each["spec"]["initContainers"]] == [*NAMES, "own-init"]
    quiet = pod("quiet")
    quiet["metadata"]["labels"].pop(LABEL)
    assert policies.create(quiet) == (0, "")
    assert added(policies.pod("quiet")) == []
    out = labelled("false")
    out["metadata"]["name"] = "opted-out"
    assert policies.create(out) == (0, "")
    assert added(policies.pod("opted-out")) == []


@pytest.mark.parametrize("way", ["helm", "kustomize"])
def test_pods_that_defeat_the_redirection_are_refused_and_kubectl_says_why(
    policies: Policies, cluster: ControlPlane, way: str
) -> None:
    if way == "helm":
        policies.install()
    else:
        cluster.kubectl("create", "namespace", "kafka")
        shipped = cluster.kubectl("kustomize", str(ROOT / "kubernetes"))
        cluster.kubectl("apply", "--server-side", "-f", "-", said=shipped.replace("my-cluster-broker", "kafka"))
        policies.wait()
    try:
        for what, (refused, reason) in REFUSED.items():
            status, said = policies.create(refused)
            assert (what, status) == (what, 1)
            assert reason in said, said
        for value in ("True", "yes", "1", ""):
            status, said = policies.create(labelled(value))
            assert status == 1
            assert f'expected "true" or "false", found "{value}"' in said
        assert policies.create(pod("kafka-1")) == (0, "")
        assert added(policies.pod("kafka-1")) == NAMES
    finally:
        if way == "kustomize":
            cluster.kubectl("delete", "-k", str(ROOT / "kubernetes"))


def test_a_pod_whose_sidecar_nothing_adds_does_not_start_without(policies: Policies, cluster: ControlPlane) -> None:
    """As where Kyverno is away, or the cluster is older than the policy."""
    policies.install()
    cluster.kubectl("delete", "mutatingadmissionpolicybinding", "throttle-kafka")
    wait(lambda: "no container throttle-sidecar" in policies.create(pod(), "--dry-run=server")[1])


def test_a_webhook_that_is_left_over_blocks_labelled_pods_and_an_upgrade_takes_it_away(
    policies: Policies, cluster: ControlPlane, tmp_path: Path
) -> None:
    """0.1.0's release is a chart with its registration: Helm deletes what the new one does not render."""
    old = tmp_path / "old"
    (old / "templates").mkdir(parents=True)
    (old / "Chart.yaml").write_text("{apiVersion: v2, name: kafka-throttle-sidecar, version: 0.1.0}")
    (old / "templates" / "webhook.yaml").write_text(LEFT_OVER)
    cluster.helm("helm 4", "install", "--create-namespace", "--namespace=kafka", "throttle", str(old))
    wait(lambda: "failed calling webhook" in policies.create(pod(), "--dry-run=server")[1])
    policies.install()
    assert cluster.get("mutatingwebhookconfigurations")["items"] == []
    wait(lambda: policies.create(pod())[0] == 0)
    assert added(policies.pod()) == NAMES


def test_two_releases_of_one_name_are_apart_and_taken_away_nothing_is_left(
    policies: Policies, cluster: ControlPlane
) -> None:
    policies.install()
    verb = ("upgrade", "--install", "--create-namespace", "--namespace=kafka-b", "throttle", str(CHART))
    (policies._folder / "b.yaml").write_text(yaml.safe_dump({**VALUES, "brokers": brokers(1)}))
    cluster.helm("helm 4", *verb, "--values", str(policies._folder / "b.yaml"))
    cluster.helm("helm 4", "uninstall", "throttle", "--namespace=kafka-b")
    cluster.kubectl("delete", "namespace", "kafka-b", "--wait=false")
    assert policies.create(pod()) == (0, "")
    assert added(policies.pod()) == NAMES
    cluster.helm("helm 4", "uninstall", "throttle", "--namespace=kafka")
    kinds = ("mutatingadmissionpolicies", "validatingadmissionpolicies")
    kinds = (*kinds, *(f"{each.removesuffix('ies')}ybindings" for each in kinds))
    assert cluster.get(",".join(kinds))["items"] == []

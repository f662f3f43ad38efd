"""The webhook registered by the chart on a real API server: pods of a StatefulSet and pods as Strimzi makes them."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lab.brokers.authority import Authority
from lab.host.processes import Process, accepts_connections, kill_all
from lab.sidecars.sidecars import throttle_sidecar_script
from operating.injection.injecting import ASKS, MARK
from tests.deploy.helm_cases import CHART, brokers
from tests.operating.injection.pods import pod

from .test_chart import OWN
from .waiting import PATIENCE_SECONDS, wait

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.kubernetes.control_plane import ControlPlane

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(180)]

NAMES = ("throttle-redirect", "throttle-sidecar")


class Registered:
    """The chart's webhook, run by this machine instead of a Deployment's pods."""

    def __init__(self, cluster: ControlPlane, folder: Path) -> None:
        self._cluster, self._folder = cluster, folder
        self._authority = Authority(folder / "authority")
        self.identity = self._authority.issue("webhook.pem", [cluster.address])
        with socket.socket() as probe:
            probe.bind((cluster.address, 0))
            self.port = probe.getsockname()[1]
        self.process: Process | None = None

    def install(self, **webhook: Any) -> None:
        url = f"https://{self._cluster.address}:{self.port}/inject"
        values = {
            "brokers": brokers(2),
            "ingress": {"enabled": False},
            "egress": {"port": 9091, "mode": "transparent"},
            "webhook": {
                "create": True, "url": url, "secretName": "elsewhere",
                "authority": self._authority.certificate.read_text(), **webhook,
            },
        }  # fmt: skip
        (self._folder / "values.yaml").write_text(yaml.safe_dump(values))
        verb = ("upgrade", "--install", "--create-namespace", "--namespace=kafka", "throttle", str(CHART))
        self._cluster.helm("helm 4", *verb, "--values", str(self._folder / "values.yaml"))

    def start(self) -> None:
        found = self._cluster.get("configmap", "throttle-webhook", "--namespace=kafka")["data"]["addition.json"]
        (self._folder / "addition.json").write_text(found)
        command = [
            throttle_sidecar_script(), "webhook", f"--listen={self._cluster.address}:{self.port}",
            f"--certificate={self.identity}", f"--key={self.identity}",
            f"--addition={self._folder / 'addition.json'}",
        ]  # fmt: skip
        self.process = Process("webhook", command, output=self._folder / "webhook.log")
        self.process.start()
        wait(lambda: accepts_connections(self._cluster.address, self.port))

    def create(self, what: dict[str, Any]) -> tuple[int, str]:
        answer = self._cluster.try_kubectl("create", "--namespace=kafka", "-f", "-", said=json.dumps(what))
        return answer.status, answer.error

    def pod(self, name: str = "kafka-0") -> dict[str, Any]:
        return self._cluster.get("pod", name, "--namespace=kafka")

    def close(self) -> None:
        if self.process is not None:
            kill_all([self.process])
        self._cluster.helm("helm 4", "uninstall", "throttle", "--namespace=kafka")


@pytest.fixture
def registered(cluster: ControlPlane, tmp_path: Path) -> Iterator[Registered]:
    found = Registered(cluster, tmp_path)
    found.install()
    yield found
    found.close()


def injected(pod: dict[str, Any]) -> bool:
    names = [each["name"] for each in pod["spec"].get("initContainers", [])]
    return tuple(names[:2]) == NAMES and MARK in pod["metadata"]["annotations"]


def test_pods_as_strimzi_makes_them_get_their_sidecar_and_keep_what_they_had(registered: Registered) -> None:
    registered.start()
    assert registered.create(pod()) == (0, "")
    found = registered.pod()
    assert injected(found)
    (kafka,) = found["spec"]["containers"]
    assert [port["containerPort"] for port in kafka["ports"]] == [9090, 9091, 9092]
    names = [each["name"] for each in found["spec"]["volumes"]]
    assert names[:2] == ["data", "broker-certs"]
    assert {"throttle-sidecar", "throttle-quotas"} <= set(names)
    sidecar = found["spec"]["initContainers"][1]
    assert sidecar["restartPolicy"] == "Always"


def test_the_pods_of_a_stateful_set_that_asks_get_theirs(registered: Registered, cluster: ControlPlane) -> None:
    registered.start()
    own = yaml.safe_load(OWN)
    own["spec"]["template"]["metadata"]["labels"][ASKS] = "true"
    cluster.kubectl("apply", "--namespace=kafka", "-f", "-", said=json.dumps(own))
    # Not those of the webhook's own Deployment.
    of_kafka = ("pods", "--namespace=kafka", "--selector=app.kubernetes.io/name=kafka")
    found = wait(lambda: pods if len(pods := cluster.get(*of_kafka)["items"]) == 2 else None)
    for each in found:
        assert injected(each)
        assert each["spec"]["initContainers"][-1]["name"] == "own-init"


def test_who_does_not_ask_is_left_alone(registered: Registered) -> None:
    registered.start()
    quiet = pod()
    quiet["metadata"]["labels"].pop(ASKS)
    assert registered.create(quiet)[0] == 0
    assert not injected(registered.pod())


def test_a_pod_that_cannot_be_served_is_refused_and_kubectl_says_why(registered: Registered) -> None:
    registered.start()
    status, said = registered.create(pod(hostNetwork=True))
    assert status == 1
    assert 'admission webhook "inject.kafka-throttle-sidecar.internal" denied the request: pod kafka-0 cannot' in said
    assert "spec.hostNetwork is true, so its ports and names would be the node's" in said


def test_while_nobody_answers_no_broker_starts_or_it_starts_without_as_was_chosen(registered: Registered) -> None:
    status, said = registered.create(pod())
    assert status == 1
    assert 'failed calling webhook "inject.kafka-throttle-sidecar.internal"' in said
    registered.install(failurePolicy="Ignore")

    def passes() -> bool:  # the API server takes a moment to learn of the new registration
        return registered.create(pod())[0] == 0

    wait(passes)
    assert not injected(registered.pod())


def test_a_renewed_certificate_is_used_without_a_restart(registered: Registered, cluster: ControlPlane) -> None:
    registered.start()
    assert registered.process is not None
    own = registered._authority.issue("webhook.pem", [cluster.address])
    assert own == registered.identity
    deadline = time.monotonic() + PATIENCE_SECONDS
    while "webhook_file_read" not in registered.process.output.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert registered.create(pod()) == (0, "")
    assert injected(registered.pod())


@pytest.mark.parametrize("helm", ["helm 4", "helm 3"])
def test_the_charts_own_certificate_is_kept_by_an_upgrade_and_signs_what_is_registered(
    cluster: ControlPlane, tmp_path: Path, helm: str
) -> None:
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"brokers": brokers(2), "webhook": {"create": True}}))
    verb = ("upgrade", "--install", "--create-namespace", "--namespace=kafka", "throttle", str(CHART))

    def installed() -> tuple[dict[str, str], str]:
        cluster.helm(helm, *verb, "--values", str(tmp_path / "values.yaml"))
        secret = cluster.get("secret", "throttle-webhook-tls", "--namespace=kafka")["data"]
        configuration = cluster.get("mutatingwebhookconfiguration", "throttle-webhook-kafka")
        return secret, configuration["webhooks"][0]["clientConfig"]["caBundle"]

    first, bundle = installed()
    assert bundle == first["ca.crt"]
    assert installed() == (first, bundle)
    cluster.helm(helm, "uninstall", "throttle", "--namespace=kafka")
    left = cluster.get("mutatingwebhookconfigurations")["items"]
    assert left == []

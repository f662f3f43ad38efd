"""deploy/helm installed, upgraded, rolled back, taken away by helm 3 and 4, beside a StatefulSet of somebody's own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lab.errors import LabError
from tests.deploy.helm_cases import CASES, CHART, brokers

from .waiting import wait

if TYPE_CHECKING:
    from pathlib import Path

    from lab.kubernetes.control_plane import ControlPlane

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(180)]

SIDECAR = "throttle-sidecar"
HELMS = ("helm 4", "helm 3")
QUOTAS = '[brokers.default]\nleader.replication.throttled.rate = "7MiB/s"\n'
OWN = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: kafka}
spec:
  serviceName: kafka
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app.kubernetes.io/name: kafka}}
  template:
    metadata: {labels: {app.kubernetes.io/name: kafka}, annotations: {own: "yes"}}
    spec:
      hostAliases: [{ip: 10.1.2.3, hostnames: [own.example]}]
      initContainers: [{name: own-init, image: "example.com/init:1"}]
      containers: [{name: kafka, image: "apache/kafka:4.1.0"}]
      volumes: [{name: own, emptyDir: {}}]
"""


class Release:
    """The chart in namespace kafka, by one helm."""

    def __init__(self, cluster: ControlPlane, helm: str, folder: Path) -> None:
        self._cluster, self._helm, self._values = cluster, helm, folder / "values.yaml"
        self.is_server_side = helm == "helm 4"

    def do(self, *verb: str) -> str:
        return self._cluster.helm(self._helm, *verb, "--namespace=kafka")

    def install(self, values: dict[str, Any], *options: str) -> None:
        self._values.write_text(yaml.safe_dump(values))
        verb = ("upgrade", "--install", "--create-namespace", *options)
        self.do(*verb, "throttle", str(CHART), "--values", str(self._values))

    def data(self, suffix: str = "") -> dict[str, str]:
        found = self._cluster.get("configmap", f"throttle{suffix}", "--namespace=kafka")
        return dict(found["data"])


@pytest.fixture(params=HELMS)
def release(cluster: ControlPlane, request: pytest.FixtureRequest, tmp_path: Path) -> Release:
    return Release(cluster, request.param, tmp_path)


def test_an_upgrade_and_a_rollback(release: Release) -> None:
    release.install(CASES["peers"].values)
    before = release.data()
    release.install({**CASES["peers"].values, "brokers": brokers(4), "settings": {"log.level": "debug"}})
    assert sorted(release.data()) == [f"kafka-{index}.toml" for index in range(4)]
    assert "--set=log.level=debug" in release.data("-patch")["add.json"]
    release.do("rollback", "throttle", "1")
    assert release.data() == before


def test_quotas_belong_to_who_operates(release: Release, cluster: ControlPlane) -> None:
    release.install(CASES["peers"].values)
    assert "enforce = false" in release.data("-quotas")["quotas.toml"]
    edit_quotas(cluster, QUOTAS)
    release.install({**CASES["peers"].values, "settings": {"log.level": "debug"}})
    assert release.data("-quotas")["quotas.toml"] == QUOTAS
    overwriting = {**CASES["peers"].values, "quotas": {"overwrite": True, "initial": "# none\n"}}
    if release.is_server_side:
        with pytest.raises(LabError, match=r"conflict with \"kubectl-patch\".*data.quotas.toml"):
            release.install(overwriting)
        assert release.data("-quotas")["quotas.toml"] == QUOTAS
    release.install(overwriting, *(["--force-conflicts"] if release.is_server_side else []))
    assert release.data("-quotas")["quotas.toml"] == "# none\n"


def edit_quotas(cluster: ControlPlane, text: str) -> None:
    patch = json.dumps({"data": {"quotas.toml": text}})
    cluster.kubectl("patch", "configmap", "throttle-quotas", "--namespace=kafka", "--patch", patch)


def test_a_rollback_is_no_way_to_keep_quotas(release: Release, cluster: ControlPlane) -> None:
    """docs/kubernetes.md says what each helm does with them, and how to look first."""
    release.install(CASES["peers"].values)
    edit_quotas(cluster, QUOTAS)
    release.install({**CASES["peers"].values, "settings": {"log.level": "debug"}})
    assert "enforce = false" in release.do("get", "manifest", "throttle", "--revision=1")
    assert '"7MiB/s"' in release.do("get", "manifest", "throttle", "--revision=2")
    if release.is_server_side:
        with pytest.raises(LabError, match=r"conflict with \"kubectl-patch\".*data.quotas.toml"):
            release.do("rollback", "throttle", "1")
        assert release.data("-quotas")["quotas.toml"] == QUOTAS
    else:
        release.do("rollback", "throttle", "1")
        assert "enforce = false" in release.data("-quotas")["quotas.toml"]


def test_quotas_of_ones_own_are_left_alone_by_everything(release: Release, cluster: ControlPlane) -> None:
    cluster.kubectl("create", "namespace", "kafka")
    own = ("configmap", "throttle-quotas", "--namespace=kafka")
    cluster.kubectl("create", *own, f"--from-literal=quotas.toml={QUOTAS}")
    values = {**CASES["peers"].values, "quotas": {"create": False}}
    release.install(values)
    release.install({**values, "settings": {"log.level": "debug"}})
    release.do("rollback", "throttle", "1")
    assert release.data("-quotas")["quotas.toml"] == QUOTAS
    release.do("uninstall", "throttle")
    assert release.data("-quotas")["quotas.toml"] == QUOTAS


def test_the_charts_quotas_become_ones_own_and_are_not_deleted_on_the_way(
    release: Release, cluster: ControlPlane
) -> None:
    """An upgrade deletes what it does not have any more, and no pod starts without the ConfigMap that it mounts."""
    release.install(CASES["peers"].values)
    edit_quotas(cluster, QUOTAS)
    values = {**CASES["peers"].values, "quotas": {"create": False}}
    with pytest.raises(
        LabError, match=r"quotas\.create: expected true.*kubectl annotate configmap -n kafka throttle-quotas"
    ):
        release.install(values)
    cluster.kubectl("annotate", "configmap", "throttle-quotas", "--namespace=kafka", "helm.sh/resource-policy=keep")
    release.install(values)
    assert release.data("-quotas")["quotas.toml"] == QUOTAS
    release.do("uninstall", "throttle")
    assert release.data("-quotas")["quotas.toml"] == QUOTAS


def test_taken_away_it_leaves_nothing(release: Release, cluster: ControlPlane) -> None:
    release.install(CASES["everything"].values | {"podMonitor": {"create": False}})
    assert len(cluster.get("networkpolicies", "--namespace=kafka")["items"]) == 1
    release.do("uninstall", "throttle")
    found = cluster.get("configmaps,networkpolicies,secrets,poddisruptionbudgets", "--namespace=kafka")["items"]
    assert [each["metadata"]["name"] for each in found if each["metadata"]["name"] != "kube-root-ca.crt"] == []


@pytest.mark.parametrize("mode", ["peers", "transparent"])
def test_a_statefulset_of_ones_own_gets_a_sidecar_and_loses_it_again(
    cluster: ControlPlane, tmp_path: Path, mode: str
) -> None:
    release = Release(cluster, "helm 4", tmp_path)
    release.install(CASES[mode].values)
    cluster.kubectl("apply", "--namespace=kafka", "-f", "-", said=OWN)

    def patched(key: str) -> dict[str, Any]:
        patch = ["patch", "statefulset", "kafka", "--namespace=kafka", "--patch-file=/dev/stdin"]
        cluster.kubectl(*patch, said=release.data("-patch")[key])
        template: dict[str, Any] = cluster.get("statefulset", "kafka", "--namespace=kafka")["spec"]["template"]
        return template

    before = cluster.get("statefulset", "kafka", "--namespace=kafka")["spec"]["template"]
    added = patched("add.json")
    names = [each["name"] for each in added["spec"]["initContainers"]]
    assert sorted(names) == sorted(["own-init", *(["throttle-redirect"] * (mode != "peers")), "throttle-sidecar"])
    assert {each["name"] for each in added["spec"]["volumes"]} == {
        "own", "throttle-sidecar", "throttle-quotas", "throttle-state", "throttle-control",
    }  # fmt: skip
    assert {"ip": "10.1.2.3", "hostnames": ["own.example"]} in added["spec"]["hostAliases"]
    assert patched("add.json") == added
    # The old pods' controller waits for them to be ready, which nothing here ever is.
    cluster.kubectl("delete", "pods", "--all", "--namespace=kafka", "--force", "--grace-period=0")
    pods = wait(lambda: [p for p in cluster.get("pods", "--namespace=kafka")["items"] if len(p["spec"]["volumes"]) > 2])
    assert {each["name"] for each in pods[0]["spec"]["initContainers"]} == set(names)
    assert patched("remove.json") == before


@pytest.mark.parametrize(
    "after",
    [
        {"brokers": brokers(3)[1:]},
        {"egress": {"mode": "transparent"}},
        {"tls": []},
    ],
    ids=lambda after: next(iter(after)),
)
def test_other_values_take_the_place_of_what_an_earlier_patch_added(
    cluster: ControlPlane, tmp_path: Path, after: dict[str, Any]
) -> None:
    """By the steps of docs/kubernetes.md, in one change: brokers without a sidecar would not find each other."""
    release = Release(cluster, "helm 4", tmp_path)
    before = {**CASES["peers"].values, "tls": [{"name": "brokers", "secretName": "brokers"}]}
    release.install(before)
    cluster.kubectl("apply", "--namespace=kafka", "-f", "-", said=OWN)
    there = ("statefulset", "kafka", "--namespace=kafka")
    own = cluster.get(*there)["spec"]["template"]["spec"]

    def changed(document: str, patch: str) -> str:
        (tmp_path / "patch.json").write_text(patch)
        options = ("--local", "-f", "-", f"--patch-file={tmp_path / 'patch.json'}", "--output=yaml")
        return cluster.kubectl("patch", *options, said=document)

    cluster.kubectl("patch", *there, "--patch-file=/dev/stdin", said=release.data("-patch")["add.json"])
    remove = release.data("-patch")["remove.json"]
    release.install({**before, **after})
    add = release.data("-patch")["add.json"]
    generation = cluster.get(*there)["metadata"]["generation"]
    document = changed(changed(cluster.kubectl("get", *there, "--output=yaml"), remove), add)
    cluster.kubectl("replace", "-f", "-", said=document)
    found = cluster.get(*there)
    assert found["metadata"]["generation"] == generation + 1
    added = json.loads(add)["spec"]["template"]["spec"]
    for key, by in {"hostAliases": "ip", "initContainers": "name", "volumes": "name"}.items():
        wanted = [*own.get(key, []), *added.get(key, [])]
        assert {each[by] for each in found["spec"]["template"]["spec"][key]} == {each[by] for each in wanted}
        assert len(found["spec"]["template"]["spec"][key]) == len(wanted)
    (sidecar,) = (each for each in found["spec"]["template"]["spec"]["initContainers"] if each["name"] == SIDECAR)
    (rendered,) = (each for each in added["initContainers"] if each["name"] == SIDECAR)
    assert sidecar["volumeMounts"] == rendered["volumeMounts"]

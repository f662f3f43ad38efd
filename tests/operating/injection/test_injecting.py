"""What a pod gets, once, and why one is refused."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest

from operating.injection.injecting import ASKS, MARK, Decision, decide

from .pods import addition, patched, pod

if TYPE_CHECKING:
    from pathlib import Path

    from operating.injection.addition import Addition


@pytest.fixture
def follower(tmp_path: Path) -> Addition:
    """The follower role alone, by redirection, and port 9404."""
    return addition(tmp_path)


@pytest.mark.parametrize("name", ["follower", "peers", "transparent", "everything"])
def test_a_pod_that_asks_gets_all_of_it_and_keeps_what_it_had(tmp_path: Path, name: str) -> None:
    adds = addition(tmp_path, name)
    before = pod(initContainers=[{"name": "kafka-init", "image": "init:1"}])
    before["spec"]["containers"][0]["ports"] = []
    decision = decide(before, adds)
    assert (decision.refusal, decision.warnings) == (None, ())
    after = patched(before, decision.patch)
    kubernetes_validate.validate(after, "1.34", strict=True)
    spec = after["spec"]
    assert [each["name"] for each in spec["initContainers"]] == [*(c["name"] for c in adds.containers), "kafka-init"]
    assert spec["volumes"] == [*before["spec"]["volumes"], *adds.volumes]
    assert tuple(spec.get("hostAliases", ())) == adds.host_aliases
    assert tuple(spec.get("imagePullSecrets", ())) == adds.pull_secrets
    assert spec["containers"] == before["spec"]["containers"]
    assert after["metadata"]["annotations"] == {**before["metadata"]["annotations"], MARK: adds.mark}


def test_a_second_time_changes_nothing(follower: Addition) -> None:
    after = patched(pod(), decide(pod(), follower).patch)
    assert decide(after, follower) == Decision()


def test_a_secret_that_the_pod_pulls_by_already_is_not_listed_twice(tmp_path: Path) -> None:
    adds = addition(tmp_path, "everything")
    own = [{"name": "brokers"}, *adds.pull_secrets]
    before = pod(containers=[CONTAINER], imagePullSecrets=own)
    assert adds.pull_secrets == ({"name": "registry"},)
    assert patched(before, decide(before, adds).patch)["spec"]["imagePullSecrets"] == own


def test_an_addition_of_another_version_is_left_alone_and_said(follower: Addition) -> None:
    after = patched(pod(), decide(pod(), follower).patch)
    after["metadata"]["annotations"][MARK] = "another"
    decision = decide(after, follower)
    assert (decision.patch, decision.refusal) == ((), None)
    assert "already" in decision.warnings[0]


@pytest.mark.parametrize("value", [None, "false", "True", ""])
def test_a_pod_that_does_not_ask_is_left_alone(follower: Addition, value: str | None) -> None:
    quiet = pod(hostNetwork=True)
    quiet["metadata"]["labels"][ASKS] = value
    assert decide(quiet, follower) == Decision()


def test_annotations_and_lists_that_are_missing_are_made(follower: Addition) -> None:
    bare: dict[str, Any] = {
        "metadata": {"name": "kafka-1", "labels": {ASKS: "true"}},
        "spec": {"containers": [{"name": "kafka", "image": "kafka:1"}]},
    }
    after = patched(bare, decide(bare, follower).patch)
    assert after["metadata"]["annotations"] == {MARK: follower.mark}
    assert len(after["spec"]["volumes"]) == len(follower.volumes)


CONTAINER = {"name": "own", "image": "own:1"}


@pytest.mark.parametrize(
    ("name", "spec", "why"),
    [
        ("follower", {"hostNetwork": True}, "spec.hostNetwork is true"),
        ("follower", {"os": {"name": "windows"}}, "spec.os.name is windows"),
        (
            "follower",
            {"containers": [{**CONTAINER, "ports": [{"containerPort": 9404}]}]},
            "container own has port 9404, on which throttle-sidecar is to listen",
        ),
        ("peers", {}, "container kafka has port 9092, on which throttle-sidecar is to listen"),
        (
            "peers",
            {"containers": [CONTAINER], "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["kafka-1.kafka"]}]},
            "spec.hostAliases leads kafka-1.kafka to 10.0.0.1, it is to lead to the sidecar at 127.0.101.1",
        ),
        ("follower", {"volumes": [{"name": "throttle-quotas", "emptyDir": {}}]}, "volume throttle-quotas of its own"),
        (
            "transparent",
            {"containers": [{**CONTAINER, "securityContext": {"runAsUser": 65532}}]},
            "container own is to run as user 65532, whose connections are not redirected",
        ),
        (
            "transparent",
            {"containers": [CONTAINER], "securityContext": {"runAsUser": 65532}},
            "container own is to run as user 65532",
        ),
        ("transparent", {"containers": [{**CONTAINER, "name": "throttle-redirect"}]}, "has a container throttle-red"),
        (
            "everything",
            {"containers": [CONTAINER], "securityContext": {"runAsUser": 1000}},
            "spec.securityContext.fsGroup is missing: without one user 65532, who throttle-sidecar runs as, cannot",
        ),
        (
            "everything",
            {"containers": [CONTAINER], "securityContext": {}},
            "cannot read the Secrets of volumes throttle-token, throttle-tls-ingress",
        ),
        ("everything", {"containers": [CONTAINER], "securityContext": None}, "spec.securityContext.fsGroup is missing"),
    ],
)
def test_what_cannot_be_served_is_refused_with_the_reason(
    tmp_path: Path, name: str, spec: dict[str, Any], why: str
) -> None:
    decision = decide(pod(**spec), addition(tmp_path, name))
    assert decision.patch == ()
    assert decision.refusal is not None
    assert decision.refusal.startswith("pod kafka-0 cannot have a throttle sidecar: ")
    assert why in decision.refusal


@pytest.mark.parametrize(
    ("name", "context"),
    [
        ("everything", {"fsGroup": 0}),
        ("everything", {"fsGroup": 1000}),
        # Without an fsGroup the files belong to group 0.
        ("everything", {"supplementalGroups": [1000, 0]}),
        ("follower", {}),
    ],
)
def test_a_sidecar_that_can_read_its_secrets_or_has_none_is_added(
    tmp_path: Path, name: str, context: dict[str, Any]
) -> None:
    decision = decide(pod(containers=[CONTAINER], securityContext=context), addition(tmp_path, name))
    assert decision.refusal is None
    assert decision.patch


def test_a_pod_without_a_proxy_toml_is_refused_with_those_that_have_one(follower: Addition) -> None:
    other = pod()
    other["metadata"]["name"] = "kafka-9"
    assert decide(other, follower).refusal == (
        "pod kafka-9 cannot have a throttle sidecar: there is no proxy.toml for a pod of this name, expected one of "
        "kafka-0, kafka-1: add it to the chart's `brokers`"
    )
    del other["metadata"]["name"]
    assert "a pod without a name" in (decide(other, follower).refusal or "")


@pytest.mark.parametrize(
    "wrong",
    [{}, {"metadata": []}, {"metadata": {"labels": {ASKS: "true"}}, "spec": []}, {"spec": None, "metadata": None}],
)
def test_what_is_no_pod_is_refused_or_left_alone_and_never_fails(follower: Addition, wrong: dict[str, Any]) -> None:
    decision = decide(copy.deepcopy(wrong), follower)
    assert decision.patch == ()

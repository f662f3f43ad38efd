"""Kyverno's policy, held to Kyverno itself: its command line applies deploy/kubernetes' and the chart's to pods."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lab.kubernetes.programs import KYVERNO, built
from tests.deploy.helm_cases import GOLDEN
from tests.deploy.test_kubernetes import ROOT

from .pods import LABEL, MARK, labelled, pod

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(180)]

NAMES = ["throttle-redirect", "throttle-sidecar"]


@pytest.fixture(params=["deploy/kubernetes", "chart"])
def policy(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = ROOT / "policies" / "kyverno" / "cluster-policy.yaml"
    if request.param == "chart":
        rendered = yaml.safe_load_all((GOLDEN / "kyverno.yaml").read_text())
        (found,) = (each for each in rendered if each["kind"] == "ClusterPolicy")
        path = tmp_path / "policy.yaml"
        path.write_text(yaml.safe_dump(found))
    return path


def applied(policy: Path, what: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The pod as Kyverno lets it in."""
    (folder / "pod.json").write_text(json.dumps(what))
    out = folder / "out"
    out.mkdir()
    command = [built(KYVERNO) / "kyverno", "apply", policy, "--resource", folder / "pod.json", "--output", out]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    found = list(out.iterdir())
    (mutated,) = (each for path in found for each in yaml.safe_load_all(path.read_text()) if each)
    return dict(mutated)


def test_pods_as_strimzi_makes_them_get_their_sidecar_and_keep_what_they_had(policy: Path, tmp_path: Path) -> None:
    own = {"name": "own-init", "image": "example.com/init:1"}
    found = applied(policy, pod(initContainers=[own]), tmp_path)
    names = [each["name"] for each in found["spec"]["initContainers"]]
    assert sorted(names) == sorted([*NAMES, "own-init"])
    assert names.index("throttle-redirect") < names.index("throttle-sidecar") < names.index("own-init")
    # Kyverno has references of the same form, and would refuse every pod for one that it cannot resolve.
    assert "--config=/etc/throttle-sidecar/$(POD_NAME).toml" in found["spec"]["initContainers"][1]["args"]
    assert found["spec"]["containers"] == pod()["spec"]["containers"]
    volumes = [each["name"] for each in found["spec"]["volumes"]]
    assert {"data", "broker-certs", "throttle-sidecar", "throttle-quotas"} <= set(volumes)
    assert found["metadata"]["annotations"].keys() == {*pod()["metadata"]["annotations"], MARK}


def test_pods_without_init_containers_or_annotations_get_theirs(policy: Path, tmp_path: Path) -> None:
    bare = pod()
    del bare["metadata"]["annotations"]
    found = applied(policy, bare, tmp_path)
    assert [each["name"] for each in found["spec"]["initContainers"]] == NAMES
    assert list(found["metadata"]["annotations"]) == [MARK]


@pytest.mark.parametrize("left", ["no label", "True", "has it"])
def test_other_pods_are_left_alone(policy: Path, tmp_path: Path, left: str) -> None:
    """A wrong value of the label is refused by Kubernetes' own policy."""
    what = labelled("True") if left == "True" else pod()
    if left == "no label":
        what["metadata"]["labels"].pop(LABEL)
    if left == "has it":
        what["spec"]["initContainers"] = [{"name": "throttle-sidecar", "image": "own"}]
    assert applied(policy, what, tmp_path)["spec"] == what["spec"]

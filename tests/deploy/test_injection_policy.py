"""deploy/kubernetes/policies: each engine adds the same, and the chart renders the files for its own values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.injection_policy import as_cel, with_addition

from .helm_cases import render
from .test_kubernetes import ROOT
from .test_kubernetes import render as kustomized

POLICIES = ROOT / "policies"
NAMES = [f"my-cluster-broker-{number}" for number in range(3)]
VALUES: dict[str, Any] = {
    "brokers": [{"id": n, "pod": pod, "name": f"{pod}.a", "address": f"{pod}.b"} for n, pod in enumerate(NAMES)],
    "ingress": {"enabled": False},
    "egress": {"port": 9091, "mode": "transparent"},
    "http": {"port": 9405},
}
"""Of which the files in deploy/kubernetes/policies are a rendering."""


@pytest.mark.parametrize(
    ("value", "cel"),
    [
        ("a'b\"c", '"a\'b\\"c"'),
        (9405, "9405"),
        (True, "true"),
        ([1, "a"], '[dyn(1), dyn("a")]'),
        ({"b": {}, "a": None}, '{"a": dyn(null), "b": dyn({})}'),
    ],
)
def test_literals_have_no_type_that_cel_would_refuse(value: object, cel: str) -> None:
    assert as_cel(value) == cel


def test_only_the_addition_is_written() -> None:
    mutating = (POLICIES / "kubernetes" / "mutating.yaml").read_text("utf-8")
    kyvernos = (POLICIES / "kyverno" / "cluster-policy.yaml").read_text("utf-8")
    other = with_addition(mutating, kyvernos.replace('injected: "1"', 'injected: "a\\\\b"'))
    (before, after), *rest = [
        pair for pair in zip(mutating.splitlines(), other.splitlines(), strict=True) if pair[0] != pair[1]
    ]
    assert rest == []
    assert "name: mark" in before
    assert yaml.safe_load(after) == [{"name": "mark", "expression": '"a\\\\b"'}]


@pytest.mark.parametrize("engine", ["kubernetes", "kyverno"])
def test_the_chart_renders_the_files(engine: str) -> None:
    done = render({**VALUES, "injection": {"engine": engine}}, "--show-only=templates/injection.yaml")
    assert done.returncode == 0, done.stderr
    found = {each["kind"]: each for each in yaml.safe_load_all(done.stdout) if each}
    shipped = {each["kind"]: each for each in kustomized(Path(POLICIES, engine))}
    assert found.keys() == shipped.keys()
    for kind, policy in shipped.items():
        assert neutral(found[kind]) == neutral(policy), kind
        assert found[kind]["metadata"]["name"] == "throttle-kafka"


def neutral(policy: dict[str, Any]) -> dict[str, Any]:
    """The policy without its names, and without the mark, which is a hash of the chart's."""
    spec = policy["spec"]
    if "policyName" in spec:
        spec["policyName"] = "any"
    for each in spec.get("variables", []):
        if each["name"] == "mark":
            each["expression"] = "any"
        if each["name"] == "pods":
            assert all(name in each["expression"] for name in NAMES)
            each["expression"] = "any"
    for rule in spec.get("rules", []):
        rule["mutate"]["patchStrategicMerge"]["metadata"]["annotations"] = "any"
    return dict(spec)

"""The chart's values to test with; golden/helm is what came of them, renewed by `python -m tests.deploy.helm_cases`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from lab.kubernetes.clients import helm_command

CHART = Path(__file__).parents[2] / "deploy" / "helm"
GOLDEN = Path(__file__).with_name("golden") / "helm"
OPERATOR = ("monitoring.coreos.com/v1/PodMonitor", "monitoring.coreos.com/v1/PrometheusRule")


class Case(NamedTuple):
    values: dict[str, Any]
    kinds: tuple[str, ...] = ()
    """What the cluster knows beside Kubernetes' own."""


def brokers(count: int = 3, first: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "id": first + index,
            "pod": f"kafka-{index}",
            "name": f"kafka-{index}.kafka",
            "address": f"kafka-{index}.kafka.kafka.svc.cluster.local",
        }
        for index in range(count)
    ]


def strimzi() -> dict[str, Any]:
    """The values of docs/kubernetes.md, "Strimzi, step by step", with a second broker."""
    text = (CHART.parents[1] / "docs" / "kubernetes.md").read_text("utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text.partition("## Strimzi, step by step")[2], re.DOTALL)
    values: dict[str, Any] = next(each for each in map(yaml.safe_load, blocks) if "brokers" in each)
    (first,) = values["brokers"]
    second = {key: each.replace("broker-0", "broker-1") for key, each in first.items() if key != "id"}
    return {**values, "brokers": [first, {"id": 1, **second}]}


CASES = {
    "peers": Case({"brokers": brokers()}),
    "transparent": Case({"brokers": brokers(2, first=100), "egress": {"mode": "transparent"}}),
    "guard": Case({"brokers": brokers(2, first=100), "egress": {"mode": "transparent"}, "guard": {"create": True}}),
    "follower": Case(
        {"brokers": brokers(2), "ingress": {"enabled": False}, "egress": {"port": 9091, "mode": "transparent"}}
    ),
    "kyverno": Case(
        {
            "brokers": brokers(2),
            "ingress": {"enabled": False},
            "egress": {"port": 9091, "mode": "transparent"},
            "http": {"port": 9405},
            "injection": {"engine": "kyverno"},
        }
    ),
    "strimzi": Case(strimzi()),
    "everything": Case(
        {
            "brokers": brokers(2),
            "settings": {"log.level": "debug", "limits.max_connections": 500, "http.require_token": True},
            "quotas": {"initial": '[brokers.default]\nleader.replication.throttled.rate = "1MiB/s"\n'},
            "tls": [{"name": "ingress", "secretName": "kafka-brokers"}],
            "http": {"tokenSecretName": "throttle-token"},
            "image": {"repository": "example.com/sidecar", "digest": "sha256:" + "0123456789abcdef" * 4},
            "ipFamily": "IPv6",
            "imagePullSecrets": [{"name": "registry"}],
            "networkPolicy": {"create": True, "also": [{"ports": [{"port": 9094}]}]},
            "podMonitor": {"labels": {"release": "prometheus"}},
            "prometheusRule": {"create": False},
        },
        OPERATOR,
    ),
}


def render(values: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    """helm template, with values by standard input."""
    command = [helm_command(), "template", "throttle", str(CHART), "--namespace=kafka", "--values=-", *options]
    return subprocess.run(command, input=yaml.safe_dump(values), capture_output=True, text=True, check=False)


def rendered(case: Case) -> str:
    done = render(case.values, *(f"--api-versions={kind}" for kind in case.kinds))
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for name, case in CASES.items():
        (GOLDEN / f"{name}.yaml").write_text(rendered(case), encoding="utf-8")

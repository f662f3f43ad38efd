"""Pods as Kubernetes has them, and what is added to them: the chart's own rendering."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import yaml

from operating.injection.addition import Addition, read_addition
from operating.injection.injecting import ASKS

GOLDEN = Path(__file__).parents[2] / "deploy" / "golden" / "helm"

STRIMZI: dict[str, Any] = {
    # What a StrimziPodSet of Strimzi 0.45 has for a broker, its names and shape, shortened.
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "kafka-0",
        "namespace": "kafka",
        "labels": {
            ASKS: "true",
            "app.kubernetes.io/name": "kafka",
            "strimzi.io/cluster": "my-cluster",
            "strimzi.io/controller": "strimzipodset",
            "strimzi.io/pod-name": "kafka-0",
            "statefulset.kubernetes.io/pod-name": "kafka-0",
        },
        "annotations": {"strimzi.io/revision": "7a3b", "strimzi.io/broker-configuration-hash": "1f"},
    },
    "spec": {
        "hostname": "kafka-0",
        "subdomain": "my-cluster-kafka-brokers",
        "restartPolicy": "Always",
        "containers": [
            {
                "name": "kafka",
                "image": "quay.io/strimzi/kafka:0.45.0-kafka-3.9.0",
                "command": ["/opt/kafka/kafka_run.sh"],
                "ports": [
                    {"name": "tcp-ctrlplane", "containerPort": 9090, "protocol": "TCP"},
                    {"name": "tcp-replication", "containerPort": 9091, "protocol": "TCP"},
                    {"name": "tcp-plain", "containerPort": 9092, "protocol": "TCP"},
                ],
                "volumeMounts": [{"name": "data", "mountPath": "/var/lib/kafka/data"}],
            }
        ],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-my-cluster-kafka-0"}},
            {"name": "broker-certs", "secret": {"secretName": "my-cluster-kafka-brokers"}},
        ],
        "securityContext": {"fsGroup": 0},
    },
}


def pod(**spec: Any) -> dict[str, Any]:
    """A broker's pod that asks for a sidecar; `spec` replaces keys of its spec."""
    found = copy.deepcopy(STRIMZI)
    found["spec"] |= spec
    return found


def addition_json(name: str = "follower") -> dict[str, Any]:
    """What the chart renders for the webhook, of one case of tests/deploy/helm_cases.py."""
    for each in yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text()):
        if each["kind"] == "ConfigMap" and each["metadata"]["name"] == "throttle-patch":
            spec = json.loads(each["data"]["add.json"])["spec"]["template"]["spec"]
            return {"pods": ["kafka-0", "kafka-1"], "spec": spec}
    raise AssertionError(name)


def addition(folder: Path, name: str = "follower") -> Addition:
    path = folder / "addition.json"
    path.write_text(json.dumps(addition_json(name)))
    return read_addition(path)


def patched(pod: dict[str, Any], patch: Any) -> dict[str, Any]:
    """A pod after a JSON patch of `add`s alone."""
    after = copy.deepcopy(pod)
    for operation in patch:
        assert operation["op"] == "add"
        *way, last = [part.replace("~1", "/") for part in operation["path"].split("/")[1:]]
        place = after
        for key in way:
            place = place[key]
        if isinstance(place, list):
            place.insert(len(place) if last == "-" else int(last), operation["value"])
        else:
            assert not place.get(last), f"{last} would be replaced"
            place[last] = copy.deepcopy(operation["value"])
    return after

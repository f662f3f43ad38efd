"""Pods as a StrimziPodSet makes them, and what the policies are to refuse of them."""

from __future__ import annotations

import copy
from typing import Any

LABEL = "kafka-throttle-sidecar/inject"
MARK = "kafka-throttle-sidecar/injected"

STRIMZI: dict[str, Any] = {
    # What a StrimziPodSet of Strimzi 0.45 has for a broker, its names and shape, shortened.
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "kafka-0",
        "namespace": "kafka",
        "labels": {
            LABEL: "true",
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


def pod(name: str = "kafka-0", **spec: Any) -> dict[str, Any]:
    """A broker's pod that asks for a sidecar; `spec` replaces keys of its spec."""
    found = copy.deepcopy(STRIMZI)
    found["metadata"]["name"] = name
    found["spec"] |= spec
    return found


def container(**more: Any) -> dict[str, Any]:
    """A container beside the broker's."""
    return {"name": "beside", "image": "example.com/beside:1", **more}


def beside(**more: Any) -> list[dict[str, Any]]:
    """The containers of a pod that has another one beside the broker's."""
    return [*STRIMZI["spec"]["containers"], container(**more)]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "hostNetwork": (pod(hostNetwork=True), "spec.hostNetwork is true, so its ports and names would be the node's"),
    "user": (
        pod(containers=beside(securityContext={"runAsUser": 65532})),
        "container beside is to run as user 65532, whose connections are not redirected",
    ),
    "pod's user": (
        pod(securityContext={"fsGroup": 0, "runAsUser": 65532}),
        "container kafka is to run as user 65532, whose connections are not redirected",
    ),
    "init container's user": (
        pod(initContainers=[container(securityContext={"runAsUser": 65532})]),
        "container beside is to run as user 65532, whose connections are not redirected",
    ),
    "proxy.toml": (
        pod("kafka-9"),
        "pod kafka-9 cannot have a throttle sidecar: there is no proxy.toml for a pod of this name",
    ),
    "port": (
        pod(containers=beside(ports=[{"containerPort": 9405}])),
        "container beside has a port on which the sidecar is to listen",
    ),
    "volume": (
        pod(volumes=[*STRIMZI["spec"]["volumes"], {"name": "throttle-quotas", "emptyDir": {}}]),
        'Duplicate value: "throttle-quotas"',
    ),
}
"""A pod that defeats the redirection, or cannot have a sidecar, and the reason that its author is to read."""


def labelled(value: str) -> dict[str, Any]:
    found = pod()
    found["metadata"]["labels"][LABEL] = value
    return found

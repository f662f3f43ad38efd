from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import lab.cluster.admin_client
from lab.cluster.zookeeper_admin import ZooKeeperAdmin
from lab.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path

FAKE_JAVA = """#!/bin/sh
for argument; do
  [ "$argument" = --zookeeper ] && said=yes
  [ -n "$said" ] && printf "%s " "$argument" >> "{calls}"
  case "$argument" in *asked.json) cp "$argument" "{asked}" ;; *fail*) echo "Error while executing it"; exit 1 ;; esac
done
echo >> "{calls}"
echo "Successfully started reassignment of partitions"
"""
CONFIGURE = "--zookeeper z:2181 --alter --entity-type {} --entity-name {} "


class FakeClient:
    """Stands in for kafka-python's admin client; the cluster is what the test says."""

    def __init__(self) -> None:
        self.partitions: list[dict[str, Any]] = []

    def describe_topics(self, _: list[str]) -> list[dict[str, Any]]:
        return [{"partitions": self.partitions}]

    def list_partition_offsets(self, _: object) -> dict[object, object]:
        return {}


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    client = FakeClient()
    monkeypatch.setattr(lab.cluster.admin_client, "AdminClient", lambda **_: client)
    return client


@pytest.fixture
def admin(client: FakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ZooKeeperAdmin:
    """Its tools are a script that writes down what it is asked for."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(FAKE_JAVA.format(calls=tmp_path / "calls", asked=tmp_path / "asked"))
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{java.parent}:/bin:/usr/bin")
    return ZooKeeperAdmin(
        hosts=tmp_path / "hosts", names=["kafka-101"], zookeeper="z:2181", jars=tmp_path, home=tmp_path / "tools"
    )


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "calls").read_text().splitlines()


def state(partition: int, replicas: list[int], in_sync: list[int]) -> dict[str, Any]:
    return {"partition_index": partition, "leader_id": replicas[0], "replica_nodes": replicas, "isr_nodes": in_sync}


def test_topics_are_made_with_exactly_these_replicas(admin: ZooKeeperAdmin, client: FakeClient, tmp_path: Path) -> None:
    client.partitions = [state(0, [101, 102], [101]), state(1, [102], [102])]
    admin.create_topic("orders", {1: [102], 0: [101, 102]}, configs={"segment.bytes": "1048576"})
    asked = "--create --topic orders --replica-assignment 101:102,102 --config segment.bytes=1048576 "
    assert calls(tmp_path) == ["--zookeeper z:2181 " + asked]


def test_a_move_is_over_when_exactly_its_replicas_are_in_sync(
    admin: ZooKeeperAdmin, client: FakeClient, tmp_path: Path
) -> None:
    admin.reassign("orders", {0: [101, 102], 1: [102]})
    assert json.loads((tmp_path / "asked").read_text())["partitions"] == [
        {"topic": "orders", "partition": 0, "replicas": [101, 102]},
        {"topic": "orders", "partition": 1, "replicas": [102]},
    ]
    for partitions, moving in (
        ([state(0, [101, 102], [101]), state(1, [101, 102], [101, 102])], [0, 1]),
        ([state(0, [101, 102], [102, 101]), state(1, [101, 102], [102])], [1]),
        ([state(0, [101, 102], [101, 102]), state(1, [102], [102])], []),
    ):
        client.partitions = partitions
        assert admin.moving("orders", [0, 1]) == moving
    assert admin.moving("others", [0]) == []


def test_a_move_cannot_be_cancelled(admin: ZooKeeperAdmin) -> None:
    with pytest.raises(LabError, match="KIP-455"):
        admin.reassign("orders", {0: None})


def test_only_configs_that_are_set_are_deleted(admin: ZooKeeperAdmin, tmp_path: Path) -> None:
    admin.set_broker_configs([101, 102], {"a": "1", "b": None})
    admin.set_broker_configs([101], {"a": None, "b": None})
    admin.set_broker_configs([101], {"a": None})
    admin.set_topic_configs("orders", {"list": "0:101,1:101"})
    assert calls(tmp_path) == [
        CONFIGURE.format("brokers", 101) + "--add-config a=[1] ",
        CONFIGURE.format("brokers", 102) + "--add-config a=[1] ",
        CONFIGURE.format("brokers", 101) + "--delete-config a ",
        CONFIGURE.format("topics", "orders") + "--add-config list=[0:101,1:101] ",
    ]


def test_what_a_tool_said_when_it_failed_is_told(admin: ZooKeeperAdmin) -> None:
    with pytest.raises(LabError, match=r"ConfigCommand .*\nError while executing it"):
        admin.set_topic_configs("fail", {"a": "1"})

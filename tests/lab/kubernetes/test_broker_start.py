"""A broker's image takes the environment that apache/kafka's does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import lab.kubernetes

START = Path(lab.kubernetes.__file__).with_name("broker") / "start.sh"
JAVA = """#!/bin/sh
echo "$@" >> {noted}
case "$*" in *StorageTool*) echo > {data}/meta.properties;; esac
"""


def start(tmp_path: Path) -> tuple[list[str], list[str]]:
    """The commands that a start runs, and the properties that it writes."""
    noted, properties, data = tmp_path / "noted", tmp_path / "properties", tmp_path / "data"
    data.mkdir(exist_ok=True)
    noted.write_text("")
    # The script writes where a pod has a /tmp of its own.
    script = tmp_path / "start.sh"
    script.write_text(START.read_text().replace("/tmp/server.properties", str(properties)))
    (tmp_path / "java").write_text(JAVA.format(noted=noted, data=data))
    (tmp_path / "java").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
        "KAFKA_NODE_ID": "2",
        "KAFKA_HEAP_OPTS": "-Xms64m -Xmx256m",
        "KAFKA_LISTENERS": "REPLICATION://127.0.0.1:19092,CLIENTS://:9094",
        "KAFKA_LOG_DIRS": str(data),
    }
    subprocess.run(["sh", str(script)], env=environment, check=True)
    return noted.read_text().splitlines(), sorted(properties.read_text().splitlines())


def test_properties_come_from_the_environment(tmp_path: Path) -> None:
    _, properties = start(tmp_path)
    assert properties == [
        "listeners=REPLICATION://127.0.0.1:19092,CLIENTS://:9094",
        f"log.dirs={tmp_path / 'data'}",
        "node.id=2",
    ]


def test_storage_is_formatted_once(tmp_path: Path) -> None:
    first, _ = start(tmp_path)
    assert [
        ("StorageTool format --cluster-id 4L6g3nShT-eMCtK--X86sw" in line, "kafka.Kafka" in line) for line in first
    ] == [
        (True, False),
        (False, True),
    ]
    assert all("-Xms64m -Xmx256m" in line and "-cp /opt/kafka/libs/* kafka." in line for line in first)
    again, _ = start(tmp_path)
    assert len(again) == 1
    assert "kafka.Kafka" in again[0]

"""The administrator of old brokers: requests that they do not take are made by Kafka's own tools, by way of ZooKeeper.

Before 2.4 there is no request that reassigns partitions or elects leaders (KIP-455, KIP-460), before 2.3 none that
changes single configs (KIP-339). Each call to a tool costs a JVM, about a second.
Knows nothing of brokers' processes. Invariant: a tool that did not say it succeeded becomes a LabError.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING

from ..brokers.jvm import LOGGING, jvm_command
from ..errors import LabError
from .admin import Admin, Assignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

_TOOL_SECONDS = 60.0
_LEADERS_SECONDS = 30.0
_POLL_SECONDS = 0.1


class ZooKeeperAdmin(Admin):
    """An `Admin` of old brokers; what these cannot do at all (0.10.1: delete records, tell sizes) is a LabError.

    Args:
        hosts: file of names and addresses.
        names: of the brokers to begin with.
        zookeeper: its address and port.
        jars: class path folder of the tools.
        home: a folder of its own; made.
    """

    def __init__(self, *, hosts: Path, names: Iterable[str], zookeeper: str, jars: Path, home: Path) -> None:
        super().__init__(hosts=hosts, names=names)
        home.mkdir(parents=True)
        (home / "log4j.properties").write_text(LOGGING.format(file=home / "tools.log"), encoding="ascii")
        self._zookeeper, self._jars, self._home = zookeeper, jars, home
        self._wanted: dict[str, dict[int, set[int]]] = {}
        self._configs: dict[tuple[str, str], set[str]] = {}

    def create_topic(self, topic: str, assignment: Assignment, *, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic as `Admin.create_topic` does; partitions are numbered from 0, without gaps."""
        replicas = ",".join(":".join(map(str, assignment[partition])) for partition in range(len(assignment)))
        options = [option for key, value in (configs or {}).items() for option in ("--config", f"{key}={value}")]
        self._tool("kafka.admin.TopicCommand", "--create", "--topic", topic, "--replica-assignment", replicas, *options)
        deadline = time.monotonic() + _LEADERS_SECONDS
        while sum(state.leader >= 0 for state in self.describe(topic)) < len(assignment):
            if time.monotonic() > deadline:
                raise LabError(f"creating topic {topic}: not every partition has a leader")
            time.sleep(_POLL_SECONDS)
        self.end_offsets(topic, assignment)

    def reassign(self, topic: str, assignment: Assignment | Mapping[int, None]) -> None:
        """Reassign as `Admin.reassign` does, but a reassignment that has begun cannot be cancelled."""
        targets = {partition: list(replicas) for partition, replicas in assignment.items() if replicas is not None}
        if len(targets) < len(assignment):
            raise LabError(f"reassigning {topic}: brokers of before 2.4 cannot cancel (KIP-455)")
        said = self._tool(
            "kafka.admin.ReassignPartitionsCommand", "--execute", "--reassignment-json-file",
            self._json(_partitions(topic, targets)),
        )  # fmt: skip
        if "Successfully started reassignment" not in said:
            raise LabError(f"reassigning {topic}:\n{said}")
        self._wanted[topic] = {partition: set(replicas) for partition, replicas in targets.items()}

    def moving(self, topic: str, partitions: Iterable[int]) -> list[int]:
        """Return the partitions that are not on exactly the replicas last asked for, all of them in sync."""
        wanted, asked = self._wanted.get(topic, {}), set(partitions)
        return [
            state.partition
            for state in self.describe(topic)
            if state.partition in asked & wanted.keys()
            and not set(state.replicas) == set(state.in_sync) == wanted[state.partition]
        ]

    def _elect(self, topic: str, partitions: Iterable[int]) -> None:
        asked = {"partitions": [{"topic": topic, "partition": partition} for partition in partitions]}
        self._tool("kafka.admin.PreferredReplicaLeaderElectionCommand", "--path-to-json-file", self._json(asked))

    def set_broker_configs(self, brokers: Iterable[int], configs: Mapping[str, str | None]) -> None:
        """Set dynamic broker configs; None deletes one."""
        for broker in brokers:
            self._configure("brokers", str(broker), configs)

    def set_topic_configs(self, topic: str, configs: Mapping[str, str | None]) -> None:
        """Set topic configs; None deletes one."""
        self._configure("topics", topic, configs)

    def _configure(self, kind: str, name: str, configs: Mapping[str, str | None]) -> None:
        # The tool refuses to delete what is not set.
        present = self._configs.setdefault((kind, name), set())
        added = {key: value for key, value in configs.items() if value is not None}
        deleted = [key for key in configs if key in present - added.keys()]
        changes = []
        if added:
            changes += ["--add-config", ",".join(f"{key}=[{value}]" for key, value in added.items())]
        if deleted:
            changes += ["--delete-config", ",".join(deleted)]
        if changes:
            what = ("--alter", "--entity-type", kind, "--entity-name", name)
            self._tool("kafka.admin.ConfigCommand", *what, *changes)
        present.update(added)
        present.difference_update(deleted)

    def _json(self, content: object) -> str:
        path = self._home / "asked.json"
        path.write_text(json.dumps(content), encoding="ascii")
        return str(path)

    def _tool(self, main: str, *arguments: str) -> str:
        """Run one of Kafka's tools and return its output. Raises LabError if it failed."""
        command = jvm_command(
            main, "--zookeeper", self._zookeeper, *arguments, home=self._home, jars=self._jars, heap_mb=64
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TOOL_SECONDS)
        said = done.stdout + done.stderr
        if done.returncode != 0 or "Error while executing" in said:
            raise LabError(f"{main} {' '.join(arguments)}:\n{said}")
        return said


def _partitions(topic: str, targets: Mapping[int, Sequence[int]]) -> dict[str, object]:
    """Return partitions as kafka-reassign-partitions reads them."""
    listed = [{"topic": topic, "partition": partition, "replicas": replicas} for partition, replicas in targets.items()]
    return {"version": 1, "partitions": listed}

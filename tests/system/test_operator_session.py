"""A move from start to end as an operator makes it, typed into a real terminal, between real brokers."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from lab.brokers.jvm import LOGGING, jvm_command
from lab.load.fill import fill
from lab.sidecars.sidecars import UNLIMITED
from operating.asking import ask, send
from tests.system.operator_terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.cluster.cluster import Cluster
    from lab.sidecars.sidecars import Sidecar

pytestmark = pytest.mark.brokers
MIB = 1 << 20
LEADER, OLD, NEW = 101, 102, 103
PARTITIONS = 2
BYTES = 6 * MIB
OURS = "# Quotas of this cluster. Ask Ana before you raise them.\n"


@contextmanager
def shared_quotas(cluster: Cluster, path: Path) -> Iterator[None]:
    """All sidecars read this one file, as they read one ConfigMap; overrides that are left are undone at the end."""
    path.write_text(OURS)
    for sidecar in cluster.sidecars.values():
        sidecar.quotas_file.unlink()
        sidecar.quotas_file.symlink_to(path)
    try:
        yield
    finally:
        for sidecar in cluster.sidecars.values():
            undo_all(sidecar)
            trio.run(sidecar.set_quotas, UNLIMITED)


def undo_all(sidecar: Sidecar) -> None:
    """Undo every override of a sidecar."""
    for override in json.loads(ask(sidecar.control_url, "/overrides"))["overrides"]:
        body = json.dumps({"id": override["id"]}).encode()
        send(sidecar.control_url, "/overrides/undo", method="POST", body=body)


@contextmanager
def topic_of_two_replicas(cluster: Cluster, topic: str, *, bytes_per_partition: int = BYTES) -> Iterator[None]:
    cluster.admin.create_topic(topic, {p: [LEADER, OLD] for p in range(PARTITIONS)})
    leaders = dict.fromkeys(range(PARTITIONS), cluster.addresses.direct(LEADER))
    fill(topic, leaders, bytes_per_partition=bytes_per_partition, shape=cluster.shape())
    cluster.admin.wait_in_sync(topic, timeout_seconds=30)
    try:
        yield
    finally:
        cluster.admin.delete_topic(topic)


def kafka_tool(cluster: Cluster, main: str, home: Path) -> str:
    """Kafka's own command line, as a script that takes further arguments."""
    (home / "log4j.properties").write_text(LOGGING.format(file=home / "tool.log"), encoding="ascii")
    command = jvm_command(main, home=home, jars=cluster.jars, heap_mb=64, hosts=cluster.home / "hosts-of-clients")
    return f'exec {shlex.join(command)} "$@"'


@contextmanager
def operator(cluster: Cluster, home: Path, topic: str) -> Iterator[Terminal]:
    """At a terminal, with a reassignment from 101,102 to 101,103 in move.json and Kafka's tool at hand."""
    rows = [{"topic": topic, "partition": p, "replicas": [LEADER, NEW]} for p in range(PARTITIONS)]
    (home / "move.json").write_text(json.dumps({"version": 1, "partitions": rows}))
    tool = kafka_tool(cluster, "org.apache.kafka.tools.reassign.ReassignPartitionsCommand", home)
    with Terminal(home, {"kafka-reassign-partitions": tool}) as terminal:
        where = f"{cluster.addresses.name(LEADER)}:9092"
        terminal.type(f"asked='--bootstrap {where} --hosts {cluster.admin.hosts}'")
        terminal.type(f"urls='--url {cluster.sidecars[LEADER].url} --url {cluster.sidecars[NEW].url}'")
        (home / "fleet.toml").write_text(
            "".join(
                f'[[sidecars]]\nbroker = {broker}\nurl = "{sidecar.control_url}"\n'
                for broker, sidecar in cluster.sidecars.items()
            )
        )
        terminal.type(f"kafka='--bootstrap-server {where} --reassignment-json-file move.json'")
        yield terminal


def squeezed(output: str) -> list[str]:
    return [" ".join(line.split()) for line in output.splitlines()]


def test_a_move_from_start_to_end(sidecar_cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    cluster, topic = sidecar_cluster, "session"
    quotas = tmp_path / "quotas.toml"
    with (
        shared_quotas(cluster, quotas),
        topic_of_two_replicas(cluster, topic),
        operator(cluster, tmp_path, topic) as terminal,
    ):
        # What is there to move?
        seen = squeezed(terminal.type("throttle-sidecar plan move.json $asked"))
        assert re.fullmatch(r"2 partitions to move, 12.0. MiB over the network", seen[0])

        # At 256 KiB/s: three quarters of a minute, which what is typed meanwhile does not take on a busy machine.
        applied = terminal.type("throttle-sidecar plan move.json $asked --rate 256KiB/s --apply --fleet fleet.toml")
        assert terminal.exit_status() == 0
        assert "undo: throttle-sidecar undo " in applied
        assert quotas.read_text() == OURS

        # Kafka's own tool begins the move; nothing of its throttle is used.
        # What it says of the assignment before is all that a plan needs where no cluster can be asked.
        executed = terminal.type("kafka-reassign-partitions $kafka --execute | tee executed.txt | tail -1")
        assert "Successfully started" in executed
        offline = "throttle-sidecar plan move.json --current executed.txt --bytes 12MiB --rate 256KiB/s"
        assert squeezed(terminal.type(offline))[0] == "2 partitions to move, 12.00 MiB over the network, in about 48s"
        # The quota, and below it the partitions that are behind.
        terminal.watch("throttle-sidecar status $urls", rf"256 KiB/s.*{topic}")
        seen = squeezed(terminal.type("throttle-sidecar verify move.json $asked --fleet fleet.toml"))
        assert seen[0].startswith("0 of 2 partitions are in place, ")
        assert seen[-1] == "not done: the throttle stays until it is"
        assert terminal.exit_status() == 1

        # It goes well, so it may go faster.
        for role, broker in (("leader", LEADER), ("follower", NEW)):
            key = f"{role}.replication.throttled.rate"
            terminal.type(f"throttle-sidecar set {key} 50MiB/s --fleet fleet.toml --at {broker} --label faster")
            assert terminal.exit_status() == 0

        # Wait for the end, and take the throttle back.
        said = terminal.type("throttle-sidecar verify move.json $asked --fleet fleet.toml --wait 40s --remove")
        assert squeezed(said)[-1] == "done, and nothing is left behind"
        assert terminal.exit_status() == 0
        # What was set beside the move is not the move's.
        assert terminal.type("throttle-sidecar overrides --fleet fleet.toml").count("faster") == 2
        terminal.type("throttle-sidecar undo --label faster --fleet fleet.toml")
        assert terminal.exit_status() == 0
        assert quotas.read_text() == OURS
        assert [state.in_sync for state in cluster.admin.describe(topic)] == [(LEADER, NEW)] * PARTITIONS

        # What Kafka's tool thinks of it.
        assert "Reassignment of partition session-1 is completed." in terminal.type(
            "kafka-reassign-partitions $kafka --verify"
        )
        record = request.config.rootpath / "build" / "operator_session.txt"
        record.parent.mkdir(exist_ok=True)
        record.write_text(terminal.transcript)

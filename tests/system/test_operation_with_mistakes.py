"""An operation with changes of mind and mistakes: afterwards every broker's effective quotas are those from before.

plan --apply, set, set --for, a sidecar that is killed in the middle, a second move beside the first, a cancelled move,
verify --remove and the next plan, typed at a terminal between three real brokers, beside a standing quota. What holds
is asked of the brokers' own sidecars.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import trio

from operating.asking import ask
from operating.status.rows import decode
from tests.system.test_operator_session import (
    LEADER,
    PARTITIONS,
    operator,
    shared_quotas,
    squeezed,
    topic_of_two_replicas,
)

if TYPE_CHECKING:
    from pathlib import Path

    from lab.cluster.cluster import Cluster
    from tests.system.operator_terminal import Terminal

pytestmark = pytest.mark.brokers
KIB = 1 << 10
BYTES = 24 << 20
"""Of a partition. At 512 KiB/s, the rate of most of the operation, both take a minute and a half: the move is to go on
until it is cancelled, and each command starts a Python or a JVM."""
RATE = "leader.replication.throttled.rate"
STANDING = f"""# Ours.
[brokers.default]
{RATE} = "20MiB/s"
[topics.standing]
leader.replication.throttled.replicas = "*"
"""
BROKERS = (101, 102, 103)
PLAN = "throttle-sidecar plan move.json $asked --rate 256KiB/s --apply --fleet fleet.toml"


class Desk(NamedTuple):
    terminal: Terminal
    url: str
    home: Path

    def type(self, command: str, status: int) -> list[str]:
        lines = squeezed(self.terminal.type(command))
        found = self.terminal.exit_status()
        assert found == status, f"{command}: {found}\n" + "\n".join(lines)
        return lines

    def set(self, words: str, status: int = 0) -> list[str]:
        return self.type(f"throttle-sidecar set {words} --fleet fleet.toml", status)

    def type_what_was_said(self, lines: list[str], lead: str) -> None:
        """As a shell takes it from the screen."""
        (said,) = (line.removeprefix(lead) for line in lines if line.startswith(lead))
        (self.home / "said.sh").write_text(f"set -e\n{said}\n")
        self.type("sh said.sh", 0)

    def in_force(self) -> float | None:
        """Bytes per second, as the leader's own sidecar says; None: unlimited."""
        return decode(self.url, ask(self.url, "/throttle")).roles["leader"].quota_bytes_per_second


@pytest.mark.timeout(240)
def test_an_operation_with_its_mistakes(
    sidecar_cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    cluster, topic = sidecar_cluster, "operation"
    with (
        shared_quotas(cluster, tmp_path / "quotas.toml"),
        topic_of_two_replicas(cluster, topic, bytes_per_partition=BYTES),
        operator(cluster, tmp_path, topic) as terminal,
    ):
        for sidecar in cluster.sidecars.values():
            trio.run(sidecar.set_quotas, STANDING)
        desk = Desk(terminal, cluster.sidecars[LEADER].control_url, tmp_path)
        before = effective(cluster)
        try:
            a_plan_and_a_host_that_is_nowhere(desk)
            desk.type("kafka-reassign-partitions $kafka --execute > executed.txt", 0)
            an_incident_while_a_rate_is_set_for_a_time(desk)
            a_sidecar_that_is_killed(desk, cluster)
            a_second_move_beside_it(desk)
            what_cannot_be_verified(desk)
            desk.type("kafka-reassign-partitions $kafka --cancel > cancelled.txt", 0)
            lines = desk.type("throttle-sidecar verify move.json $asked --fleet fleet.toml --remove", 1)
            assert lines[-1] == "not done, and nothing is left behind"
            # It was planned twice, the first time while nothing was enforced.
            assert sum(line.startswith("removed: ") for line in lines) == 2 * len(BROKERS)
            desk.type("throttle-sidecar undo --label incident --fleet fleet.toml", 0)
            assert (files(cluster), effective(cluster)) == ({STANDING}, before)
            the_next_move_at_its_own_rate(desk)
            assert (files(cluster), effective(cluster)) == ({STANDING}, before)
            assert len(cluster.admin.describe(topic)) == PARTITIONS
        finally:
            record = request.config.rootpath / "build" / "operation_with_mistakes.txt"
            record.parent.mkdir(exist_ok=True)
            record.write_text(terminal.transcript)


def files(cluster: Cluster) -> set[str]:
    return {sidecar.quotas_file.read_text() for sidecar in cluster.sidecars.values()}


def effective(cluster: Cluster) -> dict[int, Any]:
    """What every sidecar holds to, by its own word."""
    return {
        broker: json.loads(ask(sidecar.control_url, "/config"))["effective_quotas"]
        for broker, sidecar in cluster.sidecars.items()
    }


def a_plan_and_a_host_that_is_nowhere(desk: Desk) -> None:
    lines = desk.type("throttle-sidecar plan move.json --bootstrap kafka-1o1.invalid:9092", 1)
    assert "does not resolve on this machine: kafka-1o1.invalid" in lines[0]
    # What was left switched off after a first look.
    lines = desk.set("mode.enforce false --for 30m")
    assert any("mode.enforce is false" in line for line in desk.type(PLAN, 0))
    desk.type_what_was_said(lines, "undo: ")
    lines = desk.type(PLAN, 0)
    assert lines[0].endswith("in about 3m12s")
    assert not [line for line in lines if line.startswith("warning: broker")]
    assert desk.in_force() == 256 * KIB


def an_incident_while_a_rate_is_set_for_a_time(desk: Desk) -> None:
    desk.set(f"{RATE} 512KiB/s --at 101 --for 1h --label incident")
    assert desk.in_force() == 512 * KIB
    lines = desk.set(f"{RATE} 64KiB/s --at 101 --reason 'p99 of orders'")
    assert desk.in_force() == 64 * KIB
    desk.type_what_was_said(lines, "undo: ")
    assert desk.in_force() == 512 * KIB
    # As kafka-configs takes it, misspelt.
    assert "did you mean leader.replication.throttled.rate?" in desk.set("leader.replication.throtled.rate=1", 1)[0]


def a_sidecar_that_is_killed(desk: Desk, cluster: Cluster) -> None:
    """What was acknowledged holds in the next process; while none runs, commands name it and go on with the others."""
    sidecar = cluster.sidecars[LEADER]
    trio.run(sidecar.kill)
    lines = desk.set(f"{RATE} 5MiB/s --label incident", 1)
    assert any(line.startswith("broker 101: ") and "no answer" in line for line in lines)
    trio.run(sidecar.start)
    assert desk.in_force() == 512 * KIB


def a_second_move_beside_it(desk: Desk) -> None:
    """Its label is its own: what it sets is taken away, and the first move's throttle is what it was."""
    held = desk.in_force()
    desk.type(f"{PLAN.replace('256', '128')} --label second", 0)
    assert desk.in_force() == 128 * KIB
    desk.type("throttle-sidecar undo --label second --fleet fleet.toml", 0)
    assert desk.in_force() == held


def what_cannot_be_verified(desk: Desk) -> None:
    verify = "throttle-sidecar verify move.json $asked"
    assert desk.type(f"{verify} --fleet fleet.toml", 1)[-1] == "not done: the throttle stays until it is"
    assert any("no answer from a sidecar" in line for line in desk.type(f"{verify} --url http://127.0.0.1:1", 1))
    assert "fleet-101.toml: cannot be read" in desk.type(f"{verify} --fleet fleet-101.toml", 4)[0]
    nowhere = "throttle-sidecar verify move.json --bootstrap kafka-1o1.invalid:9092"
    assert "does not resolve on this machine: kafka-1o1.invalid" in desk.type(nowhere, 3)[0]


def the_next_move_at_its_own_rate(desk: Desk) -> None:
    lines = desk.type(PLAN.replace("256KiB/s", "50MiB/s"), 0)
    assert not [line for line in lines if line.startswith("warning: broker")]
    assert desk.in_force() == 50 * KIB * KIB
    desk.type("kafka-reassign-partitions $kafka --execute > executed.txt", 0)
    lines = desk.type("throttle-sidecar verify move.json $asked --fleet fleet.toml --wait 40s --remove", 0)
    assert lines[-1] == "done, and nothing is left behind"

"""An operation with the mistakes that are made in one: what each command says of them, and with which exit status.

plan, set, set --for, an incident, a cancelled move, verify --remove and the next plan, typed at a terminal between
three real brokers. What holds is asked of the brokers' own sidecars, not read in the file. The table in
docs/operating.md is made from the transcript that this leaves in build/.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

from operating.commands.page import read
from tests.system.test_operator_session import (
    LEADER,
    OURS,
    PARTITIONS,
    operator,
    shared_quotas,
    squeezed,
    topic_of_two_replicas,
)

if TYPE_CHECKING:
    from pathlib import Path

    from lab.cluster import Cluster
    from tests.system.operator_terminal import Terminal

pytestmark = pytest.mark.brokers
KIB = 1 << 10
BYTES = 24 << 20
"""Of a partition. At 512 KiB/s, the rate of most of the operation, both take a minute and a half: the move is to go on
until it is cancelled, and each command starts a Python or a JVM."""
SEEN_SECONDS = 20.0
RATE = "leader.replication.throttled.rate"


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
        return self.type(f"throttle-sidecar set {words} --quotas quotas.toml --url {self.url}", status)

    def type_what_was_said(self, lines: list[str], lead: str) -> None:
        """As a shell takes it from the screen."""
        (said,) = (line.removeprefix(lead) for line in lines if line.startswith(lead))
        (self.home / "said.sh").write_text(f"set -e\n{said}\n")
        self.type("sh said.sh", 0)

    def until_in_force(self, bytes_per_second: float) -> None:
        deadline = time.monotonic() + SEEN_SECONDS
        while (found := self.in_force()) != bytes_per_second:
            assert time.monotonic() < deadline, f"expected {bytes_per_second} B/s in force, found {found}"
            time.sleep(0.1)

    def in_force(self) -> float | None:
        """Bytes per second, as the leader's own sidecar says; None: unlimited."""
        return read(self.url).roles["leader"].quota_bytes_per_second


@pytest.mark.timeout(240)
def test_an_operation_with_its_mistakes(
    sidecar_cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    cluster, topic = sidecar_cluster, "operation"
    quotas = tmp_path / "quotas.toml"
    with (
        shared_quotas(cluster, quotas),
        topic_of_two_replicas(cluster, topic, bytes_per_partition=BYTES),
        operator(cluster, tmp_path, topic) as terminal,
    ):
        desk = Desk(terminal, cluster.sidecars[LEADER].url, tmp_path)
        try:
            a_plan_and_a_host_that_is_nowhere(desk)
            desk.type("kafka-reassign-partitions $kafka --execute > executed.txt", 0)
            the_default_where_brokers_have_their_own(desk)
            an_incident_while_a_rate_is_set_for_a_time(desk)
            a_plan_that_another_section_holds(desk)
            what_cannot_be_verified(desk)
            desk.type("kafka-reassign-partitions $kafka --cancel > cancelled.txt", 0)
            # What was set for an hour is left as well, though its hour is not over.
            lines = desk.type("throttle-sidecar verify move.json $asked --quotas quotas.toml $urls --remove", 1)
            assert lines[-1] == "not done, and nothing is left behind"
            assert any(f"removed: quotas.toml: schedules[0].brokers.101.{RATE}" in line for line in lines)
            assert (quotas.read_text(), desk.in_force()) == (OURS, None)
            the_next_move_at_its_own_rate(desk)
            assert quotas.read_text() == OURS
            assert len(cluster.admin.describe(topic)) == PARTITIONS
        finally:
            record = request.config.rootpath / "build" / "operation_with_mistakes.txt"
            record.parent.mkdir(exist_ok=True)
            record.write_text(terminal.transcript)


def a_plan_and_a_host_that_is_nowhere(desk: Desk) -> None:
    lines = desk.type("throttle-sidecar plan move.json --bootstrap kafka-1o1.invalid:9092", 1)
    assert "does not resolve on this machine: kafka-1o1.invalid" in lines[0]
    # What was left switched off after a first look: no time is promised.
    plan = "throttle-sidecar plan move.json $asked --rate 256KiB/s --write quotas.toml"
    desk.set("mode.enforce false --for 30m")
    lines = desk.type(plan, 0)
    assert lines[0].endswith("over the network")
    assert any("mode.enforce is false until" in line for line in lines)
    desk.set("mode.enforce --end")
    lines = desk.type(plan, 0)
    assert lines[0].endswith("in about 3m12s")
    assert not [line for line in lines if "holds, not" in line]


def the_default_where_brokers_have_their_own(desk: Desk) -> None:
    lines = desk.set(f"{RATE} 1MiB/s", 1)
    assert f"brokers.default.{RATE}: nothing is changed: brokers.101 goes first on broker 101" in lines[0]
    assert desk.in_force() == 256 * KIB
    desk.type_what_was_said(lines, "this does it: ")
    assert desk.in_force() == 1024 * KIB
    desk.set(f"{RATE} 256KiB/s --broker default --broker 101 --broker 102")
    assert desk.in_force() == 256 * KIB
    desk.set(f"{RATE} --broker default --remove")


def an_incident_while_a_rate_is_set_for_a_time(desk: Desk) -> None:
    desk.set(f"{RATE} 512KiB/s --broker 101 --for 1h")
    assert desk.in_force() == 512 * KIB
    lines = desk.set(f"{RATE} 64KiB/s --broker 101")
    assert desk.in_force() == 64 * KIB
    assert "also schedules[0].brokers.101, which went first" in lines
    assert any(line.startswith(f"broker 101 ({desk.url}): in force: leader 64.00 KiB/s") for line in lines)
    desk.type_what_was_said(lines, "undo: ")
    assert desk.in_force() == 512 * KIB
    # As kafka-configs takes it, misspelt.
    assert "did you mean leader.replication.throttled.rate?" in desk.set("leader.replication.throtled.rate=1", 1)[0]


def a_plan_that_another_section_holds(desk: Desk) -> None:
    lines = desk.type("throttle-sidecar plan move.json $asked --rate 128KiB/s --write quotas.toml", 0)
    (warning,) = (line for line in lines if "holds, not" in line)
    assert "broker 101 as leader: 512.00 KiB/s (524288 B/s) holds, not 128.00 KiB/s (131072 B/s)" in warning
    assert f"throttle-sidecar set {RATE} --broker 101 --end --quotas quotas.toml ends it" in warning
    assert desk.in_force() == 512 * KIB


def what_cannot_be_verified(desk: Desk) -> None:
    verify = "throttle-sidecar verify move.json $asked --quotas quotas.toml"
    assert desk.type(verify, 1)[-1] == "not done: the throttle stays until it is"
    assert "no answer from a sidecar" in desk.type(f"{verify} --url http://127.0.0.1:1", 3)[0]
    assert "quotas-101.toml: cannot be read" in desk.type(f"{verify} --quotas quotas-101.toml", 4)[0]
    nowhere = "throttle-sidecar verify move.json --bootstrap kafka-1o1.invalid:9092"
    assert "does not resolve on this machine: kafka-1o1.invalid" in desk.type(nowhere, 3)[0]


def the_next_move_at_its_own_rate(desk: Desk) -> None:
    lines = desk.type("throttle-sidecar plan move.json $asked --rate 50MiB/s --write quotas.toml", 0)
    assert not [line for line in lines if line.startswith("warning: quotas.toml")]
    desk.until_in_force(50 * KIB * KIB)
    desk.type("kafka-reassign-partitions $kafka --execute > executed.txt", 0)
    lines = desk.type("throttle-sidecar verify move.json $asked --quotas quotas.toml $urls --wait 40s --remove", 0)
    assert lines[-1] == "done, and nothing is left behind"

"""An operation during which one broker and its sidecar are down throughout: nothing is called clean that nobody saw.

Beside a standing quota, and beside a second move with another label. Once the member is back, the same command that
was refused a clean result ends clean, and every broker holds to what it held before.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import trio

from tests.system.test_operation_with_mistakes import KIB, RATE, STANDING, Desk, effective, files
from tests.system.test_operator_session import LEADER, OLD, operator, shared_quotas, topic_of_two_replicas

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.cluster.cluster import Cluster

pytestmark = pytest.mark.brokers
BYTES = 4 << 20
APPLY = "throttle-sidecar plan move.json $asked --rate 10MiB/s --apply --fleet fleet.toml"
VERIFY = "throttle-sidecar verify move.json $asked --fleet fleet.toml"


@contextmanager
def down(cluster: Cluster, broker: int) -> Iterator[None]:
    trio.run(cluster.brokers[broker].kill)
    trio.run(cluster.sidecars[broker].kill)
    try:
        yield
    finally:
        trio.run(cluster.sidecars[broker].start)
        trio.run(cluster.brokers[broker].start)


@pytest.mark.timeout(240)
def test_with_one_member_down_throughout_nothing_is_called_clean(sidecar_cluster: Cluster, tmp_path: Path) -> None:
    cluster, topic = sidecar_cluster, "half"
    with (
        shared_quotas(cluster, tmp_path / "quotas.toml"),
        topic_of_two_replicas(cluster, topic, bytes_per_partition=BYTES),
        operator(cluster, tmp_path, topic) as terminal,
    ):
        for sidecar in cluster.sidecars.values():
            trio.run(sidecar.set_quotas, STANDING)
        desk = Desk(terminal, cluster.sidecars[LEADER].control_url, tmp_path)
        before = effective(cluster)
        # Known everywhere, so that it holds at the member that dies, too.
        assert not [line for line in desk.type(APPLY, 0) if "no answer" in line]
        with down(cluster, OLD):
            until_the_cluster_knows(cluster, topic)
            named(desk.type(APPLY.replace("10MiB", "5MiB"), 1))
            named(desk.type(f"{APPLY.replace('10MiB/s', '128KiB/s')} --label second", 1))
            named(desk.set(f"{RATE} 64KiB/s --label incident", 1))
            assert desk.in_force() == 64 * KIB
            desk.type("kafka-reassign-partitions $kafka --execute > executed.txt", 0)
            for label in ("incident", "second"):
                named(desk.type(f"throttle-sidecar undo --label {label} --fleet fleet.toml", 1))
            assert desk.in_force() == 5 << 20
            lines = desk.type(f"{VERIFY} --wait 60s --remove", 3)
            named(lines)
            assert not [line for line in lines if "nothing is left behind" in line or "clean" in line]
            assert desk.in_force() == 20 << 20
        lines = desk.type(f"{VERIFY} --remove", 0)
        assert lines[-1] == "done, and nothing is left behind"
        assert (files(cluster), effective(cluster)) == ({STANDING}, before)


def until_the_cluster_knows(cluster: Cluster, topic: str) -> None:
    """Its session lasts 6 s here, in which it counts as alive."""
    deadline = time.monotonic() + 30
    while any(OLD in state.in_sync for state in cluster.admin.describe(topic)):
        assert time.monotonic() < deadline
        time.sleep(0.5)


def named(lines: list[str]) -> None:
    assert [line for line in lines if f"broker {OLD}" in line and "no answer" in line], lines

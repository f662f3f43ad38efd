"""`plan` and `verify` against real brokers of 3.9 (KRaft, Fetch v17): are their times and their verdicts true?"""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
import trio

from lab.brokers.releases import release
from lab.cluster.cluster import start_cluster
from lab.cluster.plan import ClusterPlan
from lab.load.fill import fill
from lab.moves.native_quotas import throttle_natively
from lab.sidecars.sidecars import SidecarPlan, throttle_sidecar_script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lab.cluster.cluster import Cluster

pytestmark = pytest.mark.system
MIB = 1 << 20
PARTITIONS = 4
BYTES = 6 * MIB


@pytest.fixture(scope="module")
def kraft() -> Iterator[Cluster]:
    cluster = trio.run(start_cluster, ClusterPlan(release=release(protocol="3.9"), sidecars=SidecarPlan()))
    try:
        yield cluster
    finally:
        cluster.close()


class Desk:
    """A topic on 101 alone, a reassignment that adds 103, and the command line."""

    def __init__(self, cluster: Cluster, topic: str, home: Path) -> None:
        self.cluster, self.topic, self.home = cluster, topic, home
        self.target = {p: [101, 103] for p in range(PARTITIONS)}
        rows = [{"topic": topic, "partition": p, "replicas": found} for p, found in self.target.items()]
        self.move = home / "move.json"
        self.move.write_text(json.dumps({"version": 1, "partitions": rows}))
        cluster.admin.create_topic(topic, {p: [101] for p in range(PARTITIONS)})
        self.fill(BYTES)

    def fill(self, size_bytes: int) -> None:
        leaders = dict.fromkeys(range(PARTITIONS), self.cluster.addresses.direct(101))
        fill(self.topic, leaders, bytes_per_partition=size_bytes, shape=self.cluster.shape())

    def begin(self, command: str, *arguments: object) -> subprocess.Popen[str]:
        where = ["--bootstrap", "kafka-101:9092", "--hosts", str(self.cluster.admin.hosts)]
        line = [throttle_sidecar_script(), command, str(self.move), *where, *map(str, arguments), "--json"]
        return subprocess.Popen(line, stdout=subprocess.PIPE, text=True)

    def ask(self, command: str, *arguments: object) -> tuple[int, Any]:
        with self.begin(command, *arguments) as process:
            said, _ = process.communicate(timeout=90)
        return process.returncode, json.loads(said)


@pytest.fixture
def desk(kraft: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    made = Desk(kraft, request.node.name.replace("_", "-")[:40], tmp_path)
    yield made
    kraft.admin.delete_topic(made.topic)


@pytest.mark.timeout(120)
def test_a_plan_ends_when_it_says(desk: Desk, record: Callable[..., None]) -> None:
    """24 MiB within 12 s. It may end early: `within` has 5 % of slack."""
    urls = [word for each in desk.cluster.sidecars.values() for word in ("--url", each.control_url)]
    status, planned = desk.ask("plan", "--within", "12s", "--apply", *urls)
    assert status == 0
    assert planned["move_bytes"] == pytest.approx(PARTITIONS * BYTES, rel=0.01)
    began = time.monotonic()
    desk.cluster.admin.reassign(desk.topic, desk.target)
    status, verified = desk.ask("verify", *urls, "--wait", "40s", "--remove")
    took = time.monotonic() - began
    record("plan_verify", wanted_seconds=12, planned_seconds=planned["seconds"], took_seconds=took)
    assert (status, verified["done"], verified["clean"]) == (0, True, True)
    assert len(verified["removed"]) == 2
    # `verify` looks once a second, and a cluster needs a moment to take a replica in.
    assert 0.85 * 12 <= took <= 12 + 3


@pytest.mark.timeout(120)
def test_what_producers_write_is_measured(desk: Desk) -> None:
    """4 x 2 MiB come while the plan watches for 6 s."""
    with desk.begin("plan", "--rate", "50MiB/s", "--measure", "6s") as process:
        time.sleep(3)
        desk.fill(2 * MIB)
        said, _ = process.communicate(timeout=60)
    leader, follower = json.loads(said)["brokers"]
    expected = PARTITIONS * 2 * MIB / 6
    assert leader["written_bytes_per_second"] == pytest.approx(expected, rel=0.1)
    assert follower["written_bytes_per_second"] == leader["written_bytes_per_second"]
    # Nobody follows the topic yet, so nobody takes it in.
    assert follower["inflow_bytes_per_second"] < 0.1 * expected


@pytest.mark.timeout(120)
def test_the_brokers_own_throttle_is_found_and_taken_back(desk: Desk) -> None:
    """As `kafka-reassign-partitions --execute --throttle` leaves it behind if nobody runs its --verify."""
    admin = desk.cluster.admin
    lists = {"leader": "0:101,1:101", "follower": "0:103,1:103"}
    trio.run(
        lambda: throttle_natively(
            desk.cluster, desk.topic, lists=lists, rates={"leader": 50e6, "follower": 50e6}, brokers=(101, 103)
        )
    )
    admin.reassign(desk.topic, desk.target)
    status, found = desk.ask("verify", "--wait", "60s")
    assert (status, found["done"], found["clean"]) == (1, True, False)
    left = [(left["kind"], left["name"], left["key"].partition(".")[0]) for left in found["left_behind"]["cluster"]]
    assert sorted(left) == [
        ("broker", "101", "follower"), ("broker", "101", "leader"),
        ("broker", "103", "follower"), ("broker", "103", "leader"),
        ("topic", desk.topic, "follower"), ("topic", desk.topic, "leader"),
    ]  # fmt: skip
    status, found = desk.ask("verify", "--remove")
    assert (status, found["clean"], len(found["removed"])) == (0, True, 6)
    assert desk.ask("verify")[0] == 0

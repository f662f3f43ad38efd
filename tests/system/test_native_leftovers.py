"""What `verify --remove` takes of the brokers' own throttles, on real brokers of 3.9 without sidecars, throttled as
`kafka-reassign-partitions --throttle` does it: nothing while anything moves, nothing of others, nothing unseen."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest
import trio

from lab.brokers.releases import release
from lab.cluster import admin as keys
from lab.cluster.cluster import start_cluster
from lab.cluster.plan import ClusterPlan
from lab.load.fill import fill
from lab.moves.native_quotas import throttle_natively
from lab.sidecars.sidecars import throttle_sidecar_script
from lab.wire.identifiers import new_kafka_uuid
from operating.moves.cluster import Connection, connect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.cluster.cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(180)]
MIB = 1 << 20
DISKS = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture(scope="module")
def kraft() -> Iterator[Cluster]:
    cluster = trio.run(start_cluster, ClusterPlan(release=release(protocol="3.9"), taps=False))
    try:
        yield cluster
    finally:
        cluster.close()


class Desk:
    """A topic of two partitions on 101, and the command line."""

    def __init__(self, cluster: Cluster, topic: str, home: Path) -> None:
        self.cluster, self.topic, self.move = cluster, topic, home / "move.json"
        cluster.admin.create_topic(topic, {0: [101], 1: [101]})
        leaders = dict.fromkeys((0, 1), cluster.addresses.direct(101))
        fill(topic, leaders, bytes_per_partition=4 * MIB, shape=cluster.shape())

    def reassign(self, partition: int, replicas: list[int], directory: str | None = None) -> None:
        """Begin, and write it to the file that is verified."""
        row: dict[str, Any] = {"topic": self.topic, "partition": partition, "replicas": replicas}
        if directory is not None:
            row["log_dirs"] = [directory if broker == 103 else "any" for broker in replicas]
        self.move.write_text(json.dumps({"version": 1, "partitions": [row]}))
        self.cluster.admin.reassign(self.topic, {partition: replicas})

    def throttle(self, lists: dict[str, str], bytes_per_second: float) -> None:
        rates = dict.fromkeys(("leader", "follower"), bytes_per_second)
        trio.run(lambda: throttle_natively(self.cluster, self.topic, lists=lists, rates=rates, brokers=(101, 103)))

    def verify(self, *arguments: str) -> tuple[int, Any]:
        where = ["--bootstrap", "kafka-101:9092,kafka-102:9092", "--hosts", str(self.cluster.admin.hosts)]
        line = [throttle_sidecar_script(), "verify", str(self.move), *where, *arguments, "--json"]
        done = subprocess.run(line, stdout=subprocess.PIPE, text=True, timeout=90, check=False)
        return done.returncode, json.loads(done.stdout)


@pytest.fixture
def desk(kraft: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    made = Desk(kraft, request.node.name.replace("_", "-")[:40], tmp_path)
    yield made
    kraft.admin.delete_topic(made.topic)
    rates = (keys.LEADER_RATE, keys.FOLLOWER_RATE, DISKS)
    kraft.admin.set_broker_configs((101, 102, 103), dict.fromkeys(rates))


def left(found: Any) -> set[tuple[str, str]]:
    return {(each["name"], each["key"].partition(".")[0]) for each in found["left_behind"]["cluster"]}


def test_nothing_is_removed_while_another_partition_moves(desk: Desk) -> None:
    """Both partitions are throttled at once; the file names the one that is done. The other one's 4 MiB take 16 s at
    256 KiB/s, and took one as soon as somebody verified."""
    desk.reassign(0, [101, 103])
    desk.cluster.admin.wait_moved(desk.topic, [0], timeout_seconds=30)
    first = desk.move.read_text()
    desk.throttle({"leader": "0:101,1:101", "follower": "0:103,1:103"}, 256 * 1024)
    began = time.monotonic()
    desk.reassign(1, [101, 103])
    second = desk.move.read_text()
    desk.move.write_text(first)
    status, found = desk.verify("--remove")
    assert (status, found["done"], found["clean"], found["removed"]) == (1, True, False, [])
    assert found["waits_for"] == f"{desk.topic}-1 is still moving"
    # Rates by which partition 1 is throttled are not the first file's to take.
    assert left(found) == {(desk.topic, "leader"), (desk.topic, "follower"), ("101", "follower"), ("103", "leader")}
    desk.move.write_text(second)
    status, found = desk.verify("--wait", "60s", "--remove")
    assert time.monotonic() - began > 12
    # Its own entries, and the two rates by which partition 0 is not throttled.
    assert (status, len(found["removed"]), left(found)) == (0, 4, set())
    desk.move.write_text(first)
    status, found = desk.verify()
    assert left(found) == {(desk.topic, "leader"), (desk.topic, "follower"), ("101", "leader"), ("103", "follower")}
    status, found = desk.verify("--remove")
    assert (status, len(found["removed"]), found["clean"]) == (0, 4, True)


def test_a_broker_that_is_down_is_not_taken_for_clean(desk: Desk) -> None:
    desk.throttle({"leader": "0:101", "follower": "0:103"}, 50 * MIB)
    desk.reassign(0, [101, 103])
    desk.cluster.admin.wait_moved(desk.topic, [0], timeout_seconds=30)
    trio.run(desk.cluster.brokers[103].stop)
    status, found = desk.verify("--remove")
    assert (status, found["silent_brokers"], found["removed"]) == (1, [103], [])
    assert found["partitions"][0]["stage"] == "away"
    trio.run(desk.cluster.brokers[103].start)
    status, found = desk.verify("--wait", "30s", "--remove")
    assert (status, found["silent_brokers"], found["clean"], len(found["removed"])) == (0, [], True, 6)


def test_standing_throttles_stay(desk: Desk) -> None:
    desk.throttle({"leader": "*", "follower": "*"}, 20 * MIB)
    desk.reassign(0, [101, 103])
    status, found = desk.verify("--wait", "30s", "--remove")
    assert (status, found["removed"]) == (0, [])
    no_fleet, *stays = found["notes"]
    assert no_fleet.startswith("no sidecar was asked")
    assert len(stays) == 3


def test_a_copy_between_disks_keeps_its_throttle(desk: Desk) -> None:
    """4 MiB at 512 KiB/s to the second disk of 103."""
    admin, broker = desk.cluster.admin, desk.cluster.brokers[103]
    desk.reassign(0, [101, 103])
    admin.wait_moved(desk.topic, [0], timeout_seconds=30)
    second = str(broker.log_dir.with_name("data2"))
    trio.run(add_disk, desk.cluster, second)
    admin.wait_in_sync(desk.topic, timeout_seconds=30)
    admin.set_broker_configs([103], {DISKS: str(512 * 1024)})
    desk.reassign(0, [101, 103], second)
    status, found = desk.verify()
    assert (status, found["partitions"][0]["stage"]) == (1, "other_disk")
    began = time.monotonic()
    copy_to(desk, second)
    status, found = desk.verify("--remove")
    assert (status, found["partitions"][0]["stage"], found["removed"]) == (1, "on_disks", [])
    assert found["partitions"][0]["left_bytes"] > 0
    status, found = desk.verify("--wait", "60s", "--remove")
    assert (status, found["done"], found["clean"], len(found["removed"])) == (0, True, True, 1)
    assert time.monotonic() - began > 4


async def add_disk(cluster: Cluster, directory: str) -> None:
    """Restart 103 with a second log directory, formatted as kafka-storage does it."""
    broker = cluster.brokers[103]
    await broker.stop()
    home = broker.log_dir.parent
    lines = (home / "server.properties").read_text("ascii").splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    meta = (broker.log_dir / "meta.properties").read_text("ascii").splitlines()
    kept = [line for line in meta if not line.startswith(("#", "directory.id"))]
    path = home / "data2"
    path.mkdir()
    (path / "meta.properties").write_text("\n".join([*kept, f"directory.id={new_kafka_uuid()}", ""]), "ascii")
    broker.become({**properties, "log.dirs": f"{broker.log_dir},{directory}"}, jars=cluster.jars)
    await broker.start()


def copy_to(desk: Desk, directory: str) -> None:
    """Begin the copy on 103 that `log_dirs` of a reassignment ask for."""
    with connect(Connection(("kafka-103:9092",), hosts=desk.cluster.admin.hosts)) as cluster:
        answers = cluster._client.alter_replica_log_dirs({(desk.topic, 0, 103): directory})
    assert [error.__name__ for error in answers.values()] == ["NoError"]

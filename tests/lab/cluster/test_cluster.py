from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

import pytest
import trio

from lab.brokers.broker import Broker
from lab.brokers.releases import release
from lab.cluster.cluster import Cluster, start_cluster
from lab.cluster.plan import ClusterPlan
from lab.errors import LabError
from lab.host.addresses import Route
from lab.sidecars.sidecars import SidecarPlan
from lab.wire.records import Shape

if TYPE_CHECKING:
    from pathlib import Path


def made(home: Path, plan: ClusterPlan) -> Cluster:
    """Never started."""
    home.mkdir(exist_ok=True)
    return Cluster(plan, home=home, jars=home / "jars")


def properties(cluster: Cluster, broker: int) -> dict[str, str]:
    lines = (cluster.home / f"broker-{broker}" / "server.properties").read_text().splitlines()
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ("0.10.1", {"inter.broker.protocol.version": "0.10.1-IV2", "log.message.format.version": "0.10.1"}),
        ("2.4", {"inter.broker.protocol.version": "2.4", "log.message.format.version": "2.4", "broker.id": "102"}),
        ("3.9", {"node.id": "102", "process.roles": "broker"}),
    ],
)
def test_brokers_are_told_what_to_speak(tmp_path: Path, protocol: str, expected: dict[str, str]) -> None:
    found = properties(made(tmp_path, ClusterPlan(release=release(protocol=protocol))), 102)
    assert expected.items() <= found.items()
    assert found["listeners"] == "PLAINTEXT://kafka-102:9092"


def test_only_one_kind_of_metadata_keeper(tmp_path: Path) -> None:
    kraft = made(tmp_path / "kraft", ClusterPlan(release=release(protocol="3.9")))
    assert kraft.zookeeper is None
    assert not {"zookeeper.connect", "inter.broker.protocol.version"} & properties(kraft, 101).keys()
    zookeeper = made(tmp_path / "zookeeper", ClusterPlan())
    assert zookeeper.zookeeper is not None
    assert properties(zookeeper, 101)["zookeeper.connect"] == zookeeper.zookeeper.connect
    assert not {"process.roles", "controller.quorum.voters"} & properties(zookeeper, 101).keys()


def test_who_goes_around_reaches_leaders_directly(tmp_path: Path) -> None:
    plan = ClusterPlan(sidecars=SidecarPlan(), around=frozenset({101}))
    cluster = made(tmp_path, plan)
    hosts = {broker: (cluster.home / f"hosts-of-{broker}").read_text() for broker in plan.brokers}
    at = cluster.addresses
    assert f"{at.direct(102)} kafka-102\n" in hosts[101]
    assert f"{at.egress(103, 102)} kafka-102\n" in hosts[103]
    assert plan.route(follower=103, leader=102) == Route(egress=True, tap=True, ingress=True)


@pytest.mark.parametrize("protocol", ["1.1", "4.1"])
def test_overrides_have_the_last_word(tmp_path: Path, protocol: str) -> None:
    wanted = {"max.incremental.fetch.session.cache.slots": "1", "num.io.threads": "4"}
    plan = ClusterPlan(release=release(protocol=protocol), broker_overrides=wanted)
    cluster = made(tmp_path, plan)
    for broker in plan.brokers:
        assert wanted.items() <= properties(cluster, broker).items()


def test_records_are_made_as_the_logs_hold_them(tmp_path: Path) -> None:
    assert made(tmp_path / "old", ClusterPlan()).shape().message_format == "v1"
    new = made(tmp_path / "new", ClusterPlan(release=release(protocol="3.3")))
    assert new.shape(Shape(batch_records=3)) == Shape(batch_records=3, message_format="v2")


async def test_a_cluster_does_not_change_its_mode(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="zookeeper cluster cannot become kraft"):
        await made(tmp_path, ClusterPlan()).restart_as(101, release(protocol="3.9"))


def test_a_broker_can_become_another_while_it_is_down(tmp_path: Path) -> None:
    cluster = made(tmp_path, ClusterPlan())
    broker = cluster.brokers[102]
    assert isinstance(broker, Broker)
    before = broker.process
    broker.become({"broker.id": "102", "inter.broker.protocol.version": "2.4"}, jars=tmp_path / "others")
    assert properties(cluster, 102)["inter.broker.protocol.version"] == "2.4"
    assert broker.process in cluster.processes
    assert before not in cluster.processes


def test_topic_names_are_asked_for_once(tmp_path: Path) -> None:
    asked = []

    class FakeAdmin:
        def topic_names(self) -> dict[str, str]:
            asked.append(1)
            return {"id-1": "orders"}

    cluster = made(tmp_path, ClusterPlan(release=release(protocol="3.9")))
    cluster.__dict__["admin"] = FakeAdmin()
    assert [cluster.topic_name(name) for name in ("id-1", "id-2", "id-1", "id-2")] == ["orders", "id-2"] * 2
    assert len(asked) == 2


def test_of_a_cluster_that_cannot_be_made_no_folder_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it has run, so there are no logs to keep."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("lab.cluster.cluster.kafka_jars", lambda _: tmp_path / "jars")
    with pytest.raises(UnicodeEncodeError):
        trio.run(start_cluster, ClusterPlan(broker_overrides={"broker.rack": "é"}))
    assert list(tmp_path.iterdir()) == []


def test_a_plan_has_as_many_brokers_as_there_are_addresses() -> None:
    with pytest.raises(LabError, match="expected 1 to 9 distinct broker ids, found"):
        ClusterPlan(brokers=tuple(range(101, 111)))


def test_lines_since_a_mark_are_told_apart_by_broker(tmp_path: Path) -> None:
    """A new line of one broker must not be taken for an old one of another that comes after it."""
    cluster = made(tmp_path, ClusterPlan())
    old, new = "Non-monotonic update of 102", "invalid full fetch response in 101"
    write(cluster, 102, old, "Shrinking ISR, long ago")
    mark = cluster.log_mark()
    write(cluster, 101, new, "Shrinking ISR, just now")
    assert cluster.bad_log_lines(since=mark) == [new]
    assert cluster.shrinks(since=mark) == ["Shrinking ISR, just now"]
    assert cluster.bad_log_lines() == [new, old]
    assert cluster.bad_log_lines(since=cluster.log_mark()) == []


def write(cluster: Cluster, broker: int, *lines: str) -> None:
    with cluster.brokers[broker].log_file.open("a") as log:
        log.writelines(f"{line}\n" for line in lines)

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.cluster.cluster import Cluster
from lab.cluster.plan import ClusterPlan
from lab.errors import LabError
from lab.moves.move import Move, Side
from lab.moves.open_move import OpenMove, Outcome
from lab.sidecars.sidecars import UNLIMITED, SidecarPlan

if TYPE_CHECKING:
    from pathlib import Path


def made(home: Path, move: Move, plan: ClusterPlan | None = None) -> OpenMove:
    """A move on a cluster that was never started."""
    cluster = Cluster(plan or ClusterPlan(sidecars=SidecarPlan()), home=home, jars=home)
    if cluster.taps:
        cluster.taps.samples_file.write_text('{"t":1.0,"kind":"listening"}\n')
    return OpenMove(cluster, move)


@pytest.mark.parametrize(
    ("side", "throttling", "roles"),
    [
        ("leader", (101,), ["leader"]),
        ("follower", (102, 103), ["follower"]),
        ("both", (101, 102, 103), ["leader", "follower"]),
    ],
)
def test_quotas_name_the_brokers_that_throttle(
    tmp_path: Path, side: Side, throttling: tuple[int, ...], roles: list[str]
) -> None:
    move = made(tmp_path, Move("sidecar strict", side, followers=(102, 103), partitions=1))
    assert move.throttling == throttling
    replicas = ",".join(f"0:{broker}" for broker in throttling)
    text = move.quotas(1000)
    for role in roles:
        assert f"{role}.replication.throttled.rate = 1000\n" in text
        assert f'{role}.replication.throttled.replicas = "{replicas}"\n' in text
    assert text.count(".rate") == len(roles)
    assert move.quotas(None) == UNLIMITED


def test_what_moved_is_told_apart_by_time_and_by_either_end(tmp_path: Path) -> None:
    move = made(tmp_path, Move("sidecar strict"))
    line = (
        '{{"t":{},"kind":"response","leader":101,"follower":{},"version":3,"bytes":9,"partitions":[["{}",0,{}]],'
        '"error":0,"session":0}}\n'
    )
    with (tmp_path / "tap.jsonl").open("a") as file:
        file.write(line.format(2.0, 102, move.topic, 10))
        file.write(line.format(3.0, 103, move.topic, 20))
        file.write(line.format(3.5, 103, "other", 40))
    assert move.moved() == [(2.0, 10), (3.0, 20)]
    assert move.moved(3.0) == [(3.0, 20)]
    assert move.moved(0.0, 3.0) == [(2.0, 10)]
    assert move.moved(follower=103, leader=101) == [(3.0, 20)]
    assert move.moved(leader=102) == []


@pytest.mark.parametrize(
    ("move", "plan"),
    [
        (Move("native cold"), ClusterPlan(sidecars=SidecarPlan())),
        (Move("sidecar strict"), ClusterPlan(sidecars=SidecarPlan(), taps=False)),
    ],
)
def test_what_cannot_be_watched_is_refused(tmp_path: Path, move: Move, plan: ClusterPlan) -> None:
    with pytest.raises(LabError, match="taps"):
        made(tmp_path, move, plan)


def test_nothing_compared_is_not_equal() -> None:
    assert not Outcome([], []).equal

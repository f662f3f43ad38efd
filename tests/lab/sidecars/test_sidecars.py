from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, cast

import pytest
import trio

from lab.errors import LabError
from lab.host.addresses import Addresses
from lab.sidecars.sidecars import UNLIMITED, Sidecar, SidecarPlan, quotas_toml, restarted_by
from proxy.config.settings import Address, load_settings
from proxy.quota_files.quota_file import load_quotas_file

if TYPE_CHECKING:
    from pathlib import Path

PLAN = Addresses("127.31.7", (101, 102))


def sidecar(home: Path, plan: SidecarPlan) -> Sidecar:
    return Sidecar(102, plan, PLAN, upstreams={101: PLAN.tap(101)}, home=home / "sidecar")


@pytest.mark.parametrize(
    ("plan", "tables"),
    [
        (SidecarPlan(), {"ingress", "egress"}),
        (SidecarPlan(leader=frozenset()), {"egress"}),
        (SidecarPlan(follower=frozenset({101})), {"ingress"}),
        (SidecarPlan(policy="kip73", settings={"limits": 'drain = "1s"', "log": 'level = "debug"'}),
         {"ingress", "egress", "limits"}),
    ],
)  # fmt: skip
def test_its_files_are_what_the_sidecar_reads(tmp_path: Path, plan: SidecarPlan, tables: set[str]) -> None:
    sidecar(tmp_path, plan)
    path = tmp_path / "sidecar" / "proxy.toml"
    load_settings(path)
    load_quotas_file(path.with_name("quotas.toml"))
    found = tomllib.loads(path.read_text())
    assert set(found) == {"broker", "quotas", "http", "log"} | tables
    assert found["quotas"]["policy"] == plan.policy
    if "egress" in tables:
        peer = {"broker": 101, "listen": f"{PLAN.egress(102, 101)}:9092", "upstream": f"{PLAN.tap(101)}:9092"}
        assert found["egress"]["peers"] == [peer]


def test_a_transparent_egress_has_no_listener_per_peer(tmp_path: Path) -> None:
    sidecar(tmp_path, SidecarPlan(transparent=True))
    egress = load_settings(tmp_path / "sidecar" / "proxy.toml").egress
    assert egress is not None
    assert egress.listen == Address("::", 15001)
    assert [(peer.broker, peer.listen, peer.upstream) for peer in egress.peers] == [
        (101, None, Address(PLAN.tap(101), 9092))
    ]


def test_brokers_without_a_role_have_no_sidecar() -> None:
    plan = SidecarPlan(leader=frozenset({101}), follower=frozenset({103}))
    assert plan.beside([101, 102, 103]) == [101, 103]


def test_quotas_name_partitions_and_brokers(tmp_path: Path) -> None:
    text = quotas_toml({"leader": 4e6, "follower": 1.5}, "a.b", [0, 1], [101])
    path = tmp_path / "quotas.toml"
    path.write_text(text)
    load_quotas_file(path)
    found = tomllib.loads(text)
    assert found["brokers"]["default"]["leader"]["replication"]["throttled"]["rate"] == 4_000_000
    assert found["topics"]["a.b"]["follower"]["replication"]["throttled"]["replicas"] == "0:101,1:101"


def test_quotas_are_replaced_at_once(tmp_path: Path) -> None:
    made = sidecar(tmp_path, SidecarPlan(quotas=UNLIMITED))
    path = tmp_path / "sidecar" / "quotas.toml"
    before = path.stat().st_ino
    made.write_quotas("# other\n")
    assert path.read_text() == "# other\n"
    assert path.stat().st_ino != before
    assert [file.name for file in path.parent.glob("quotas*")] == ["quotas.toml"]


def test_a_sidecar_that_does_not_run_is_not_ready(tmp_path: Path) -> None:
    assert not sidecar(tmp_path, SidecarPlan()).ready()


class Told:
    """Takes notes of what a sidecar is told."""

    def __init__(self, *, starts: bool = True) -> None:
        self.done: list[str] = []
        self._starts = starts

    def run_by(self, *command: str) -> None:
        self.done.append(" ".join(["run by", *command]))

    async def kill(self) -> None:
        await trio.lowlevel.checkpoint()
        self.done.append("killed")

    async def start(self) -> None:
        await trio.lowlevel.checkpoint()
        starts, self._starts = self._starts, True
        if not starts:
            raise LabError("it did not start")
        self.done.append("started")


BEGUN, UNDONE = ["killed", "run by env HOUR=1", "started"], ["killed", "run by", "started"]


async def test_a_sidecar_is_run_by_another_for_the_length_of_a_block() -> None:
    told = Told()
    async with restarted_by(cast("Sidecar", told), "env", "HOUR=1"):
        assert told.done == BEGUN
    assert told.done == BEGUN + UNDONE


async def test_that_is_undone_if_the_block_fails_or_is_cancelled() -> None:
    failed, cancelled = Told(), Told()
    with pytest.raises(LabError, match="not what was expected"):
        async with restarted_by(cast("Sidecar", failed), "env", "HOUR=1"):
            raise LabError("not what was expected")
    with trio.CancelScope() as scope:
        async with restarted_by(cast("Sidecar", cancelled), "env", "HOUR=1"):
            scope.cancel()
            await trio.sleep_forever()
    assert (failed.done, cancelled.done) == (BEGUN + UNDONE, BEGUN + UNDONE)


async def test_that_is_undone_if_it_does_not_start() -> None:
    told = Told(starts=False)
    with pytest.raises(LabError, match="it did not start"):
        async with restarted_by(cast("Sidecar", told), "env", "HOUR=1"):
            pytest.fail("it was taken for started")
    assert told.done == BEGUN[:2] + UNDONE

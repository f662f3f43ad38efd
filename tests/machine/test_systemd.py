"""The .deb where systemd is the first process: installed, between real brokers, upgraded in a move, hung, purged.

`make machines`. Each broker has a network namespace of its own; that of the follower is the booted system's, too, whose
redirect unit leads what the broker dials through the package's sidecar.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from lab.cluster.cluster import start_cluster
from lab.cluster.plan import ClusterPlan
from lab.host.namespaces import open_rooms
from lab.moves.move import MIB, Move
from lab.moves.open_move import OpenMove, open_move
from lab.sidecars.sidecars import SidecarPlan
from tests.deploy.containers import Containers
from tests.deploy.systems import BARE
from tests.deploy.test_packages import build
from tests.deploy.test_units import MAX_EXPOSED

from .booted import Booted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.cluster.cluster import Cluster

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

LEADER, FOLLOWER = 101, 102
UNIT = "kafka-throttle-sidecar"
DROP_IN = f"/etc/systemd/system/{UNIT}.service.d"
QUOTA = 2 * MIB
MOVE = Move("sidecar strict", "follower", QUOTA, partitions=4, bytes_per_partition=20 * MIB)
TAKES_SECONDS = 25.0
"""A watchdog of 15 s, and a start."""

# What apt, dpkg, useradd, systemd and the like note for themselves is theirs.
_NOT_LISTED = " -o ".join(f"-path {path}" for path in ("/proc", "/sys", "/run", "/tmp", "/packages", "/seen"))
_THEIRS = "var/(lib/(dpkg|apt|systemd)|log|cache|backups)|etc/((passwd|group|shadow|gshadow|sub.id)-?$|.pwd.lock)"
LIST = rf"find / -xdev \( {_NOT_LISTED} \) -prune -o -print | grep -Ev '^/({_THEIRS})' | sort"
INSTALL = f"""
{LIST} > /tmp/before
apt-get install -y /packages/first/*.deb
mkdir -p {DROP_IN}
printf '[Service]\\nEnvironment=THROTTLE_QUOTAS__FILE=/seen/quotas.toml\\n' > {DROP_IN}/own.conf
cp /seen/proxy.toml /etc/kafka-throttle-sidecar/
throttle-sidecar check --config /etc/kafka-throttle-sidecar/proxy.toml --quotas /seen/quotas.toml
systemctl daemon-reload
systemctl enable --now kafka-throttle-redirect {UNIT}
"""
PURGE = f"""
apt-get purge -y {UNIT}
rm -r {DROP_IN}
systemctl daemon-reload
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package in `first`, and one of a later version in `next`."""
    folder = tmp_path_factory.mktemp("packages")
    build(folder / "first")
    (folder / "next").mkdir()
    (first,) = (folder / "first").glob("*.deb")
    tree = folder / "tree"
    subprocess.run(["dpkg-deb", "--raw-extract", first, tree], check=True)
    control = tree / "DEBIAN" / "control"
    control.write_text(re.sub("(?m)^Version: (.*)$", r"Version: \1+next", control.read_text()))
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, folder / "next" / "next.deb"], check=True)
    shutil.rmtree(tree)
    return folder


@pytest.fixture(params=BARE)
def booted(request: pytest.FixtureRequest) -> Iterator[Booted]:
    made = Booted(Containers(), request.param, "kts-booted")
    made.make_image()
    yield made
    made.close()


async def test_its_life_between_real_brokers(booted: Booted, packages: Path) -> None:
    with open_rooms((LEADER, FOLLOWER)) as rooms:

        def program(broker: int, home: Path) -> list[str]:
            booted.boot(f"ns:{rooms.path(broker)}", [(home, "/seen"), (packages, "/packages")])
            booted.run(INSTALL)
            # What the lab starts tells what the unit logs; the unit's own process is systemd's child.
            return booted.command("journalctl", "--follow", "--lines=all", "--output=cat", f"--unit={UNIT}", "--")

        sidecars = SidecarPlan(leader=frozenset(), follower=frozenset({FOLLOWER}), program=program, transparent=True)
        cluster = await start_cluster(ClusterPlan(brokers=(LEADER, FOLLOWER), rooms=rooms, sidecars=sidecars))
        try:
            async with open_move(cluster, MOVE) as move:
                await live(move, cluster, booted)
            await trio.to_thread.run_sync(partial(a_hang_is_ended, booted))
        finally:
            cluster.close()
        await trio.to_thread.run_sync(partial(nothing_is_left, booted))


async def live(move: OpenMove, cluster: Cluster, booted: Booted) -> None:
    """Hardened while it throttles; upgraded and reloaded in the middle, after which the same quota holds."""
    await move.wait_moved_bytes(4 * MIB)
    await trio.to_thread.run_sync(partial(as_the_unit_says, booted))
    before = await trio.to_thread.run_sync(partial(main_pid, booted))
    await trio.to_thread.run_sync(booted.run, "apt-get install -y /packages/next/*.deb")
    upgraded = time.monotonic()
    assert await trio.to_thread.run_sync(partial(main_pid, booted)) != before
    said = await trio.to_thread.run_sync(booted.run, f"journalctl --no-pager --unit={UNIT}")
    assert "handover_started" in said, "it was restarted"
    await trio.to_thread.run_sync(booted.run, f"systemctl reload {UNIT}")
    outcome = await move.finish(timeout_seconds=120)
    assert outcome.equal, outcome.comparisons
    assert outcome.lines == []
    throttled = cluster.sidecars[FOLLOWER].throttle()["roles"]["follower"]["throttled_bytes_total"]
    later = sum(each.size_bytes for each in move.moved(upgraded))
    assert later >= 8 * MIB, "the upgrade took as long as the move"
    assert sum(throttled.values()) >= 0.95 * later
    assert max(each_second(move)) <= 1.3 * QUOTA, each_second(move)
    figures = f"worst second {max(each_second(move)) / QUOTA:.2f}, mean after the upgrade"
    print(f"{figures} {later / (move.moved()[-1].t - upgraded) / QUOTA:.2f} of the quota")  # noqa: T201 - shown by -rP


def each_second(move: OpenMove) -> list[int]:
    """The bytes of each second from the move's beginning on."""
    seconds = range(int(time.monotonic() - move.started))
    return [sum(e.size_bytes for e in move.moved(move.started + at, move.started + at + 1)) for at in seconds]


def as_the_unit_says(booted: Booted) -> None:
    """As systemd and the kernel see it."""
    assert booted.ask("systemctl is-system-running") == "running", booted.ask("systemctl --failed")
    said = booted.run(f"LANG=C.UTF-8 systemd-analyze security --no-pager {UNIT}")
    found = re.search(r"exposure level for \S+: ([0-9.]+)", said)
    assert found is not None, said
    assert float(found[1]) <= MAX_EXPOSED
    status = dict(
        line.split(":\t", 1)
        for line in booted.run(f"cat /proc/{main_pid(booted)}/status").splitlines()
        if ":\t" in line
    )
    assert {status[capabilities] for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert status["Uid"].split() == [booted.run("id -u kafka-throttle")] * 4
    # The last good quotas and the history are kept where the unit may write.
    kept = booted.run("ls -A /var/lib/kafka-throttle-sidecar").split()
    assert kept == [f"conditions-{FOLLOWER}.jsonl", f"history-{FOLLOWER}.jsonl", "quotas.toml.last-good"]
    assert "quotas_save_failed" not in booted.run(f"journalctl --no-pager --unit={UNIT}")
    print(f"{booted.image}: {booted.run('systemctl --version | head -n 1')}: exposed {found[1]}")  # noqa: T201


def a_hang_is_ended(booted: Booted) -> None:
    """A process that says nothing for WatchdogSec is ended, and another started."""
    hung = main_pid(booted)
    booted.run(f"kill -STOP {hung}")
    deadline = time.monotonic() + TAKES_SECONDS
    while booted.ask(f"systemctl is-active {UNIT}") != "active" or main_pid(booted) in (hung, "0"):
        assert time.monotonic() < deadline, booted.ask(f"systemctl status {UNIT}")
        time.sleep(0.5)
    assert "Watchdog timeout" in booted.run(f"journalctl --no-pager --unit={UNIT}")


def nothing_is_left(booted: Booted) -> None:
    assert "THROTTLE_SIDECAR" in booted.run("iptables -t nat -S; ip6tables -t nat -S")
    booted.run(PURGE)
    assert booted.ask(f"{LIST} | diff /tmp/before -") == ""
    assert booted.ask("systemctl list-unit-files --no-legend 'kafka-throttle*'") == ""
    assert booted.ask("grep -l 'kafka-throttle-sidecar/[s]tart.py' /proc/[0-9]*/cmdline") == ""
    assert booted.ask("getent passwd kafka-throttle; getent group kafka-throttle") == ""
    assert "THROTTLE_SIDECAR" not in booted.run("iptables -t nat -S; ip6tables -t nat -S")


def main_pid(booted: Booted) -> str:
    return booted.run(f"systemctl show --property=MainPID --value {UNIT}")

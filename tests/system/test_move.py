"""``move`` on real brokers of 4.1 (KRaft, Fetch v18), killed itself, its sidecars or its brokers at drawn moments.

Whatever was killed: it goes on by its label from a folder without its file, and afterwards `verify` finds nothing, the
sidecars have no override, the cluster no throttle, and the replicas are where they were to be.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from lab.brokers.releases import release
from lab.cluster.cluster import start_cluster
from lab.cluster.plan import ClusterPlan
from lab.load.fill import fill
from lab.sidecars.sidecars import SidecarPlan, throttle_sidecar_script
from operating.asking import ask
from operating.moves.options import connected
from tests.system.operator_terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.cluster.cluster import Cluster

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.system, pytest.mark.timeout(420)]
MIB = 1 << 20
LEADER, OLD, NEW = 101, 102, 103
PARTITIONS, BYTES = 3, 6 * MIB
RATE = "2MiB/s"
"""18 MiB in nine seconds."""
LONGEST_SECONDS = 14.0
"""The last moment of a death, from the start of a command; Python takes one to three seconds of these to start."""


@pytest.fixture(scope="module")
def modern() -> Iterator[Cluster]:
    cluster = trio.run(start_cluster, ClusterPlan(release=release(protocol="4.1"), sidecars=SidecarPlan()))
    try:
        yield cluster
    finally:
        cluster.close()


class Desk:
    """A topic on 101 and 102, its move to 101 and 103 in a file, and the command line."""

    def __init__(self, cluster: Cluster, topic: str, home: Path) -> None:
        self.cluster, self.topic, self.home = cluster, topic, home
        self.elsewhere = home / "another-machine"
        self.elsewhere.mkdir()
        rows = [{"topic": topic, "partition": p, "replicas": [LEADER, NEW]} for p in range(PARTITIONS)]
        self.file = home / "move.json"
        self.file.write_text(json.dumps({"version": 1, "partitions": rows}))
        self.fleet = home / "fleet.toml"
        self.fleet.write_text(
            "".join(
                f'[[sidecars]]\nbroker = {broker}\nurl = "{sidecar.control_url}"\n'
                for broker, sidecar in cluster.sidecars.items()
            )
        )
        cluster.admin.create_topic(topic, {p: [LEADER, OLD] for p in range(PARTITIONS)})
        leaders = dict.fromkeys(range(PARTITIONS), cluster.addresses.direct(LEADER))
        fill(topic, leaders, bytes_per_partition=BYTES, shape=cluster.shape())
        cluster.admin.wait_in_sync(topic, timeout_seconds=60)

    @property
    def where(self) -> list[str]:
        servers = ",".join(f"{self.cluster.addresses.name(broker)}:9092" for broker in (LEADER, OLD, NEW))
        return ["--bootstrap", servers, "--hosts", str(self.cluster.admin.hosts), "--fleet", str(self.fleet)]

    def begin(self, *arguments: object) -> subprocess.Popen[str]:
        line = [throttle_sidecar_script(), *map(str, arguments), *self.where]
        return subprocess.Popen(
            line, cwd=self.elsewhere, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip

    def run(self, *arguments: object) -> tuple[int, str]:
        with self.begin(*arguments) as process:
            output, _ = process.communicate(timeout=150)
        return process.returncode, output

    def overrides(self) -> list[Any]:
        sidecars = self.cluster.sidecars.values()
        return [each for one in sidecars for each in json.loads(ask(one.control_url, "/overrides"))["overrides"]]

    def replicas(self) -> list[set[int]]:
        return [set(state.replicas) for state in self.cluster.admin.describe(self.topic)]

    def throttles(self) -> object:
        bootstrap, hosts = self.where[1], self.cluster.admin.hosts
        with connected((bootstrap,), None, hosts) as cluster:
            return cluster.throttles([self.topic], [LEADER, OLD, NEW])

    def repair(self) -> None:
        """Start again what was killed."""
        for broker, sidecar in self.cluster.sidecars.items():
            if not sidecar.process.running:
                trio.run(sidecar.start)
            if not self.cluster.brokers[broker].process.running:
                trio.run(self.cluster.brokers[broker].start)

    def until_done(self) -> list[str]:
        """Go on with it, as its own words say, until it is done; return what was printed."""
        told = []
        for _ in range(4):
            labels = {each["label"] for each in self.overrides()}
            arguments = ("--resume", *labels) if labels else (self.file, "--rate", RATE)
            status, output = self.run("move", *arguments, "--yes")
            told.append(f"{arguments}: {status}\n{output}")
            if status == 0:
                return told
        raise AssertionError("\n".join(told))


@pytest.fixture
def desk(modern: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Desk]:
    made = Desk(modern, "".join(c if c.isalnum() else "-" for c in request.node.name)[:60], tmp_path)
    try:
        yield made
    finally:
        made.repair()
        modern.admin.delete_topic(made.topic)


def kill_itself(_: Desk, process: subprocess.Popen[str], __: random.Random) -> None:
    process.kill()


def kill_a_sidecar(desk: Desk, _: subprocess.Popen[str], draw: random.Random) -> None:
    sidecar = desk.cluster.sidecars[draw.choice((LEADER, OLD, NEW))]
    trio.run(sidecar.kill)
    time.sleep(draw.uniform(0.0, 4.0))
    trio.run(sidecar.start)


def kill_a_broker(desk: Desk, _: subprocess.Popen[str], draw: random.Random) -> None:
    broker = desk.cluster.brokers[draw.choice((LEADER, OLD, NEW))]
    trio.run(broker.kill)
    time.sleep(draw.uniform(0.0, 4.0))
    trio.run(broker.start)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kill", [kill_itself, kill_a_sidecar, kill_a_broker])
def test_whatever_dies_at_whatever_moment_it_goes_on_and_nothing_is_left(
    desk: Desk, kill: Callable[[Desk, subprocess.Popen[str], random.Random], None], seed: int,
    record: Callable[..., None],
) -> None:  # fmt: skip
    draw = random.Random(f"{kill.__name__} {seed}")
    moment = draw.uniform(0.0, LONGEST_SECONDS)
    with desk.begin("move", desk.file, "--rate", RATE, "--yes") as process:
        time.sleep(moment)
        kill(desk, process, draw)
        output, _ = process.communicate(timeout=150)
    status, labels = process.returncode, [each["label"] for each in desk.overrides()]
    # What it says of itself is so.
    if status == 0:
        assert (labels, desk.replicas()) == ([], [{LEADER, NEW}] * PARTITIONS), output
    told = desk.until_done()
    record("move_killed", kill=kill.__name__, seed=seed, moment=moment, status=status, left=len(labels))
    said = "\n".join([output, *told])
    assert desk.replicas() == [{LEADER, NEW}] * PARTITIONS, said
    assert (desk.overrides(), desk.throttles()) == ([], []), said
    status, output = desk.run("verify", desk.file)
    assert (status, output.splitlines()[-1]) == (0, "done, and nothing is left behind"), said


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_whatever_moment_it_is_taken_back(desk: Desk, seed: int) -> None:
    draw = random.Random(f"cancel {seed}")
    with desk.begin("move", desk.file, "--rate", RATE, "--yes") as process:
        time.sleep(draw.uniform(0.0, LONGEST_SECONDS - 5.0))
        process.kill()
    labels = {each["label"] for each in desk.overrides()}
    if labels:
        status, output = desk.run("move", "--cancel", *labels, "--yes")
        assert status == 0, output
        assert output.splitlines()[-1].endswith(": taken back, and nothing of its throttle is left"), output
    assert (desk.overrides(), desk.throttles(), desk.cluster.admin.moving(desk.topic, range(PARTITIONS))) == (
        [],
        [],
        [],
    )
    assert all(found in ({LEADER, OLD}, {LEADER, NEW}) for found in desk.replicas())


def documented() -> list[str]:
    """The commands of docs/move.md, in order: with a rate, within a time, going on, with another rate, back."""
    page = (ROOT / "docs/move.md").read_text("utf-8").partition("## In one command")[2].partition("\n## ")[0]
    return re.findall(r"^    (throttle-sidecar move .+)$", page, re.MULTILINE)


def test_a_newcomer_with_the_page_alone_does_it_leaves_it_and_comes_back(desk: Desk) -> None:
    begin, within, resume, faster, cancel = documented()
    asks = r"Throttle and start this move, as move-[0-9a-f]{6}\? \[y/N\]"
    hosts = f"--hosts {desk.cluster.admin.hosts}"  # as the page says of names that do not resolve
    with Terminal(desk.home, {}) as terminal:
        assert "--yes agrees to all of it" in terminal.type(f"{begin} {hosts} < /dev/null")
        assert terminal.exit_status() == 2
        seen = terminal.watch(f"{begin} {hosts}".replace("50MiB/s", "512KiB/s"), rf"{NEW}  +follower.*iB/s", asks=asks)
        assert "this command ends, the move goes on: " in seen
        assert terminal.exit_status() == 1
        (label,) = re.findall(r"--resume (move-\w+)", seen)
        (again,) = [line.partition(": ")[2].strip() for line in seen.splitlines() if line.startswith("go on with it: ")]
        assert again == f"{resume} {hosts}".replace("move-5d1c70", label).replace(
            f" --fleet fleet.toml {hosts}", f" {hosts} --fleet fleet.toml"
        )
        terminal.watch(again, rf"{NEW}  +follower.*iB/s")
        terminal.type(
            f"{cancel} {hosts}".replace("move-5d1c70", label), asks=r"Cancel the reassignment of .*\? \[y/N\]"
        )
        assert (terminal.exit_status(), desk.overrides()) == (0, [])
        assert desk.replicas() == [{LEADER, OLD}] * PARTITIONS
        terminal.watch(f"{within} {hosts}".replace("60s", "2s"), rf"{NEW}  +follower.*iB/s", asks=asks)
        seen = terminal.type(
            f"{faster} {hosts}".replace("move-5d1c70", label), asks=r"Throttle it at brokers .*\? \[y/N\]"
        )
        assert "done, and nothing is left behind" in seen
        assert terminal.exit_status() == 0
    assert desk.replicas() == [{LEADER, NEW}] * PARTITIONS

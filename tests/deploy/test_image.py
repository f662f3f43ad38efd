"""The image as an operator runs it: really built, really run, with real brokers' replication through it.

`make image`; needs root, buildah, podman, runc and debootstrap, and a Debian mirror the first time.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import trio

from lab.cluster import Cluster, ClusterPlan, start_cluster
from lab.moves import MIB, Move
from lab.open_move import open_move
from lab.rooms import open_rooms
from lab.sidecars import SidecarPlan

from .containers import BASE_IMAGE, GRACE_SECONDS, IMAGE, REDIRECT_IMAGE, Containers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.rooms import Rooms

pytestmark = [pytest.mark.image, pytest.mark.timeout(900)]

BROKERS = (101, 102)
QUOTA = 4 * MIB
MOVE = Move("sidecar strict", "both", QUOTA, partitions=4, bytes_per_partition=6 * MIB)
MOST_BYTES_OVER_BASE = 150 * MIB
STOP_SECONDS = 5.0
"""A drain ends as soon as nothing is in flight: a fetch at most (500 ms), and HTTP's second."""
TRANSPARENT = "transparent"
BUILD_TOOLS = r".*/(uv|uvx|pip[0-9.]*|setuptools|wheel|hatchling|.*\.whl)"
WRITE = """
import errno, sys
try:
    open(sys.argv[1], "w")
except OSError as error:
    print(errno.errorcode[error.errno])
"""


@pytest.fixture(scope="module")
def containers() -> Containers:
    made = Containers()
    made.build()
    return made


class Deployed(NamedTuple):
    cluster: Cluster
    name: str
    """Of the follower's container."""


@pytest.fixture(scope="module", params=["peers", TRANSPARENT])
def deployed(containers: Containers, request: pytest.FixtureRequest) -> Iterator[Deployed]:
    """Two real brokers; their sidecars are containers, on the host's network or each in its broker's namespace."""
    with open_rooms(BROKERS) as rooms:
        yield from _deployed(containers, rooms if request.param == TRANSPARENT else None)


def _deployed(containers: Containers, rooms: Rooms | None) -> Iterator[Deployed]:
    names = {broker: f"kts-{broker}-{'peers' if rooms is None else TRANSPARENT}" for broker in BROKERS}

    def network(broker: int) -> str:
        return "--network=host" if rooms is None else f"--network=ns:{rooms.path(broker)}"

    def program(broker: int, home: Path) -> list[str]:
        return containers.program(names[broker], home, network(broker))

    if rooms is not None:
        for broker in BROKERS:
            init = ("--rm", "--pull=never", network(broker), "--read-only", "--cap-drop=ALL", "--cap-add=NET_ADMIN")
            containers.podman("run", *init, REDIRECT_IMAGE)
    sidecars = SidecarPlan(program=program, transparent=rooms is not None)
    cluster = trio.run(start_cluster, ClusterPlan(brokers=BROKERS, rooms=rooms, sidecars=sidecars))
    try:
        yield Deployed(cluster, names[102])
    finally:
        containers.podman("rm", "--force", "--time=1", "--ignore", *names.values(), check=False)
        cluster.close()


def test_it_is_small_labelled_and_has_no_build_tools(containers: Containers) -> None:
    image, base = (containers.inspect(name, kind="image") for name in (IMAGE, BASE_IMAGE))
    assert 0 < image["Size"] - base["Size"] <= MOST_BYTES_OVER_BASE
    labels = image["Config"]["Labels"]
    assert labels["org.opencontainers.image.title"] == "kafka-throttle-sidecar"
    assert {"version", "revision", "licenses", "description", "base.name"} <= {
        label.removeprefix("org.opencontainers.image.") for label in labels
    }
    assert image["Config"]["User"] == "65532:65532"
    search = ("-regextype", "posix-extended", "-regex", BUILD_TOOLS)
    found = partial(containers.podman, "run", "--rm", "--pull=never", "--entrypoint=find", IMAGE)
    assert found("/opt", *search) == ""
    assert found("/usr/share/python-wheels", *search) != "", "the base has some; the search would see ours"


@pytest.mark.parametrize(
    ("arguments", "status"), [(["--version"], 0), (["--help"], 0), (["check"], 1), (["run", "--nope"], 2)]
)
def test_it_is_the_command_line(containers: Containers, arguments: list[str], status: int) -> None:
    command = ["podman", "run", "--rm", "--pull=never", "--read-only", "--cap-drop=ALL", IMAGE, *arguments]
    said = containers.run("sh", "-c", '"$@" 2>&1; echo "status $?"', "sh", *command)
    assert said.splitlines()[-1] == f"status {status}"
    assert "Traceback" not in said


async def test_a_real_move_is_throttled_through_it(deployed: Deployed, containers: Containers) -> None:
    """The bound is measured on a quiet machine by the system suite; here it must hold over the move."""
    async with open_move(deployed.cluster, MOVE) as move:
        began = time.monotonic()
        await move.wait_moved_bytes(2 * MIB)
        await trio.to_thread.run_sync(partial(_assert_hardened, containers, deployed.name))
        outcome = await move.finish(timeout_seconds=60)
        assert outcome.equal, outcome.comparisons
        assert outcome.lines == []
        total = MOVE.partitions * MOVE.bytes_per_partition
        assert time.monotonic() - began >= 0.9 * total / QUOTA
        throttled = deployed.cluster.sidecars[102].throttle()["roles"]["follower"]["throttled_bytes_total"]
        assert sum(throttled.values()) >= 0.95 * total


def _assert_hardened(containers: Containers, name: str) -> None:
    """As the kernel sees the process, not as it was asked for."""
    pid = containers.inspect(name)["State"]["Pid"]
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )
    assert status["Uid"].split() == status["Gid"].split() == ["65532"] * 4
    assert {status[capabilities] for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert status["NSpid"].split()[-1] == "1"
    for path in ("/x", "/tmp/x", "/opt/sidecar/x", "/etc/throttle-sidecar/x"):
        found = containers.podman("exec", name, "/opt/sidecar/bin/python", "-c", WRITE, path)
        assert (path, found) == (path, "EROFS\n")
    containers.podman("healthcheck", "run", name)
    assert containers.inspect(name)["State"]["Health"]["Status"] == "healthy"


async def test_sigterm_ends_it_within_the_grace_period(deployed: Deployed, containers: Containers) -> None:
    """Under load, as PID 1; the connections begin anew once it is back, and nothing is lost."""
    sidecar = deployed.cluster.sidecars[102]
    async with open_move(deployed.cluster, MOVE) as move:
        await move.wait_moved_bytes(2 * MIB)
        began = time.monotonic()
        stop = partial(containers.podman, "stop", f"--time={GRACE_SECONDS}", deployed.name)
        await trio.to_thread.run_sync(stop)
        assert time.monotonic() - began < STOP_SECONDS
        assert containers.inspect(deployed.name)["State"]["ExitCode"] == 0
        assert '"event":"stopped"' in sidecar.log_lines()[-1].replace('": "', '":"')
        await sidecar.process.wait_exit()
        await sidecar.start()
        outcome = await move.finish(timeout_seconds=60)
        assert outcome.equal, outcome.comparisons

"""The image as an operator runs it: really built, really run, with real brokers' replication through it.

`make image`; needs root, buildah, podman, runc and debootstrap, and a Debian mirror the first time.
"""

from __future__ import annotations

import hashlib
import json
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import trio
import yaml

from lab.cluster.cluster import Cluster, start_cluster
from lab.cluster.plan import ClusterPlan
from lab.host.namespaces import open_rooms
from lab.moves.move import MIB, Move
from lab.moves.open_move import open_move
from lab.sidecars.sidecars import SidecarPlan

from .containers import BARE_BASE_IMAGE, BASE_IMAGE, GRACE_SECONDS, IMAGE, REDIRECT_IMAGE, Containers
from .test_kubernetes import config_map
from .test_kubernetes import pod as rendered_pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.host.namespaces import Rooms

pytestmark = [pytest.mark.image, pytest.mark.timeout(900)]

BROKERS = (101, 102)
QUOTA = 4 * MIB
MOVE = Move("sidecar strict", "both", QUOTA, partitions=4, bytes_per_partition=6 * MIB)
MAX_BYTES_OVER_BASE = 150 * MIB
STOP_SECONDS = 10.0
"""A drain ends as soon as nothing is in flight: a fetch at most (500 ms), and HTTP's second."""
TRANSPARENT = "transparent"
OVERLAY = "overlays/transparent"
START_SECONDS = 15.0
SEEN_SECONDS = 5.0
"""To start a command in the container takes most of it; 250 ms are held to in tests/system/test_live_change.py."""
BUILD_TOOLS = r".*/(uv|uvx|pip[0-9.]*|setuptools|wheel|hatchling|.*\.whl)"
BARE_IMAGE = f"{IMAGE}-bare"
COMPILED_AT_START = """
import os, sys, operating.cli
from proxy.observing.site import load_late
for command in operating.cli._BUILT_IN:
    operating.cli.cli.get_command(None, command)
import operating.running, proxy.tls.leg
load_late()
found = [module for module in tuple(sys.modules.values()) if getattr(module, "__cached__", None)]
assert len(found) > 500
print([module.__name__ for module in found if not os.path.exists(module.__cached__)])
"""
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
    assert 0 < image["Size"] - base["Size"] <= MAX_BYTES_OVER_BASE
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


def test_nothing_that_it_loads_is_compiled_when_it_starts_whatever_its_base_has(containers: Containers) -> None:
    """Where bytecode cannot be written a start that has none compiles hundreds of files, and so does a health check."""
    containers.build_bare_base()
    containers.build_image(BARE_IMAGE, "--layers", base=BARE_BASE_IMAGE)
    python = ("run", "--rm", "--pull=never", "--read-only", "--entrypoint=/opt/sidecar/bin/python")
    assert containers.podman(*python, BARE_IMAGE, "-c", COMPILED_AT_START) == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "status"), [(["--version"], 0), (["--help"], 0), (["check"], 1), (["run", "--nope"], 2)]
)
def test_it_is_the_command_line(containers: Containers, arguments: list[str], status: int) -> None:
    command = ["podman", "run", "--rm", "--pull=never", "--read-only", "--cap-drop=ALL", IMAGE, *arguments]
    said = containers.run("sh", "-c", '"$@" 2>&1; echo "status $?"', "sh", *command)
    assert said.splitlines()[-1] == f"status {status}"
    assert "Traceback" not in said


def test_plan_and_verify_can_ask_brokers_from_it(containers: Containers) -> None:
    """What the extra `operator` brings is there: whoever has the image needs no installation to plan a move."""
    python = partial(containers.podman, "run", "--rm", "--pull=never", "--entrypoint=/opt/sidecar/bin/python", IMAGE)
    assert python("-c", "import kafka; print(kafka.__name__)") == "kafka\n"


async def test_a_real_move_is_throttled_through_it(deployed: Deployed, containers: Containers) -> None:
    """The bound is measured on a quiet machine by the system suite; here it must hold over the move."""
    async with open_move(deployed.cluster, MOVE) as move:
        began = time.monotonic()
        await move.wait_moved_bytes(2 * MIB)
        await trio.to_thread.run_sync(partial(assert_hardened, containers, deployed.name))
        await trio.to_thread.run_sync(containers.podman, "healthcheck", "run", deployed.name)
        assert containers.inspect(deployed.name)["State"]["Health"]["Status"] == "healthy"
        outcome = await move.finish(timeout_seconds=60)
        assert outcome.equal, outcome.comparisons
        assert outcome.lines == []
        total = MOVE.partitions * MOVE.bytes_per_partition
        assert time.monotonic() - began >= 0.9 * total / QUOTA
        throttled = deployed.cluster.sidecars[102].throttle()["roles"]["follower"]["throttled_bytes_total"]
        assert sum(throttled.values()) >= 0.95 * total


def assert_hardened(containers: Containers, name: str) -> None:
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
        await sidecar.process.wait_exit()  # the last line may come after podman has said that it stopped
        assert '"event":"stopped"' in sidecar.log_lines()[-1].replace('": "', '":"')
        await sidecar.start()
        outcome = await move.finish(timeout_seconds=60)
        assert outcome.equal, outcome.comparisons


def test_the_pod_of_the_manifests_starts(containers: Containers, tmp_path: Path) -> None:
    """What kustomize renders, its security contexts and ConfigMaps, as `podman play kube` runs it: without a network,
    the probes (podman asks them by curl) and the broker. A native sidecar is an ordinary container to podman."""
    maps = [config_map(OVERLAY, name) for name in ("throttle-sidecar", "throttle-quotas")]
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump_all([*maps, rehearsed_pod()]))
    name = "kts-rehearsal-throttle-sidecar"
    try:
        containers.podman("play", "kube", "--network=none", str(file))
        health = ("exec", name, "throttle-sidecar", "health", "--ready")
        deadline = time.monotonic() + START_SECONDS
        while '"reasons":[]' not in (said := containers.podman(*health, check=False)):
            assert time.monotonic() < deadline, said + containers.podman("logs", name, check=False)
            time.sleep(0.2)
        assert_hardened(containers, name)
        pid = containers.inspect(name)["State"]["Pid"]
        rules = containers.run("nsenter", "-t", str(pid), "-n", "iptables", "-t", "nat", "-S", "THROTTLE_SIDECAR")
        assert "--uid-owner 65532 -j RETURN" in rules
        assert "-j REDIRECT --to-ports 15001" in rules
        assert status(containers, name)["broker"] == 1
        volume = Path(containers.podman("volume", "inspect", "--format={{.Mountpoint}}", "throttle-quotas").strip())
        for rate in ("1MiB/s", "2MiB/s"):
            text = f"[brokers.default]\nleader.replication.throttled.rate = '{rate}'\n"
            project(volume, text)
            wanted = hashlib.sha256(text.encode()).hexdigest()
            deadline = time.monotonic() + SEEN_SECONDS
            while not wanted.startswith(status(containers, name)["quotas"]["hash"]):
                assert time.monotonic() < deadline, f"{rate} was not seen"
    finally:
        containers.podman("pod", "rm", "--force", "--time=1", "--ignore", "kts-rehearsal", check=False)
        containers.podman("volume", "rm", "--force", *(each["metadata"]["name"] for each in maps), check=False)


def status(containers: Containers, name: str) -> dict[str, Any]:
    # Its exit status is 1 where something is amiss, and a pod without a network may miss its broker.
    said = containers.podman("exec", name, "throttle-sidecar", "status", "--once", "--json", check=False)
    page: dict[str, Any] = json.loads(said)
    return page


def project(volume: Path, quotas: str) -> None:
    """Put a ConfigMap's new content there as the kubelet does: a folder of its own, and one swap of a link to it."""
    fresh = volume / f"..{time.monotonic_ns()}"
    fresh.mkdir()
    (fresh / "quotas.toml").write_text(quotas)
    (volume / "..data_tmp").symlink_to(fresh.name)
    (volume / "..data_tmp").rename(volume / "..data")
    if not (volume / "quotas.toml").is_symlink():  # podman put a plain file there
        (volume / "quotas.toml").unlink()
        (volume / "quotas.toml").symlink_to("..data/quotas.toml")


def rehearsed_pod() -> dict[str, Any]:
    """Pod 1 of the transparent overlay."""
    spec = json.loads(json.dumps(rendered_pod(OVERLAY)["spec"]))
    redirect, sidecar = spec["initContainers"]
    for container, image in ((redirect, REDIRECT_IMAGE), (sidecar, IMAGE)):
        container["image"] = image
    for key in ("restartPolicy", "ports", "startupProbe", "livenessProbe", "readinessProbe"):
        del sidecar[key]
    sidecar["env"] = [{"name": "THROTTLE_BROKER__ID", "value": "1"}]
    kept = {key: spec[key] for key in ("securityContext", "volumes")}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        # To podman 4.3 an init container is removed once it has run, and now and then before it has ended.
        "metadata": {"name": "kts-rehearsal", "annotations": {"io.podman.annotations.init.container.type": "always"}},
        # By Kubernetes' default, Always, podman starts an init container again that has ended, and on a slow machine it
        # runs whenever podman looks whether it has.
        "spec": {"restartPolicy": "Never", "initContainers": [redirect], "containers": [sidecar], **kept},
    }

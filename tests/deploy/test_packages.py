"""The .deb in a Debian of its own: installed, run as systemd runs it, between real brokers, upgraded, purged.

`make installed`. What runs here is no systemd: a stand-in asks of the process what the unit says.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio

from deploy.commit import ROOT
from deploy.packages.building import PYTHONS
from lab.cluster.cluster import start_cluster
from lab.cluster.plan import ClusterPlan
from lab.moves.move import MIB, Move
from lab.moves.open_move import open_move
from lab.sidecars.sidecars import SidecarPlan

from .containers import BASE_IMAGE, Containers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.installed, pytest.mark.timeout(600)]

PACKAGED = "localhost/kafka-throttle-sidecar-packaged:ci"
BROKERS = (101, 102)
MOVE = Move("sidecar strict", "both", 4 * MIB, partitions=4, bytes_per_partition=4 * MIB)

LIFE = r"""
set -eu
find / -xdev -path /proc -prune -o -path /sys -prune -o -path /packages -prune -o -print | sort > /tmp/before
dpkg -i /packages/*.deb
umask 077
install -g kafka-throttle -m 0640 /usr/share/doc/kafka-throttle-sidecar/examples/*.toml /etc/kafka-throttle-sidecar/
umask 022
throttle-sidecar --version
throttle-sidecar check --config /etc/kafka-throttle-sidecar/proxy.toml
zcat /usr/share/man/man1/throttle-sidecar-set.1.gz | head -n 1
python3 /packages/as_systemd.py
dpkg -i /packages/*.deb
test -f /etc/kafka-throttle-sidecar/proxy.toml
dpkg --purge kafka-throttle-sidecar
find / -xdev -path /proc -prune -o -path /sys -prune -o -path /packages -prune -o -print | sort > /tmp/after
# What dpkg, useradd and the like note for themselves is theirs.
own='/tmp/|/var/(lib/dpkg|log|cache|backups)|/etc/(passwd|group|shadow|gshadow|sub.id)-?|/etc/.pwd.lock'
diff /tmp/before /tmp/after | grep '^[<>]' | grep -Ev " ($own)" || true
if getent passwd kafka-throttle; then exit 1; fi
echo no trace
"""
AS_SYSTEMD = r"""
import os, pwd, re, shlex, signal, socket, subprocess
unit = open("/usr/lib/systemd/system/kafka-throttle-sidecar.service").read()
value = lambda key: re.search(rf"^{key}=(.*)$", unit, re.M)[1]
path = "/tmp/notify"
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
notify.bind(path)
os.chmod(path, 0o777)
notify.settimeout(30)
text = open("/etc/kafka-throttle-sidecar/proxy.toml").read()
# Of the example, what a machine without its host names has.
text = re.sub(r'listen = "[^"]*:(\d+)"', r'listen = "127.0.0.1:0"', text)
open("/etc/kafka-throttle-sidecar/proxy.toml", "w").write(text)
user = pwd.getpwnam(value("User"))
child = subprocess.Popen(
    shlex.split(value("ExecStart")), user=user.pw_uid, group=user.pw_gid, extra_groups=[],
    env={"PATH": os.environ["PATH"], "NOTIFY_SOCKET": path, "WATCHDOG_USEC": "2000000"},
)
heard = []
def until(word):
    while word not in heard:
        heard.append(notify.recv(4096).decode())
until("READY=1")
until("WATCHDOG=1")
child.send_signal(signal.SIGHUP)
child.send_signal(signal.SIGTERM)
until("STOPPING=1")
print("exit", child.wait(30), "as", value("User"))
"""


def build(folder: Path) -> None:
    """As `make packages` does, in a process of its own: click-man uses what click is about to take away, and warns."""
    subprocess.run([sys.executable, "-m", "deploy.packages", folder], cwd=ROOT, check=True)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    build(folder)
    (folder / "as_systemd.py").write_text(AS_SYSTEMD)
    return folder


@pytest.fixture(scope="module")
def containers() -> Containers:
    made = Containers()
    made.build_base()
    return made


def digests(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.suffix in (".deb", ".rpm")
    }


def test_the_same_commit_gives_the_same_bytes(packages: Path, tmp_path: Path) -> None:
    build(tmp_path)
    assert len(digests(packages)) == 2
    assert digests(tmp_path) == digests(packages)


def test_the_rpm_has_what_the_deb_has(packages: Path) -> None:
    (deb,), (rpm,) = packages.glob("*.deb"), packages.glob("*.rpm")
    listed = subprocess.run(["dpkg-deb", "--contents", deb], capture_output=True, text=True, check=True).stdout
    files = {line.split()[5].removeprefix(".") for line in listed.splitlines() if line.startswith("-")}
    asked = subprocess.run(["rpm", "-qp", "--list", rpm], capture_output=True, text=True, check=True).stdout
    assert files <= set(asked.splitlines())
    assert {f"/usr/lib/kafka-throttle-sidecar/python{python}/proxy/serving/serve.py" for python in PYTHONS} <= files


def test_it_is_installed_run_upgraded_and_purged_without_a_trace(containers: Containers, packages: Path) -> None:
    mount = f"--volume={packages}:/packages:ro"
    said = containers.podman("run", "--rm", "--pull=never", "--network=none", mount, BASE_IMAGE, "bash", "-c", LIFE)
    lines = said.splitlines()
    assert any(line.startswith("throttle-sidecar, version") for line in lines), said
    assert "exit 0 as kafka-throttle" in lines, said
    assert [line for line in lines if line[:2] in ("< ", "> ")] == []
    assert lines[-1] == "no trace"


async def test_a_real_move_is_throttled_by_what_the_package_installs(containers: Containers, packages: Path) -> None:
    await trio.to_thread.run_sync(partial(_make_image, containers, packages))
    names = {broker: f"kts-package-{broker}" for broker in BROKERS}

    def program(broker: int, home: Path) -> list[str]:
        return containers.program(names[broker], home, "--network=host", "--user=65532:65532", image=PACKAGED)

    cluster = await start_cluster(ClusterPlan(brokers=BROKERS, sidecars=SidecarPlan(program=program)))
    try:
        async with open_move(cluster, MOVE) as move:
            outcome = await move.finish(timeout_seconds=60)
            assert outcome.equal, outcome.comparisons
            throttled = cluster.sidecars[102].throttle()["roles"]["follower"]["throttled_bytes_total"]
            assert sum(throttled.values()) >= 0.95 * MOVE.partitions * MOVE.bytes_per_partition
    finally:
        remove = ("rm", "--force", "--time=1", "--ignore", *names.values())
        await trio.to_thread.run_sync(partial(containers.podman, *remove, check=False))
        cluster.close()


def _make_image(containers: Containers, packages: Path) -> None:
    """Debian with the package, as an image whose command is the package's."""
    name = containers.run("buildah", "from", "--pull-never", BASE_IMAGE).strip()
    try:
        mount = f"--volume={packages}:/packages:ro"
        containers.run("buildah", "run", "--isolation=chroot", mount, name, "--", "sh", "-c", "dpkg -i /packages/*.deb")
        containers.run("buildah", "config", "--entrypoint", '["throttle-sidecar"]', "--cmd", "run", name)
        containers.run("buildah", "commit", "--format=docker", name, PACKAGED)
    finally:
        containers.run("buildah", "rm", name)

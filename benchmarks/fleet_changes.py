"""How long a change of quotas takes to be in force at every sidecar: by files, by PUT /quotas, by a ConfigMap.

    python -m benchmarks.fleet_changes [--changes 20] [--sidecars 3] [--write docs/benchmarks.md]

Sidecars are processes of their own, each with quotas of its own or with a ConfigMap that all share. The ConfigMap is on
a real API server, and mounts show it some seconds late, as a kubelet's do. Every change is one command,
`throttle-sidecar set --fleet`, or one PUT. Times count from the moment the change was *written*: the last file's rename
(by its ctime), the end of the first kubectl patch, or the beginning of the PUT. They end when the last sidecar's log
says that it is in force, and when the command has returned.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import trio

from lab.addresses import HTTP_PORT, free_subnet
from lab.kubernetes.clients import kubectl_command
from lab.kubernetes.control_plane import ControlPlane, control_plane
from lab.kubernetes.mounts import MountedConfigMap
from lab.processes import Process, kill_all, wait_until
from lab.sidecars import throttle_sidecar_script

from .document_part import DocumentPart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Change = Callable[[int], float]
    """Brings a rate about; returns when that was written, in seconds since 1970."""

PART = DocumentPart("fleet")
WAYS = ("files", "PUT /quotas", "ConfigMap", "ConfigMap each")
RATE = "leader.replication.throttled.rate"
QUOTAS = '[brokers.default]\nleader.replication.throttled.rate = {rate}\nleader.replication.throttled.replicas = "*"\n'
TOKEN = "a-token-for-benchmarks"
FIRST = 1_000_000
"""The first rate; each further one is greater by one, by which it is known."""
MOUNT_LATE_SECONDS = 4.0
_PATIENCE_SECONDS = 10.0


class Timing(NamedTuple):
    """Seconds."""

    in_force: float
    """From the write until the last sidecar had it."""
    returned: float
    """From the write until the command was over."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A sidecar and its files."""

    broker: int
    url: str
    process: Process
    quotas: Path

    def in_force_at(self, rate: int) -> float:
        """When its log says that this rate, of bytes per second, came into force; since 1970."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            for line in reversed(self.process.output.read_text("utf-8").splitlines()):
                said = json.loads(line)
                if said["event"] == "quotas_reloaded" and said["leader_bytes_per_second"] == rate:
                    return datetime.fromisoformat(said["timestamp"]).timestamp()
            time.sleep(0.02)
        raise click.ClickException(f"the sidecar of {self.broker} did not take {rate}:\n{self.process.last_lines()}")


def seat(broker: int, address: str, home: Path, quotas: Path) -> Seat:
    """A sidecar that has not been started yet, with a broker beside it that nobody will dial."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "token").write_text(TOKEN)
    (home / "token").chmod(0o600)
    (home / "proxy.toml").write_text(
        f'[broker]\nid = {broker}\n[ingress]\nlisten = "{address}:9092"\nupstream = "{address}:19092"\n'
        f'[http]\nlisten = "{address}:{HTTP_PORT}"\ntoken_file = "token"\n[quotas]\nfile = "{quotas}"\n'
    )
    command = [throttle_sidecar_script(), "run", "--config", str(home / "proxy.toml")]
    url = f"http://{address}:{HTTP_PORT}"
    return Seat(broker, url, Process(f"sidecar {broker}", command, output=home / "log"), quotas)


@contextlib.contextmanager
def running(seats: list[Seat]) -> Iterator[None]:
    try:
        for each in seats:
            each.process.start()
        for each in seats:
            trio.run(_until_ready, each)
        yield
    finally:
        kill_all([each.process for each in seats])


async def _until_ready(each: Seat) -> None:
    await wait_until(lambda: _answers(each.url), process=each.process, what="/readyz said 200", timeout_seconds=30)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=3) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def set_fleet(fleet: Path, rate: int) -> None:
    """The command, from its start to its end. Raises CalledProcessError with what it said."""
    command = [throttle_sidecar_script(), "set", RATE, str(rate), "--fleet", str(fleet)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")


def by_files(home: Path, seats: list[Seat]) -> Change:
    fleet = home / "files.toml"
    fleet.write_text(
        "".join(f'[[sidecars]]\nbroker = {s.broker}\nurl = "{s.url}"\nquotas = "{s.quotas}"\n' for s in seats)
    )

    def write(rate: int) -> float:
        set_fleet(fleet, rate)
        return max(each.quotas.stat().st_ctime for each in seats)

    return write


def by_put(seats: list[Seat]) -> Change:
    def put(each: Seat, rate: int) -> None:
        proof = {"Authorization": f"Bearer {TOKEN}"}
        with urllib.request.urlopen(urllib.request.Request(f"{each.url}/quotas", headers=proof)) as answer:
            proof["If-Match"] = answer.headers["ETag"]
        body = QUOTAS.format(rate=rate).encode()
        urllib.request.urlopen(urllib.request.Request(f"{each.url}/quotas", body, proof, method="PUT")).close()

    def write(rate: int) -> float:
        began = time.time()
        threads = [threading.Thread(target=put, args=(each, rate)) for each in seats]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return began

    return write


def name_of(broker: int, *, shared: bool) -> str:
    return "throttle-quotas" if shared else f"throttle-quotas-{broker}"


def by_config_map(home: Path, seats: list[Seat], cluster: ControlPlane, *, shared: bool) -> Change:
    """With a kubectl that notes when a patch was over."""
    noted = home / "patched"
    kubectl = home / "kubectl"
    real = shlex.join([kubectl_command(), f"--kubeconfig={cluster.kubeconfig}"])
    note = f'case "$*" in *dry-run*|get*) ;; *) echo $EPOCHREALTIME >> {noted} ;; esac'
    kubectl.write_text(f'#!/bin/bash\n{real} "$@"; status=$?\n{note}\nexit $status\n')
    kubectl.chmod(0o755)
    fleet = home / "configmap.toml"
    members = "".join(
        f'[[sidecars]]\nbroker = {s.broker}\nurl = "{s.url}"\n'
        f'configmap = "kafka/{name_of(s.broker, shared=shared)}"\ntoken_file = "sidecar-{s.broker}/token"\n'
        for s in seats
    )
    fleet.write_text(f'[kubernetes]\nkubectl = "{kubectl}"\n{members}')

    def write(rate: int) -> float:
        noted.unlink(missing_ok=True)
        set_fleet(fleet, rate)
        return min(float(line) for line in noted.read_text().splitlines())

    return write


def mount_late(cluster: ControlPlane, mounts: dict[str, list[MountedConfigMap]], over: threading.Event) -> None:
    """Show what the ConfigMaps hold, to one pod after the other, until `over`."""
    while not over.wait(MOUNT_LATE_SECONDS):
        show(cluster, mounts)


def show(cluster: ControlPlane, mounts: dict[str, list[MountedConfigMap]]) -> None:
    for name, those in mounts.items():
        data = cluster.get("configmap", name, "--namespace=kafka")["data"]
        for mount in those:
            mount.publish(data)


@dataclass(frozen=True, slots=True)
class Way:
    """How changes are brought about, and the sidecars that they are for."""

    change: Change
    seats: list[Seat]

    def timed(self, rate: int) -> Timing:
        written = self.change(rate)
        returned = time.time()
        in_force = max(each.in_force_at(rate) for each in self.seats)
        time.sleep(0.05)
        return Timing(in_force - written, returned - written)


def in_turns(ways: Mapping[str, Callable[[int], Timing]], rates: range) -> dict[str, list[Timing]]:
    """Each rate by every way, every second one in the other order, so that all find the machine in the same states. The
    first rate is thrown away: whoever takes it has yet to load what the others find loaded."""
    found: dict[str, list[Timing]] = {name: [] for name in ways}
    for number, rate in enumerate(rates):
        for name in list(ways)[:: -1 if number % 2 else 1]:
            timing = ways[name](rate)
            if number:
                found[name].append(timing)
    return found


def compare(changes: int, brokers: tuple[int, ...], home: Path, cluster: ControlPlane) -> dict[str, list[Timing]]:
    namespace = ("create", "namespace", "kafka", "--dry-run=client", "-o", "json")
    cluster.kubectl("apply", "-f", "-", said=cluster.kubectl(*namespace))
    mounts: dict[str, list[MountedConfigMap]] = {}
    ways = {}
    with contextlib.ExitStack() as stack:
        for name in WAYS:
            place = home / name.replace(" ", "-").replace("/", "")
            place.mkdir()
            ways[name] = way = _way(name, brokers, place, cluster, mounts)
            stack.enter_context(running(way.seats))
        with _kubelet(cluster, mounts):
            found = in_turns({name: way.timed for name, way in ways.items()}, range(FIRST, FIRST + 1 + changes))
        show(cluster, mounts)
        time.sleep(1)
    _nothing_was_undone([each for way in ways.values() for each in way.seats])
    return found


def _way(
    name: str, brokers: tuple[int, ...], place: Path, cluster: ControlPlane, mounts: dict[str, list[MountedConfigMap]]
) -> Way:
    """With files, or with ConfigMaps, whose mounts are added to `mounts`."""
    addresses, data = free_subnet(brokers), {"quotas.toml": QUOTAS.format(rate=1)}
    seats = []
    for broker in brokers:
        quotas = place / f"quotas-{broker}.toml"
        if "ConfigMap" in name:
            mount = MountedConfigMap(place / f"mount-{broker}", data)
            mounts.setdefault(name_of(broker, shared=name == "ConfigMap"), []).append(mount)
            quotas = mount.directory / "quotas.toml"
        else:
            quotas.write_text(data["quotas.toml"])
        seats.append(seat(broker, addresses.http(broker), place / f"sidecar-{broker}", quotas))
    if name == "files":
        return Way(by_files(place, seats), seats)
    if name == "PUT /quotas":
        return Way(by_put(seats), seats)
    for map_name in sorted({name_of(broker, shared=name == "ConfigMap") for broker in brokers}):
        cluster.kubectl("delete", "configmap", map_name, "--namespace=kafka", "--ignore-not-found")
        source = f"--from-literal=quotas.toml={data['quotas.toml']}"
        cluster.kubectl("create", "configmap", map_name, "--namespace=kafka", source)
    return Way(by_config_map(place, seats, cluster, shared=name == "ConfigMap"), seats)


@contextlib.contextmanager
def _kubelet(cluster: ControlPlane, mounts: dict[str, list[MountedConfigMap]]) -> Iterator[None]:
    over = threading.Event()
    kubelet = threading.Thread(target=mount_late, args=(cluster, mounts, over))
    kubelet.start()
    try:
        yield
    finally:
        over.set()
        kubelet.join()


def _nothing_was_undone(seats: list[Seat]) -> None:
    lost = [line for each in seats for line in each.process.output.read_text().splitlines() if "_replaced" in line]
    if lost:
        raise click.ClickException(f"a mount that was late undid a change: {lost}")


def table(found: dict[str, list[Timing]]) -> str:
    lines = [
        "| by | in force everywhere after the write, median | worst | the command was over after, median | worst |",
        "|---|---|---|---|---|",
    ]
    for way, timings in found.items():
        cells = [
            f"{1000 * pick(each[part] for each in timings):.0f} ms"
            for part in (0, 1)
            for pick in (statistics.median, max)
        ]
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


@click.command()
@click.option("--changes", default=20, show_default=True, type=click.IntRange(1), help="Each way.")
@click.option("--sidecars", default=3, show_default=True, type=click.IntRange(1, 9))
@click.option("--write", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Put the table there.")
def main(changes: int, sidecars: int, write: Path | None) -> None:
    """Time changes of quotas until they are in force at every sidecar."""
    with tempfile.TemporaryDirectory() as home, control_plane() as cluster:
        found = compare(changes, tuple(range(101, 101 + sidecars)), Path(home), cluster)
    text = f"{changes} changes each, {sidecars} sidecars:\n\n{table(found)}"
    click.echo(text)
    if write is not None:
        PART.write(write, text)


if __name__ == "__main__":
    main()

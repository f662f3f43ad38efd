"""What README.md and docs/first-hour.md print, typed in that order on a broker's host.

Two hosts, kafka-101 and kafka-102, are network namespaces with a broker and the README's sidecar each. The commands run
on the first, in a root of its own: its hosts file, its empty /run, the pages' files. Needs root and iproute2.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
import trio

from lab.brokers.broker import Broker, BrokerPlan
from lab.brokers.jars import kafka_jars
from lab.brokers.jvm import LOGGING, jvm_command
from lab.brokers.kraft import format_storage, storage_template
from lab.host.namespaces import Rooms, open_rooms
from lab.host.own_root import own_root
from lab.host.processes import dies_with_us, kill_all
from lab.sidecars.sidecars import throttle_sidecar_script
from lab.wire.identifiers import new_kafka_uuid
from tests.docs.printed import ROOT, runnable

from .test_documented_brokers import KAFKA, MAINS, PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

README, FIRST_HOUR = "README.md", "docs/first-hour.md"
HOSTS = (101, 102)
ADDRESS = "10.0.0.{}"
"""Where the README says that they are."""
STAY = {
    "throttle-sidecar run": "throttle-sidecar health --ready",
    "throttle-sidecar guard": "grep guard_proved guard.log",
}
"""What is left running while the next commands are typed, and how it is known that it runs."""
SHELL = """
cd {folder}
export PATH={path}:$PATH
until_ready() {{ for _ in $(seq 150); do "$@" >ready 2>&1 && return; sleep 0.1; done; cat ready; return 1; }}
"""
TYPED = """
echo {marker} {quoted}
{line}
echo {marker} status $?
"""
MARKER = "@typed"


def toml_blocks(page: str) -> list[str]:
    return re.findall(r"```toml\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)


class Host:
    """A broker, and a folder with what is beside it."""

    def __init__(self, rooms: Rooms, folder: Path, broker: int, jars: Path) -> None:
        (self.other,) = set(HOSTS) - {broker}
        self.broker, self.folder, self.rooms, self._jars = broker, folder, rooms, jars
        folder.mkdir()
        rooms.run(broker, "ip", "addr", "add", f"{ADDRESS.format(broker)}/24", "dev", "eth0")
        self.hosts = folder / "hosts"
        self.hosts.write_text(
            f"127.0.0.1 localhost\n{ADDRESS.format(broker)} kafka-{broker}\n127.0.{self.other}.1 kafka-{self.other}\n"
        )
        (snippet,) = re.findall(r"```properties\n(.*?)```", (ROOT / FIRST_HOUR).read_text("utf-8"), re.DOTALL)
        controls = broker == HOSTS[0]
        controller = f"{ADDRESS.format(HOSTS[0])}:9093"
        written = dict(line.split("=", 1) for line in snippet.replace("kafka-101", f"kafka-{broker}").splitlines())
        properties = {
            "node.id": str(broker),
            "process.roles": "broker,controller" if controls else "broker",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{HOSTS[0]}@{controller}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            **written,
        }
        if controls:
            properties["listeners"] += f",CONTROLLER://{controller}"
        plan = BrokerPlan(broker, self.hosts, properties, within=rooms.within(broker))
        self.process = Broker(plan, home=folder / "broker", jars=jars)
        self._tools()

    def _tools(self) -> None:
        """Kafka's commands, as its distribution has them, and ours."""
        tools = self.folder / "bin"
        tools.mkdir()
        (self.folder / "log4j.properties").write_text(LOGGING.format(file=self.folder / "tool.log"), encoding="ascii")
        for name, main in MAINS.items():
            command = jvm_command(main, home=self.folder, jars=self._jars, heap_mb=64, hosts=self.hosts)
            (tools / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
            (tools / name).chmod(0o755)
        (tools / "throttle-sidecar").symlink_to(throttle_sidecar_script())

    def command(self, script: str) -> list[str]:
        """What runs a script on this host, in the folder."""
        setup = SHELL.format(folder=self.folder, path=self.folder / "bin")
        root = own_root({"/etc/hosts": self.hosts})
        return [*dies_with_us(), *self.rooms.within(self.broker), *root, "bash", "-c", setup + script]

    def type(self, lines: list[str]) -> list[tuple[str, int, str]]:
        """Type these lines one after the other; return each with its exit status and what was printed."""
        script = ""
        for line in lines:
            known_by = next((known for program, known in STAY.items() if line.startswith(program)), None)
            beside = f">{shlex.split(line)[1]}.log 2>&1 & sleep 1; until_ready {known_by}"
            shown = f"{line} {beside if known_by else '2>&1'}"
            script += TYPED.format(marker=MARKER, quoted=shlex.quote(line), line=shown)
        done = subprocess.run(
            self.command(script + "\nkill $(jobs -p); wait"), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=150, check=False,
        )  # fmt: skip
        found = re.findall(rf"^{MARKER} (.*?)\n(.*?)^{MARKER} status (\d+)$", done.stdout, re.MULTILINE | re.DOTALL)
        assert len(found) == len(lines), done.stdout + done.stderr
        return [(line, int(status), said) for line, said, status in found]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Host]]:
    """Both brokers run; the topic `orders` has its one replica on the first."""
    home, jars = tmp_path_factory.mktemp("printed"), kafka_jars(KAFKA)
    with open_rooms(HOSTS) as rooms, ExitStack() as stack:
        made = {broker: Host(rooms, home / f"kafka-{broker}", broker, jars) for broker in HOSTS}
        template, cluster = storage_template(PROTOCOL, jars=jars), new_kafka_uuid()
        stack.callback(lambda: kill_all([host.process.process for host in made.values()]))
        for host in made.values():
            format_storage(host.process.log_dir, template, node=host.broker, cluster_id=cluster)
            host.process.begin_start()
        for host in made.values():
            trio.run(host.process.wait_started)
        yield made


def assert_worked(typed: list[tuple[str, int, str]]) -> None:
    failed = [f"{line}: status {status}:\n{said}" for line, status, said in typed if status]
    assert not failed, "\n".join(failed)


def said(typed: list[tuple[str, int, str]], command: str) -> str:
    """What this command printed, or else the first that begins so."""
    printed = {line: text for line, _, text in typed}
    return printed.get(command) or next(text for line, text in printed.items() if line.startswith(command))


def test_first_hour(hosts: dict[int, Host]) -> None:
    """From the two files to the redirection; the sidecar of the other host is not there yet."""
    host = hosts[101]
    proxy, quotas, *_ = toml_blocks(FIRST_HOUR)
    (host.folder / "proxy.toml").write_text(proxy)
    (host.folder / "quotas.toml").write_text(quotas)
    (host.folder / "deploy").symlink_to(ROOT / "deploy")
    create = "kafka-topics --bootstrap-server kafka-101:9092 --create --topic orders --replica-assignment 101,101"
    lines = [line for line in runnable(FIRST_HOUR) if "/opt/throttle-sidecar" not in line]
    at = next(number for number, line in enumerate(lines) if line.startswith("throttle-sidecar run"))
    typed = host.type([*lines[: at + 1], create, *lines[at + 1 :]])
    host.rooms.run(host.broker, str(ROOT / "deploy/redirect/redirect.sh"), "remove")
    assert_worked(typed)
    assert "OBSERVING" in said(typed, "throttle-sidecar status --once")
    assert "20.00 MiB/s" in said(typed, "throttle-sidecar set leader")
    assert "enforcing" in said(typed, "throttle-sidecar status")
    assert "first hour" in said(typed, "throttle-sidecar overrides")
    assert "LeaderReplicationThrottledRate" in said(typed, "curl -s http://127.0.0.1:9404/metrics")
    assert "--to-ports 15001" in said(typed, "deploy/redirect/redirect.sh show")


def test_readme(hosts: dict[int, Host]) -> None:
    """Both hosts have the README's files, and docs/fleet.md's lines of [http]; a replica is added to the second."""
    proxy, quotas = toml_blocks(README)
    (http,) = re.findall(r"^ {4}\[http\]\n(?: {4}.+\n)+", (ROOT / "docs/fleet.md").read_text("utf-8"), re.MULTILINE)
    members = []
    for host in hosts.values():
        own = proxy if host.broker == 101 else re.sub("101|102", lambda met: str(203 - int(met[0])), proxy)
        listens = re.sub("kafka-101", f"kafka-{host.broker}", re.sub("^ +", "", http, flags=re.MULTILINE))
        (host.folder / "proxy.toml").write_text(own + listens)
        (host.folder / "quotas.toml").write_text(quotas)
        (host.folder / "token").write_text("a-token-of-this-test")
        (host.folder / "token").chmod(0o600)
        members.append(f'[[sidecars]]\nbroker = {host.broker}\nurl = "http://{ADDRESS.format(host.broker)}:9404"\n')
    first, second = hosts[101], hosts[102]
    (first.folder / "fleet.toml").write_text('token_file = "token"\n' + "".join(members))
    rows = [{"topic": "orders", "partition": 0, "replicas": [101, 102]}]
    (first.folder / "move.json").write_text(json.dumps({"version": 1, "partitions": rows}))
    # Nobody is there to be asked.
    lines = [f"{line} --yes" if " move " in line else line for line in runnable(README, "Use it")]
    beside = subprocess.Popen(second.command("exec throttle-sidecar run --config proxy.toml >run.log 2>&1"))
    try:
        time.sleep(1)
        typed = first.type(lines)
    finally:
        beside.terminate()
        beside.wait()
    assert_worked(typed)
    assert "50.00 MiB/s" in said(typed, "throttle-sidecar check")
    assert "20.00 MiB/s" in said(typed, "throttle-sidecar set")
    assert "LeaderReplicationThrottledRate" in said(typed, "curl")

"""What the documents tell a broker and Kafka's own commands to do, done: a broker of those lines starts, is reached
through a sidecar at the address that it advertises, and takes the commands.

Snippets are found by what they are, on whatever page: a block of properties with `listeners`, and a line that begins
with one of Kafka's commands. Needs root and iproute2: a broker of its own network namespace has the documents' ports.
"""

from __future__ import annotations

import json
import re
import shlex
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from lab.brokers.broker import Broker, BrokerPlan
from lab.brokers.jars import kafka_jars
from lab.brokers.jvm import LOGGING, jvm_command
from lab.brokers.kraft import format_storage, storage_template
from lab.host.commands import output_of
from lab.host.namespaces import Rooms, open_rooms
from lab.host.processes import Process, kill_all
from lab.sidecars.sidecars import throttle_sidecar_script
from lab.wire.identifiers import new_kafka_uuid

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.brokers

KAFKA, PROTOCOL = "4.3.0", "4.3"
BROKER = 101
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "deploy").rglob("*.md"))]
TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"
MAINS = {
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": TOPIC_COMMAND,
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
}
"""Of the commands that a page may show; one that is not here fails its test."""
_BLOCK = re.compile(r"^ *```properties\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^ *(kafka-[a-z-]+)(?:\.sh)? (--.+?)(?: +#.*)?$", re.MULTILINE)


def listener_snippets() -> list[str]:
    blocks = [block for page in PAGES for block in _BLOCK.findall(page.read_text("utf-8"))]
    return [block for block in blocks if re.search(r"^listeners=", block, re.MULTILINE)]


def kafka_commands() -> list[tuple[str, str]]:
    return [found for page in PAGES for found in _COMMAND.findall(page.read_text("utf-8"))]


def proxy_toml() -> str:
    """The README's, without the role that needs other brokers."""
    (text,) = re.findall(r"```toml\n(\[broker\]\n.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    return re.sub(r"\[egress\].*(?=\[quotas\])", "", text, flags=re.DOTALL)


class Scene:
    """One node, broker and controller, of a documents' snippet, and the README's sidecar in front of it."""

    def __init__(self, rooms: Rooms, folder: Path, snippet: str) -> None:
        self.folder, self._within = folder, rooms.within(BROKER)
        self._jars = kafka_jars(KAFKA)
        self._hosts = folder / "hosts"
        self._hosts.write_text(f"127.0.0.1 kafka-{BROKER} localhost\n")
        written = dict(line.split("=", 1) for line in snippet.splitlines() if line and not line.startswith("#"))
        properties = {
            "node.id": str(BROKER),
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"{BROKER}@127.0.0.1:9093",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            **written,
            "listeners": f"{written['listeners']},CONTROLLER://127.0.0.1:9093",
        }
        plan = BrokerPlan(BROKER, self._hosts, properties, within=self._within)
        self._broker = Broker(plan, home=folder / "broker", jars=self._jars)
        (folder / "proxy.toml").write_text(proxy_toml())
        (folder / "quotas.toml").write_text("# none\n")
        (folder / "log4j.properties").write_text(LOGGING.format(file=folder / "tool.log"), encoding="ascii")
        # The documents' broker may be served by a sidecar on this host.
        own = ("--set", f"control.directory={folder / 'control'}")
        command = [*self._within, throttle_sidecar_script(), "run", "--config", str(folder / "proxy.toml"), *own]
        self._sidecar = Process("sidecar", command, output=folder / "sidecar.log")

    async def start(self) -> None:
        template = storage_template(PROTOCOL, jars=self._jars)
        format_storage(self._broker.log_dir, template, node=BROKER, cluster_id=new_kafka_uuid())
        self._sidecar.start()
        await self._broker.start()

    def run(self, main: str, *arguments: str) -> str:
        """Run one of Kafka's programs in the folder; return what it says. Raises LabError if it fails."""
        command = jvm_command(main, *arguments, home=self.folder, jars=self._jars, heap_mb=64, hosts=self._hosts)
        return output_of("env", "-C", str(self.folder), *self._within, *command)

    def topics(self, *arguments: str) -> str:
        return self.run(TOPIC_COMMAND, "--bootstrap-server", f"kafka-{BROKER}:9092", *arguments)

    def close(self) -> None:
        kill_all([self._broker.process, self._sidecar])


@pytest.fixture(scope="module", params=listener_snippets())
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("documented")
    with open_rooms((BROKER,)) as rooms, closing(Scene(rooms, folder, request.param)) as made:
        trio.run(made.start)
        made.topics("--create", "--topic", "orders", "--partitions", "2", "--replication-factor", "1")
        yield made


def test_there_are_some() -> None:
    assert listener_snippets()
    assert kafka_commands()


def test_a_broker_of_these_lines_is_reached_through_the_sidecar(scene: Scene) -> None:
    described = scene.topics("--describe", "--topic", "orders")
    assert described.count(f"Leader: {BROKER}") == 2


@pytest.mark.parametrize(("command", "arguments"), kafka_commands())
def test_kafkas_command_is_taken_as_the_page_has_it(scene: Scene, command: str, arguments: str) -> None:
    assert command in MAINS, f"{command}: which of Kafka's programs is it?"
    rows = [{"topic": "orders", "partition": partition, "replicas": [BROKER]} for partition in range(2)]
    (scene.folder / "move.json").write_text(json.dumps({"version": 1, "partitions": rows}))
    said = scene.run(MAINS[command], *shlex.split(arguments))
    elects_nothing = command == "kafka-leader-election" and said == ""  # One broker leads all already.
    assert elects_nothing or "Successfully" in said or "Completed" in said, said

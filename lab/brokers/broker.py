"""One Kafka broker as a process: its files, its log, its life.

Knows nothing of sidecars: the hosts file that it is given says where the names of other brokers lead.
Invariant: a broker that has been stopped or killed can be started again on the same data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import trio

from ..errors import LabError
from ..host.processes import Process, wait_until
from .jvm import LOGGING, jvm_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_START_SECONDS = 90.0
_SESSION_SECONDS = 20.0
_STILL_REGISTERED = re.compile(
    "creating ephemeral at .* node already exists|A broker is already registered on the path"  # before 1.1
)
_STARTED = re.compile(
    r"\[KafkaServer id=\d+\] started|\[Kafka Server \d+\], started"
    r"|\[KafkaRaftServer nodeId=\d+\] Kafka Server started"
)
_TROUBLE = re.compile(r" (?:ERROR|FATAL) ")

DEFAULT_PROPERTIES: Mapping[str, str] = {
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "log.cleaner.enable": "false",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.enable": "true",
    "delete.topic.enable": "true",
    # Segments of deleted topics are removed at once, since the lab may run on a laptop with a small disk.
    "log.segment.delete.delay.ms": "1000",
}


@dataclass(frozen=True, slots=True)
class BrokerPlan:
    """The traits of one broker: id, hosts file, properties beyond the defaults, the JVM's options, and what runs it."""

    id: int
    hosts: Path
    properties: Mapping[str, str]
    jvm_options: Sequence[str] = ()
    within: Sequence[str] = ()


class Broker:
    """Args: plan: who it is; home: a folder of its own; jars: class path folder."""

    def __init__(self, plan: BrokerPlan, *, home: Path, jars: Path) -> None:
        self.id = plan.id
        self.log_dir = home / "data"
        self.log_file = home / "broker.log"
        self._plan, self._home = plan, home
        home.mkdir(parents=True)
        (home / "log4j.properties").write_text(LOGGING.format(file=self.log_file), encoding="ascii")
        self.process = self._process(jars)
        self._starts = 0

    def become(self, properties: Mapping[str, str], *, jars: Path) -> None:
        """Start from now on with these properties (and these binaries) instead.

        Raises:
            LabError: it is running.
        """
        if self.process.running:
            raise LabError(f"{self.process.name} is running; its properties are read as it starts")
        self._plan = replace(self._plan, properties=properties)
        self.process = self._process(jars)

    async def start(self) -> None:
        """Start it and wait until it says that it runs. After a kill it is started again and again, as long as
        ZooKeeper still has the registration of the killed broker.

        Raises:
            LabError: with its own ERROR lines.
        """
        deadline = trio.current_time() + _SESSION_SECONDS
        while True:
            refusals = len(self.log_lines(_STILL_REGISTERED))
            self.begin_start()
            try:
                await self.wait_started()
            except LabError:
                refused = len(self.log_lines(_STILL_REGISTERED)) > refusals
                if not refused or trio.current_time() > deadline:
                    raise
                self._starts -= 1
            else:
                return

    def begin_start(self) -> None:
        self.process.start()
        self._starts += 1

    async def wait_started(self) -> None:
        try:
            await wait_until(
                lambda: len(self.log_lines(_STARTED)) >= self._starts,
                process=self.process, what="it said started", timeout_seconds=_START_SECONDS,
            )  # fmt: skip
        except LabError as error:
            trouble = "\n".join(self.log_lines(_TROUBLE)[-10:]) or "(none)"
            raise LabError(f"{error}\nERROR lines of {self.log_file}:\n{trouble}") from error

    async def stop(self) -> None:
        """Stop by SIGTERM, a controlled shutdown that hands leadership over first."""
        await self.process.terminate(grace_seconds=30.0)

    async def kill(self) -> None:
        """Kill by SIGKILL, which other brokers see as a crash."""
        await self.process.kill()

    def log_lines(self, pattern: str | re.Pattern[str]) -> list[str]:
        """Return the lines of its log in which the pattern is found, from all its lives."""
        if not self.log_file.exists():
            return []
        search = re.compile(pattern).search
        with self.log_file.open(encoding="utf-8", errors="replace") as lines:
            return [line.rstrip("\n") for line in lines if search(line)]

    def _process(self, jars: Path) -> Process:
        plan, home = self._plan, self._home
        config = home / "server.properties"
        properties = {"log.dirs": str(self.log_dir), **DEFAULT_PROPERTIES, **plan.properties}
        config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="ascii")
        command = jvm_command(
            "kafka.Kafka", str(config), home=home, jars=jars, hosts=plan.hosts, options=plan.jvm_options
        )
        return Process(f"broker {plan.id}", [*plan.within, *command], output=home / "output.log")

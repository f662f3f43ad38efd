"""ZooKeeper mode: one ZooKeeper node as a process, and what brokers need of it besides their own properties.

Invariant: `wait_started` returns once it accepts connections, never before.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from ..errors import LabError
from ..host.addresses import KAFKA_PORT, ZOOKEEPER_PORT
from ..host.processes import Process, accepts_connections, wait_until
from .jvm import LOGGING, jvm_command

if TYPE_CHECKING:
    from pathlib import Path

    from ..host.addresses import Addresses

_START_SECONDS = 60.0


def zookeeper_properties(addresses: Addresses, broker: int, *, protocol: str, message_format: str) -> dict[str, str]:
    """Return server.properties of one broker: its id, protocol and listener, and where ZooKeeper is."""
    # Below protocol 1.0 a listener must carry the name of its security protocol (UpdateMetadata v0-v3).
    listener = f"PLAINTEXT://{addresses.name(broker)}:{KAFKA_PORT}"
    return {
        "broker.id": str(broker),
        "listeners": listener,
        "advertised.listeners": listener,
        "zookeeper.connect": f"{addresses.zookeeper}:{ZOOKEEPER_PORT}",
        "inter.broker.protocol.version": protocol,
        "log.message.format.version": message_format,
        # Kafka's default until 2.5. After a kill, another leader is elected, and the broker may come back, only when it
        # ends.
        "zookeeper.session.timeout.ms": "6000",
    }


class ZooKeeper:
    """Args: home: a folder of its own; jars: class path folder."""

    def __init__(self, addresses: Addresses, *, home: Path, jars: Path) -> None:
        self._address = addresses.zookeeper
        self._home, self._jars = home, jars
        home.mkdir(parents=True)
        config = home / "zookeeper.properties"
        config.write_text(
            f"dataDir={home / 'data'}\nclientPort={ZOOKEEPER_PORT}\nclientPortAddress={self._address}\n"
            "maxClientCnxns=0\nadmin.enableServer=false\ntickTime=2000\n",
            encoding="ascii",
        )
        (home / "log4j.properties").write_text(LOGGING.format(file=home / "zookeeper.log"), encoding="ascii")
        command = jvm_command(
            "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config), home=home, jars=jars, heap_mb=64,
            # 3.4 would register classes of Log4j 1 that reload4j has not got.
            options=["-Dzookeeper.jmx.log4j.disable=true"],
        )  # fmt: skip
        self.process = Process("ZooKeeper", command, output=home / "output.log")

    @property
    def connect(self) -> str:
        """The value of `zookeeper.connect`."""
        return f"{self._address}:{ZOOKEEPER_PORT}"

    def start(self) -> None:
        self.process.start()

    def add_user(self, mechanism: str, user: str, password: str) -> None:
        """Let brokers that start later know this user, by whom they authenticate to each other. It has to be done
        before them, since no broker could be asked yet. Blocks while a JVM runs (2 s). Raises LabError."""
        command = jvm_command(
            "kafka.admin.ConfigCommand", "--zookeeper", self.connect, "--alter", "--entity-type", "users",
            "--entity-name", user, "--add-config", f"{mechanism}=[password={password}]",
            home=self._home, jars=self._jars, heap_mb=64,
        )  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_START_SECONDS)
        if done.returncode != 0:
            raise LabError(f"ZooKeeper could not be told of user {user}:\n{done.stdout}{done.stderr}")

    async def wait_started(self) -> None:
        """Wait until it is up. Raises LabError with its last lines if it does not come up."""
        await wait_until(
            lambda: accepts_connections(self._address, ZOOKEEPER_PORT),
            process=self.process, what="listening", timeout_seconds=_START_SECONDS,
        )  # fmt: skip

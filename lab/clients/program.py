"""Runs a client program in a process of its own against a cluster, by whatever addresses its brokers are to have.

Every line that a program writes is an event: its words. Invariant: what is returned is of a program that ended well.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import trio

from ..brokers.jars import java_command, kafka_jars
from ..errors import LabError
from ..host.addresses import KAFKA_PORT, hosts_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from ..cluster.cluster import Cluster

SHORT_RUN = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class ClientProgram:
    """A program and its library.

    Args:
        source: a Java file; of librdkafka a Python file.
        kafka: version of kafka-clients; None: librdkafka.
        options: of the JVM.
    """

    source: Path
    kafka: str | None
    options: tuple[str, ...] = SHORT_RUN

    async def run(
        self, cluster: Cluster, addresses: Mapping[int, str], arguments: Iterable[object], *, stdin: bytes = b""
    ) -> list[list[str]]:
        """Run to the end and return the events. `addresses`: of each broker. Raises LabError."""
        names = [(cluster.addresses.name(broker), address) for broker, address in addresses.items()]
        hosts = hosts_file(cluster.home / f"hosts-of-client-{next(_numbers)}", names)
        done = await trio.run_process(
            [*self._command(hosts), *map(str, arguments)],
            stdin=stdin, capture_stdout=True, capture_stderr=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise LabError(f"{self.source.name}: {done.stderr.decode()[-4000:]}")
        return [line.split() for line in done.stdout.decode().splitlines()]

    def _command(self, hosts: Path) -> list[str]:
        if self.kafka is not None:
            options = [f"-Djdk.net.hosts.file={hosts}", *self.options]
            return [java_command(), *options, "-cp", f"{kafka_jars(self.kafka)}/*", str(self.source)]
        # librdkafka asks the system for addresses: it gets an /etc/hosts of its own.
        own_hosts = 'mount --bind "$0" /etc/hosts && exec "$@"'
        alone = ["unshare", "--map-root-user", "--mount", "sh", "-c", own_hosts, str(hosts)]
        return [*alone, sys.executable, str(self.source)]


def servers(cluster: Cluster) -> str:
    """Return `bootstrap.servers`: every broker by its name, which is looked up in the addresses that `run` gets."""
    return ",".join(f"{cluster.addresses.name(broker)}:{KAFKA_PORT}" for broker in cluster.plan.brokers)


def ingresses(cluster: Cluster) -> dict[int, str]:
    """Return the address of each broker's ingress."""
    return {broker: cluster.addresses.ingress(broker) for broker in cluster.plan.brokers}

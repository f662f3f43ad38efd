"""A broker's own metrics, as it counts them: Kafka's JmxTool as a process that asks twice a second.

Only brokers of a plan with `jmx=True` can be asked. Knows the tool's output, nothing of what the values mean.
Invariant: every value carries the time at which the broker said it.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, NamedTuple

from ..host.addresses import JMX_PORT
from ..host.processes import Process, kill_all
from .jvm import LOGGING, jvm_command

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_INTERVAL_MS = 500
_PAIR = re.compile(r'^time,"(\d+)"\n.*,"([^"]+)"\n', re.MULTILINE)


def jmx_options(address: str) -> tuple[str, ...]:
    """Return a JVM's options that let any process on this machine read its MBeans at `address`."""
    prefix = "-Dcom.sun.management.jmxremote"
    return (
        prefix,
        f"{prefix}.host={address}",
        f"{prefix}.port={JMX_PORT}",
        f"{prefix}.rmi.port={JMX_PORT}",
        f"{prefix}.authenticate=false",
        f"{prefix}.ssl=false",
        f"-Djava.rmi.server.hostname={address}",
    )


class Reading(NamedTuple):
    t: float
    """The time on CLOCK_MONOTONIC, as the taps'."""
    value: float


class JmxWatch:
    """Asks for one attribute for the length of a block, from when the MBean appears.

    Args:
        address: of the broker.
        mbean: such as `kafka.server:type=LeaderReplication`.
        attribute: such as `byte-rate`.
        home: a folder for the process' files; made.
        jars: class path folder.
    """

    def __init__(self, address: str, mbean: str, attribute: str, *, home: Path, jars: Path) -> None:
        home.mkdir(parents=True)
        (home / "log4j.properties").write_text(LOGGING.format(file=home / "jmx.log"), encoding="ascii")
        command = jvm_command(
            "org.apache.kafka.tools.JmxTool",
            "--jmx-url", f"service:jmx:rmi:///jndi/rmi://{address}:{JMX_PORT}/jmxrmi",
            "--object-name", mbean, "--attributes", attribute,
            "--reporting-interval", str(_INTERVAL_MS), "--report-format", "csv", "--wait",
            home=home, jars=jars, heap_mb=64,
        )  # fmt: skip
        self.process = Process(f"jmx of {address}", command, output=home / "output.log")

    def __enter__(self) -> JmxWatch:
        self.process.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        kill_all([self.process])

    def readings(self) -> list[Reading]:
        """Return the broker's readings so far, oldest first."""
        ahead = time.time() - time.monotonic()
        return [
            Reading(t - ahead, value) for t, value in parse_jmx_tool(self.process.output.read_text("utf-8", "replace"))
        ]


def parse_jmx_tool(text: str) -> list[tuple[float, float]]:
    """Return (epoch seconds, value) of each pair of lines `time,"1700000000000"` and `<mbean>:<attribute>,"12.5"`."""
    return [(int(time_ms) / 1000, float(value)) for time_ms, value in _PAIR.findall(text)]

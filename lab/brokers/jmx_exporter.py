"""Prometheus' JMX exporter as a Java agent of the lab's brokers: their own metrics, scraped as in production.

Knows which jar, and how a JVM is given an agent; the configuration says what is exported. Invariant: a jar under
the final name is complete, because it only ever appears there by one rename.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from ..errors import LabError
from ..host.addresses import EXPORTER_PORT
from .jars import cache_directory, required_command

VERSION = "1.0.1"
_TAIL_LINES = 15


def exporter_options(address: str, configuration: Path) -> tuple[str, ...]:
    """Return a JVM's options that serve its metrics at `address`:EXPORTER_PORT. Raises LabError, see `exporter_jar`."""
    return (f"-javaagent:{exporter_jar()}={address}:{EXPORTER_PORT}:{configuration}",)


def exporter_jar(*, cache: Path | None = None) -> Path:
    """Return the agent's jar; Maven downloads it (3 MB) the first time.

    Raises:
        LabError: mvn is missing, or failed (its last lines are in the message).
    """
    target = (cache or cache_directory()) / f"jmx_prometheus_javaagent-{VERSION}.jar"
    if not target.exists():
        _download(target)
    return target


def _download(target: Path) -> None:
    mvn = required_command("mvn", f"Maven 3 (Debian: apt-get install maven), or put the jar at {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".filling-", dir=target.parent) as scratch:
        command = [
            mvn, "--batch-mode", "-q", "dependency:copy",
            f"-Dartifact=io.prometheus.jmx:jmx_prometheus_javaagent:{VERSION}", f"-DoutputDirectory={scratch}",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        jar = Path(scratch, target.name)
        if done.returncode != 0 or not jar.exists():
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-_TAIL_LINES:])
            raise LabError(f"Maven could not fetch the JMX exporter {VERSION}:\n{tail}")
        jar.rename(target)

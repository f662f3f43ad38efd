"""The brokers' jar files: fetched once by Maven into a cache folder, found there ever after.

Knows nothing of clusters. Invariant: a folder under the final name is complete, because it only ever
appears there by one rename; two labs that fill the cache at once both succeed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULT_KAFKA_VERSION = "3.9.1"
_POM = Path(__file__).with_name("pom.xml")
_TAIL_LINES = 15
_DOWNLOADED = re.compile(r"^\S*\s*Downloaded from .* \((?P<size>[0-9.]+) (?P<unit>B|kB|MB) at ")
_UNITS = {"B": 1, "kB": 1000, "MB": 1000_000}


class Fetched(NamedTuple):
    """The progress of Maven: how many of its own parts, and how many jars, it has brought so far."""

    files: int
    size_bytes: float


def cache_directory() -> Path:
    """Return `$XDG_CACHE_HOME/kafka-throttle-sidecar`, or the same under `~/.cache`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "kafka-throttle-sidecar"


def java_command() -> str:
    """Return the path of `java`.

    Raises:
        LabError: there is none.
    """
    return required_command("java", "a Java 17 runtime (Debian: apt-get install openjdk-17-jre-headless)")


def kafka_jars(
    version: str = DEFAULT_KAFKA_VERSION, *, cache: Path | None = None, tell: Callable[[Fetched], None] = lambda _: None
) -> Path:
    """Return the folder that holds every jar a broker of this version needs; `<folder>/*` is its class path.

    Blocks while Maven downloads (56 MB, the first time only), and calls `tell` after each file.

    Raises:
        LabError: java or mvn is missing, or Maven failed (its last lines are in the message).
    """
    java_command()
    pom = _POM.read_bytes()
    target = (cache or cache_directory()) / f"kafka-{version}-{hashlib.sha256(pom).hexdigest()[:8]}"
    if not target.is_dir():
        _fill(target, version, tell)
    return target


def scala_version(kafka: str) -> str:
    """Return the Scala version of a Kafka release's build: 2.13 since there is one (2.4), 2.11 before."""
    return "2.13" if version_numbers(kafka) >= (2, 4) else "2.11"


def version_numbers(version: str) -> tuple[int, ...]:
    """Return (0, 10, 1, 1) for 0.10.1.1, so that versions can be compared. Raises ValueError."""
    return tuple(int(number) for number in version.split("."))


def _fill(target: Path, version: str, tell: Callable[[Fetched], None]) -> None:
    mvn = required_command("mvn", f"Maven 3 (Debian: apt-get install maven), or put the jars into {target}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".filling-", dir=target.parent) as scratch:
        jars = Path(scratch, "jars")
        command = [
            mvn, "--batch-mode", f"-Dkafka.version={version}", f"-Dscala.version={scala_version(version)}",
            "-f", str(_POM), "dependency:copy-dependencies", f"-DoutputDirectory={jars}",
        ]  # fmt: skip
        status, said = _run_maven(command, tell)
        if status != 0 or not list(jars.glob(f"kafka-clients-{version}.jar")):
            tail = "\n".join(said[-_TAIL_LINES:])
            raise LabError(f"Maven could not fetch the jars of Kafka {version}:\n{tail}")
        try:
            jars.rename(target)
        except OSError:
            # Another lab was faster. Its folder is as complete as ours.
            if not target.is_dir():
                raise


def _run_maven(command: list[str], tell: Callable[[Fetched], None]) -> tuple[int, list[str]]:
    """Run Maven; return its exit status and the last lines of its output."""
    fetched, said = Fetched(0, 0.0), list[str]()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as maven:
        for line in maven.stdout or ():
            found = _DOWNLOADED.match(line)
            if found is None:
                said = [*said[-_TAIL_LINES:], line.rstrip()] if "Downloading from" not in line else said
                continue
            size = float(found["size"]) * _UNITS[found["unit"]]
            fetched = Fetched(fetched.files + 1, fetched.size_bytes + size)
            tell(fetched)
    return maven.returncode, said


def required_command(command: str, what: str) -> str:
    """Return the path of a program. Raises LabError that says what to install."""
    found = shutil.which(command)
    if found is None:
        raise LabError(f"`{command}` was not found on PATH: the lab needs {what}")
    return found

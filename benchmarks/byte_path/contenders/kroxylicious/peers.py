"""Two configurations: no filter at all, and one filter that has Fetch requests and responses decoded.

Invariant: a folder under the final name in the cache is complete, because it only ever appears there by one rename.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from lab.brokers.jars import cache_directory

from ..peer import MissingError, Peer, Place

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = "0.10.0"
FILTER = "LookAtFetches"
JIT_SECONDS = 4.0
_HERE = Path(__file__).parent
_SOURCES = ("pom.xml", "Launcher.java", f"{FILTER}.java")
_SERVICE = "META-INF/services/io.kroxylicious.proxy.filter.FilterFactory"
_TAIL_LINES = 5
_CONFIGURATION = """virtualClusters:
  bench:
    targetCluster:
      bootstrapServers: 127.0.0.1:{leader}
    clusterNetworkAddressConfigProvider:
      type: PortPerBrokerClusterNetworkAddressConfigProvider
      config:
        bootstrapAddress: 127.0.0.1:{port}
        numberOfBrokerPorts: 1
        brokerStartPort: {broker}
"""
_FILTERS = f"""filterDefinitions:
- name: look
  type: {FILTER}
defaultFilters:
- look
"""


def class_path() -> str:
    """Return the class path of the runtime and our classes, fetched and compiled the first time.

    Raises MissingError.
    """
    content = b"".join((_HERE / name).read_bytes() for name in _SOURCES)
    target = cache_directory() / f"kroxylicious-{VERSION}-{hashlib.sha256(content).hexdigest()[:8]}"
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".filling-", dir=target.parent) as scratch:
            _fill(Path(scratch, "all"))
            Path(scratch, "all").rename(target)
    return f"{target}/classes:{target}/jars/*"


def _fill(folder: Path) -> None:
    jars, classes = folder / "jars", folder / "classes"
    service = classes / _SERVICE
    service.parent.mkdir(parents=True)
    service.write_text(f"{FILTER}\n", "ascii")
    version = f"-Dkroxylicious.version={VERSION}"
    _run("mvn", "--batch-mode", "-q", version, "-f", str(_HERE / "pom.xml"), "dependency:copy-dependencies",
         f"-DoutputDirectory={jars}")  # fmt: skip
    _run("javac", "-d", str(classes), "-cp", f"{jars}/*", *(str(_HERE / name) for name in _SOURCES[1:]))


def _run(name: str, *arguments: str) -> None:
    if shutil.which(name) is None:
        raise MissingError(f"{name} is not here: apt-get install --no-install-recommends maven openjdk-17-jdk-headless")
    done = subprocess.run([name, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join((done.stdout + done.stderr).splitlines()[-_TAIL_LINES:])
        raise MissingError(f"{name} could not get it:\n{last}")


def _kroxylicious(filters: str = "") -> Callable[[Place], list[str]]:
    def command(place: Place) -> list[str]:
        path = class_path()
        config = place.home / "config.yaml"
        config.write_text(filters + _CONFIGURATION.format(leader=place.leader, port=place.port, broker=place.http))
        return ["java", "-cp", path, "Launcher", str(config)]

    return command


def _version() -> str:
    return f"Kroxylicious {VERSION}, JVM's defaults,"


KROXYLICIOUS = (
    Peer("kroxylicious", "no filter", _kroxylicious(), _version, jit_seconds=JIT_SECONDS),
    Peer(
        "kroxylicious-decode",
        "one filter that has Fetch decoded",
        _kroxylicious(_FILTERS),
        _version,
        jit_seconds=JIT_SECONDS,
    ),
)

"""KRaft: what brokers need of it besides their own properties, and a formatted storage without a JVM per node.

The first broker of a cluster is its controller too. Controllers are met by address, not by name: the metadata log
never passes sidecars or taps. Knows no process but Kafka's own StorageTool, which runs once per release and cache.
Invariant: a template in the cache is complete, because it appears there by one rename.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import LabError
from ..host.addresses import CONTROLLER_PORT, KAFKA_PORT
from ..wire.identifiers import new_kafka_uuid
from .jvm import LOGGING, jvm_command

if TYPE_CHECKING:
    from ..host.addresses import Addresses

_TOOL_SECONDS = 120.0
_META_PROPERTIES = "meta.properties"
_TAIL_LINES = 15

_SESSION_PROPERTIES = {
    # As in ZooKeeper mode here: after a kill, another leader is elected, and the broker may come back, only when it
    # ends.
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "1000",
}


def kraft_properties(addresses: Addresses, broker: int) -> dict[str, str]:
    """Return server.properties of one node: roles, listeners, and where the controller is."""
    controller = addresses.brokers[0]
    listener = f"PLAINTEXT://{addresses.name(broker)}:{KAFKA_PORT}"
    listeners = [listener]
    if broker == controller:
        listeners.append(f"CONTROLLER://{addresses.direct(controller)}:{CONTROLLER_PORT}")
    return {
        "node.id": str(broker),
        "process.roles": "broker,controller" if broker == controller else "broker",
        "listeners": ",".join(listeners),
        "advertised.listeners": listener,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"{controller}@{addresses.direct(controller)}:{CONTROLLER_PORT}",
        **_SESSION_PROPERTIES,
    }


def storage_template(release_version: str, *, jars: Path, scram: tuple[str, str, str] | None = None) -> Path:
    """Return a folder with the output of `kafka-storage format --release-version`, made beside the jars the first time.

    Blocks while a JVM runs (2 s, the first time only).

    Args:
        release_version: such as 3.9.
        jars: of the release's binaries.
        scram: (mechanism, user, password) of a user that the cluster knows from its first moment on, from 3.5 on.

    Raises:
        LabError: the tool failed (its last lines are in the message).
    """
    suffix = "" if scram is None else f"-{scram[0].lower()}"
    target = jars.with_name(f"{jars.name}-storage-{release_version}{suffix}")
    if not target.is_dir():
        _fill(target, release_version, jars, scram)
    return target


def format_storage(log_dir: Path, template: Path, *, node: int, cluster_id: str) -> None:
    """Make a node's log directory from a template: the same bootstrap records, an identity of its own.

    Nothing happens to a directory that exists: it has been formatted.
    """
    if log_dir.exists():
        return
    # From 4.4 on the bootstrap records are the first snapshot of the metadata's log, in a folder.
    shutil.copytree(template, log_dir, ignore=shutil.ignore_patterns(_META_PROPERTIES))
    identity = {"version": "1", "cluster.id": cluster_id, "node.id": str(node), "directory.id": new_kafka_uuid()}
    (log_dir / _META_PROPERTIES).write_text("".join(f"{k}={v}\n" for k, v in identity.items()), encoding="ascii")


def _fill(target: Path, release_version: str, jars: Path, scram: tuple[str, str, str] | None) -> None:
    with tempfile.TemporaryDirectory(prefix=".formatting-", dir=target.parent) as scratch:
        home, storage = Path(scratch), Path(scratch, "storage")
        config = home / "server.properties"
        config.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
            "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            f"controller.quorum.voters=1@127.0.0.1:9093\nlog.dirs={storage}\n",
            encoding="ascii",
        )
        (home / "log4j.properties").write_text(LOGGING.format(file=home / "format.log"), encoding="ascii")
        users = [] if scram is None else ["--add-scram", "{}=[name={},password={}]".format(*scram)]
        command = jvm_command(
            "kafka.tools.StorageTool", "format", "--cluster-id", new_kafka_uuid(), "--config", str(config),
            "--release-version", release_version, *users, home=home, jars=jars,
        )  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TOOL_SECONDS)
        if done.returncode != 0 or not (storage / _META_PROPERTIES).is_file():
            last = "\n".join((done.stdout + done.stderr).splitlines()[-_TAIL_LINES:])
            raise LabError(f"Kafka's StorageTool could not format for release {release_version}:\n{last}")
        try:
            storage.rename(target)
        except OSError:
            # Another lab was faster. Its folder is as complete as ours.
            if not target.is_dir():
                raise

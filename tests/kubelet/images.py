"""What the node's pods are made of, as archives: our own images, a broker's, and the one that holds a pod together.

A broker's is the tests' Debian with its JRE and the jars that the lab fetches; it takes the same environment as
apache/kafka's, so that manifests need no other words. No registry is asked.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import lab.kubernetes
from lab.brokers.jars import kafka_jars, required_command
from lab.kubernetes.node_files import SANDBOX_IMAGE
from tests.deploy.containers import BASE_IMAGE, IMAGE, REDIRECT_IMAGE

if TYPE_CHECKING:
    from tests.deploy.containers import Containers

KAFKA = "4.1.0"
_FILES = Path(lab.kubernetes.__file__).with_name("broker")
_STARTED_BY = b"".join(path.read_bytes() for path in sorted(_FILES.iterdir()))
BROKER_IMAGE = f"localhost/lab-kafka:{KAFKA}-{hashlib.sha256(_STARTED_BY).hexdigest()[:8]}"
_INSTALL = """
set -e
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends openjdk-17-jre-headless
apt-get clean
"""
_JAVA_IMAGE = f"localhost/debian-java:{hashlib.sha256(_INSTALL.encode()).hexdigest()[:8]}"


def archive_images(containers: Containers, folder: Path) -> list[Path]:
    """Build what is missing and write one archive for each image; blocks for minutes the first time."""
    containers.build()
    _build_java(containers)
    _build_broker(containers)
    _build_sandbox(containers)
    archives = []
    for image in (SANDBOX_IMAGE, IMAGE, REDIRECT_IMAGE, BROKER_IMAGE):
        archive = folder / f"{image.rpartition('/')[2].replace(':', '-')}.tar"
        containers.podman("save", "--format=docker-archive", f"--output={archive}", image)
        archives.append(archive)
    return archives


def _build_java(containers: Containers) -> None:
    if not _is_there(containers, _JAVA_IMAGE):
        install = ("--isolation=chroot", "--network=host")
        _commit(containers, BASE_IMAGE, _JAVA_IMAGE, [("run", *install, "{}", "--", "sh", "-c", _INSTALL)])


def _build_broker(containers: Containers) -> None:
    if _is_there(containers, BROKER_IMAGE):
        return
    copies = [("copy", "{}", str(kafka_jars(KAFKA)), "/opt/kafka/libs"), ("copy", "{}", str(_FILES), "/opt/kafka")]
    start = ("config", "--entrypoint", '["/opt/kafka/start.sh"]', "--cmd", "", "{}")
    _commit(containers, _JAVA_IMAGE, BROKER_IMAGE, [*copies, start])


def _build_sandbox(containers: Containers) -> None:
    """One static program that does nothing but reap."""
    program = required_command("catatonit", "containers' first process (Debian: apt-get install catatonit)")
    steps = [
        ("copy", "{}", str(Path(program).resolve()), "/catatonit"),
        ("config", "--entrypoint", '["/catatonit", "-P"]', "{}"),
    ]
    _commit(containers, "scratch", SANDBOX_IMAGE, steps)


def _is_there(containers: Containers, image: str) -> bool:
    return bool(containers.run("podman", "images", "--quiet", image))


def _commit(containers: Containers, base: str, image: str, steps: list[tuple[str, ...]]) -> None:
    made = containers.run("buildah", "from", "--pull-never", base).strip()
    try:
        for step in steps:
            containers.run("buildah", *(made if word == "{}" else word for word in step))
        containers.run("buildah", "commit", "--format=docker", made, image)
    finally:
        containers.run("buildah", "rm", made)

"""A container whose first process is systemd: the nearest to a host that runs where there are no virtual machines.

An installed system (`tests.deploy.systems`) with systemd and what the packages recommend, booted by podman in a network
namespace of somebody's. Invariant: `close` ends everything in it, and nothing of it is left.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from typing import TYPE_CHECKING

from tests.deploy.systems import BARE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.deploy.containers import Containers

_PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "iptables", "iproute2",
    "rpm", "ansible-core", "python3-apt",  # what installs there besides apt
)  # fmt: skip
# Kernel settings and modules are this machine's, and nobody logs in.
_MASKED = (
    "systemd-sysctl.service",
    "systemd-modules-load.service",
    "console-getty.service",
    "getty.target",
    "systemd-networkd-wait-online.service",
)
_INSTALL = f"""
set -e
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends {" ".join(_PACKAGES)}
apt-get clean
systemctl mask {" ".join(_MASKED)}
"""
_BOOT_SECONDS = 60.0


class Booted:
    """Made by `start`; a command that fails raises AssertionError with all that it said."""

    def __init__(self, containers: Containers, system: str, name: str) -> None:
        self._containers, self._system = containers, BARE[system]
        made_of = hashlib.sha256(_INSTALL.encode()).hexdigest()[:8]
        self.image = f"{self._system.image.replace('bare-', 'booted-')}-{made_of}"
        self.name = name

    def make_image(self) -> None:
        """Once; blocks for minutes then."""
        run = self._containers.run
        if run("podman", "images", "--quiet", self.image):
            return
        self._containers.build_system(self._system)
        made = run("buildah", "from", "--pull-never", self._system.image).strip()
        try:
            run("buildah", "run", "--isolation=chroot", "--network=host", made, "--", "sh", "-c", _INSTALL)
            run("buildah", "config", "--cmd", "/sbin/init", made)
            run("buildah", "commit", "--format=docker", made, self.image)
        finally:
            run("buildah", "rm", made)

    def boot(self, network: str, folders: Sequence[tuple[Path, str]]) -> None:
        """Until every unit has been started. The folders, by where they are seen, can only be read there."""
        volumes = [f"--volume={folder}:{seen}:ro" for folder, seen in folders]
        self._containers.podman(
            "run", "--detach", "--rm", "--replace", f"--name={self.name}", "--pull=never", "--systemd=always",
            "--privileged", f"--network={network}", "--ulimit=host", *volumes, self.image,
        )  # fmt: skip
        deadline = time.monotonic() + _BOOT_SECONDS
        while (state := self.ask("systemctl is-system-running")) not in ("running", "degraded"):
            assert time.monotonic() < deadline, state
            time.sleep(0.2)

    def ask(self, script: str) -> str:
        """What a shell says, be its status what it may."""
        return self._shell(script).stdout.strip()

    def run(self, script: str) -> str:
        done = self._shell(f"set -e\n{script}")
        assert done.returncode == 0, f"{script}: status {done.returncode}:\n{done.stdout}"
        return done.stdout.strip()

    def command(self, *arguments: str) -> list[str]:
        """What runs a command in it, for a process of somebody else's."""
        environment = [f"{key}={value}" for key, value in self._containers.environment.items()]
        return ["env", *environment, "podman", "exec", self.name, *arguments]

    def close(self) -> None:
        self._containers.podman("rm", "--force", "--time=1", "--ignore", self.name)

    def _shell(self, script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command("bash", "-c", script), env=dict(os.environ), check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

"""Building and running the image on a machine that has no registry and no Docker: buildah, podman and runc.

The base is made by debootstrap, once, and kept with all layers in a storage of our own below the lab's cache: the
machine's other images and settings are neither seen nor touched. Trusts what the machine trusts: its certificates and
its package index reach the build as mounts, so the Dockerfile knows nothing of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from lab.brokers.jars import cache_directory
from lab.errors import LabError

from .systems import BASE, System

ROOT = Path(__file__).parents[2]
BASE_IMAGE = BASE.image
BARE_BASE_IMAGE = f"{BASE_IMAGE}-bare"
IMAGE = "localhost/kafka-throttle-sidecar:ci"
REDIRECT_IMAGE = "localhost/kafka-throttle-sidecar-redirect:ci"
GRACE_SECONDS = 15
HARDENED = (
    "--read-only", "--read-only-tmpfs=false", "--cap-drop=ALL", "--security-opt=no-new-privileges",
    "--memory=256m", "--pids-limit=64",
)  # fmt: skip
_NEEDED = {"buildah": "buildah", "podman": "podman", "runc": "runc", "debootstrap": "debootstrap", "tar": "tar"}
_OF_THE_MACHINE = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf", "/etc/resolv.conf")
_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
_TAIL_LINES = 25
_CONTAINERS_CONF = """[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "/run/kafka-throttle-sidecar"
"""
_STORAGE_CONF = """[storage]
driver = "overlay"
graphroot = "{home}/storage"
runroot = "/run/kafka-throttle-sidecar/run"
"""


class Containers:
    """Raises LabError, for what is missing and for commands that fail."""

    def __init__(self) -> None:
        missing = [f"`{c}` (Debian: apt-get install {p})" for c, p in _NEEDED.items() if shutil.which(c) is None]
        if missing:
            raise LabError(f"the image cannot be built: {', '.join(missing)} not found")
        if os.geteuid() != 0:
            raise LabError("the image is built and run by root here: debootstrap and the overlay storage need it")
        home = cache_directory() / "containers"
        home.mkdir(parents=True, exist_ok=True)
        (home / "containers.conf").write_text(_CONTAINERS_CONF, encoding="ascii")
        (home / "storage.conf").write_text(_STORAGE_CONF.format(home=home), encoding="ascii")
        self.environment = {
            "CONTAINERS_CONF": str(home / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(home / "storage.conf"),
            "DISABLE_HC_SYSTEMD": "true",
        }

    def build_base(self) -> None:
        """Debian with its Python; blocks for minutes the first time."""
        self.build_system(BASE)

    def build_system(self, system: System) -> None:
        """An operating system as it is installed first; blocks for minutes the first time."""
        if not self._has(system.image):
            self._make_system(system)

    def build(self) -> None:
        """Both images, from the cached base; blocks for minutes the first time, for seconds afterwards."""
        self.build_base()
        self.build_image(REDIRECT_IMAGE, "--layers", "--target=redirect")
        self.build_image(IMAGE, "--layers")
        self.run("podman", "image", "prune", "--force", "--filter=until=48h")

    def build_image(self, tag: str, *options: str, base: str = BASE_IMAGE) -> None:
        """One image, from the cached base or one that has been made of it."""
        self.run(
            "buildah", "bud", "--format=docker", *self.build_options(),
            f"--build-arg=BASE_IMAGE={base}", *options, f"--tag={tag}", str(ROOT),
        )  # fmt: skip

    def build_bare_base(self) -> None:
        """The cached base without bytecode, as Python's official images are."""
        with tempfile.TemporaryDirectory(prefix="bare-base-") as folder:
            stripped = f"FROM {BASE_IMAGE}\nRUN find / -xdev -name '*.pyc' -delete\n"
            Path(folder, "Dockerfile").write_text(stripped, "ascii")
            self.run("buildah", "bud", "--layers", *self.build_options(), f"--tag={BARE_BASE_IMAGE}", folder)

    def build_options(self) -> tuple[str, ...]:
        """What a build asks for on a machine without a registry."""
        mounts = [f"--volume={path}:{path}:ro" for path in _OF_THE_MACHINE if Path(path).exists()]
        return "--isolation=chroot", "--network=host", "--pull-never", *mounts

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command with this storage, return what it said on standard output."""
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env={**os.environ, **self.environment}
        )
        if check and done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-_TAIL_LINES:])
            raise LabError(f"{' '.join(command)} ended with status {done.returncode}:\n{tail}")
        return done.stdout

    def podman(self, *arguments: str, check: bool = True) -> str:
        return self.run("podman", *arguments, check=check)

    def inspect(self, name: str, *, kind: str = "container") -> dict[str, Any]:
        """A container, or an image."""
        found: list[dict[str, Any]] = json.loads(self.podman("inspect", f"--type={kind}", name))
        return found[0]

    def program(self, name: str, folder: Path, *options: str, image: str = IMAGE) -> list[str]:
        """The command that runs the sidecar's image in the foreground, hardened, its files in `folder`."""
        environment = [f"{key}={value}" for key, value in self.environment.items()]
        return [
            "env", *environment, "podman", "run", "--pull=never", "--replace", f"--name={name}", *HARDENED, *options,
            # Under its own name for the lab, and where the health check looks.
            f"--volume={folder}:{folder}:ro", f"--volume={folder}:/etc/throttle-sidecar:ro", image,
        ]  # fmt: skip

    def _has(self, image: str) -> bool:
        command = ["podman", "image", "exists", image]
        return subprocess.run(command, env={**os.environ, **self.environment}, check=False).returncode == 0

    def _make_system(self, system: System) -> None:
        mirror = os.environ.get(system.mirror_variable, system.mirror)
        with tempfile.TemporaryDirectory(prefix="debootstrap-") as folder:
            root = Path(folder, "root")
            what = (*system.options, f"--include={','.join(system.packages)}", system.suite, str(root), mirror)
            try:
                self.run("debootstrap", "--variant=minbase", *what, *system.script)
            except LabError as error:
                error.add_note(
                    f"{system.image} is made of packages from {mirror}; {system.mirror_variable} names another"
                )
                raise
            (root / "etc/apt/sources.list").write_text(system.sources(mirror), encoding="ascii")
            for leftover in ("var/cache/apt", "var/lib/apt/lists"):
                shutil.rmtree(root / leftover)
                (root / leftover / "partial").mkdir(parents=True)
            archive = Path(folder, "base.tar")
            self.run("tar", "--create", "--numeric-owner", f"--file={archive}", f"--directory={root}", ".")
            self.podman("import", '--change=CMD ["python3"]', f"--change=ENV PATH={_PATH}", str(archive), system.image)

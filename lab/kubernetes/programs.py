"""The servers of a Kubernetes control plane, and helm 3: compiled once from Go modules, found in the cache ever after.

    python -m lab.kubernetes.programs

Ten minutes of two cores the first time, as `make kubernetes` says. Which versions, and the checksum of each module, is
in `source/`. Invariant: a folder under its final name is complete, since it appears there by one rename only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ..errors import LabError
from ..jars import cache_directory, required_command

SOURCE = Path(__file__).with_name("source")
VERSION = "1.36.3"
PACKAGES = {
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "etcd": "./etcd",
    "helm": "helm.sh/helm/v3/cmd/helm",
}


def server_programs() -> Path:
    """The folder that holds every program of `PACKAGES`.

    Raises LabError: they have not been built.
    """
    folder = _folder()
    if not folder.is_dir():
        raise LabError(f"the servers of Kubernetes {VERSION} are not in {folder} yet: `make kubernetes` builds them")
    return folder


def build() -> Path:
    """Build them unless they are there; progress goes to standard error. Blocks for minutes.

    Raises LabError: there is no Go, or it could not build them.
    """
    folder = _folder()
    if folder.is_dir():
        return folder
    locked = Path(sys.executable).with_name("go")  # of the dependency group `kubernetes`, for x86-64
    go = str(locked) if locked.exists() else required_command("go", "Go 1.26 or later, to build Kubernetes' servers")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=folder.parent) as scratch:
        programs = Path(scratch, "programs")
        programs.mkdir()
        # A copy: somebody may check out another branch in the minutes that it takes.
        source = shutil.copytree(SOURCE, Path(scratch, "source"))
        for name, package in PACKAGES.items():
            print(f"building {name} ({', '.join(PACKAGES)}); minutes, this once", file=sys.stderr, flush=True)
            _go_build(go, source, package, programs / name)
        try:
            programs.rename(folder)
        except OSError:
            # Another process was faster.
            if not folder.is_dir():
                raise
    return folder


def _folder() -> Path:
    content = b"".join(path.read_bytes() for path in sorted(SOURCE.rglob("*")) if path.is_file())
    return cache_directory() / f"kubernetes-{VERSION}-{hashlib.sha256(content).hexdigest()[:8]}"


def _go_build(go: str, source: Path, package: str, program: Path) -> None:
    major, minor, _ = VERSION.split(".")
    # Without these kubectl takes the server for one of version 0.0.
    told = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor}
    flags = " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in told.items())])
    command = [go, "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", flags]
    done = subprocess.run(
        [*command, "-o", str(program), package], cwd=source, env={**os.environ, "CGO_ENABLED": "0"}, check=False
    )
    if done.returncode:
        raise LabError(f"Go could not build {package}: see what it said above")


if __name__ == "__main__":
    try:
        print(build())
    except LabError as error:
        sys.exit(f"error: {error}")

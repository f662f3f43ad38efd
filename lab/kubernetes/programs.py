"""The servers of a Kubernetes cluster, and helm 3: compiled once from Go modules, found in the cache ever after.

    python -m lab.kubernetes.programs [control-plane] [kyverno] [node]

Ten minutes of two cores the first time, as `make kubernetes` says. Which versions, and the checksum of each module, is
in `source/` and `node_source/`. Invariant: a folder under its final name is complete, since it appears there by one
rename only.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..brokers.jars import cache_directory, required_command
from ..errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping

SOURCE = Path(__file__).with_name("source")
NODE_SOURCE = Path(__file__).with_name("node_source")
"""A module of its own: containerd wants later versions of Kubernetes' libraries than Kubernetes' servers."""
KYVERNO_SOURCE = Path(__file__).with_name("kyverno_source")
VERSION = "1.36.3"


class Programs(NamedTuple):
    """The programs that are built together, and the verb that builds them."""

    name: str
    verb: str
    packages: Mapping[str, tuple[Path, str]]
    """The Go module and its package of each program."""


CONTROL_PLANE = Programs(
    "control-plane",
    "make kubernetes",
    {
        "kube-apiserver": (SOURCE, "k8s.io/kubernetes/cmd/kube-apiserver"),
        "kube-controller-manager": (SOURCE, "k8s.io/kubernetes/cmd/kube-controller-manager"),
        "etcd": (SOURCE, "./etcd"),
        "helm": (SOURCE, "helm.sh/helm/v3/cmd/helm"),
    },
)
KYVERNO = Programs(
    "kyverno",
    "make kubernetes",
    {"kyverno": (KYVERNO_SOURCE, "github.com/kyverno/kyverno/cmd/cli/kubectl-kyverno")},
)
"""Kyverno's command line, which applies its policies without a cluster."""
NODE = Programs(
    "node",
    "make kubelet",
    {
        "kubelet": (SOURCE, "k8s.io/kubernetes/cmd/kubelet"),
        "containerd": (NODE_SOURCE, "github.com/containerd/containerd/v2/cmd/containerd"),
        # By these names containerd looks for them.
        "containerd-shim-runc-v2": (NODE_SOURCE, "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"),
        "bridge": (NODE_SOURCE, "github.com/containernetworking/plugins/plugins/main/bridge"),
        "host-local": (NODE_SOURCE, "github.com/containernetworking/plugins/plugins/ipam/host-local"),
        "ctr": (NODE_SOURCE, "github.com/containerd/containerd/v2/cmd/ctr"),
    },
)


def built(programs: Programs) -> Path:
    """Return the folder that holds every one of these programs, having built them if need be.

    Raises LabError: they have not been built.
    """
    folder = _folder(programs)
    if not folder.is_dir():
        missing = f"what the {programs.name} of Kubernetes {VERSION} runs is not in {folder} yet"
        raise LabError(f"{missing}: `{programs.verb}` builds it")
    return folder


def build(programs: Programs) -> Path:
    """Build them unless they are there; progress goes to standard error. Blocks for minutes.

    Raises LabError: there is no Go, or it could not build them.
    """
    folder = _folder(programs)
    if folder.is_dir():
        return folder
    locked = Path(sys.executable).with_name("go")  # of the dependency group `kubernetes`, for x86-64
    go = str(locked) if locked.exists() else required_command("go", "Go 1.26 or later, to build Kubernetes' servers")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=folder.parent) as scratch:
        complete = Path(scratch, "programs")
        complete.mkdir()
        # Copies: another branch may be checked out in the minutes that it takes.
        modules = {module for module, _ in programs.packages.values()}
        copies = {module: shutil.copytree(module, Path(scratch, module.name)) for module in modules}
        for name, (module, package) in programs.packages.items():
            print(f"building {name} ({', '.join(programs.packages)}); minutes, this once", file=sys.stderr, flush=True)
            _go_build(go, copies[module], package, complete / name)
        try:
            complete.rename(folder)
        except OSError:
            # Another process was faster.
            if not folder.is_dir():
                raise
    return folder


def _folder(programs: Programs) -> Path:
    modules = sorted({module for module, _ in programs.packages.values()})
    files = [path for module in modules for path in sorted(module.rglob("*")) if path.is_file()]
    content = b"".join(path.read_bytes() for path in files)
    return cache_directory() / f"kubernetes-{programs.name}-{VERSION}-{hashlib.sha256(content).hexdigest()[:8]}"


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


def main(names: list[str]) -> None:
    """Build those of these names, or what a control plane runs. Raises LabError."""
    known = {each.name: each for each in (CONTROL_PLANE, KYVERNO, NODE)}
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise LabError(f"expected some of {', '.join(known)}, found {', '.join(unknown)}")
    for name in names or [CONTROL_PLANE.name]:
        print(build(known[name]))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except LabError as error:
        sys.exit(f"error: {error}")

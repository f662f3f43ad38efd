"""`make release` in a fresh clone, what it makes installed; the image, twice the same. `make machines`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from deploy.packages.building import version
from tests.deploy.containers import ROOT, Containers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]

TAGS = ("localhost/kafka-throttle-sidecar:once", "localhost/kafka-throttle-sidecar:again")


def run(folder: Path, *command: str | Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **environment},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_a_fresh_clone_releases_what_the_readme_installs(tmp_path: Path, osv: str) -> None:
    """The audit's service is one of our own, which knows nothing bad."""
    clone, dist, venv = tmp_path / "clone", tmp_path / "clone" / "dist", tmp_path / "venv"
    run(tmp_path, "git", "clone", "--quiet", ROOT, clone)
    run(clone, "make", "release", OSV=osv)
    run(dist, "sha256sum", "--check", "--strict", "SHA256SUMS")
    made = {path.name for path in dist.iterdir()}
    ours, python = f"kafka-throttle-sidecar-{version()}", f"kafka_throttle_sidecar-{version()}"
    packages = {f"{ours}.deb", f"{ours}.rpm", f"{ours}.tgz", f"{ours}.cdx.json"}
    assert made == {f"{python}-py3-none-any.whl", f"{python}.tar.gz", "CHANGES.md", "SHA256SUMS"} | packages
    assert run(clone, "git", "status", "--porcelain") == ""
    run(tmp_path, sys.executable, "-m", "venv", venv)
    run(tmp_path, venv / "bin" / "pip", "install", "--quiet", *dist.glob("*.whl"))
    assert version() in run(tmp_path, venv / "bin" / "throttle-sidecar", "--version")
    run(tmp_path, venv / "bin" / "throttle-sidecar", "check", "--config", clone / "examples" / "proxy.toml")


def test_the_same_sources_and_base_are_the_same_image() -> None:
    """In OCI's form: in Docker's, buildah notes the names of its own containers beside the same layers."""
    containers = Containers()
    containers.build_base()
    for tag in TAGS:
        containers.build_image(tag, "--no-cache", "--timestamp=0", "--format=oci")
    first, second = (containers.inspect(tag, kind="image") for tag in TAGS)
    assert first["RootFS"] == second["RootFS"]
    assert first["Digest"] == second["Digest"]
    print(f"both are {first['Digest']}")  # noqa: T201 - shown by -rP

"""`make release` in a fresh clone, what it makes installed; the image, twice the same. `make machines`."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from deploy.commit import version
from deploy.release.images import ImagePlan, build_images
from deploy.release.provenance import sha256
from tests.deploy.containers import BASE_IMAGE, ROOT, Containers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.system, pytest.mark.timeout(900)]


def run(folder: Path, *command: str | Path, status: int = 0, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **environment},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout
    return done.stdout


def test_a_fresh_clone_releases_what_the_readme_installs(tmp_path: Path, osv: str) -> None:
    """The audit's service is one of our own, which knows nothing bad; the images' base is the tests'."""
    containers = Containers()
    containers.build_base()
    clone, dist, venv = tmp_path / "clone", tmp_path / "clone" / "dist", tmp_path / "venv"
    run(tmp_path, "git", "clone", "--quiet", ROOT, clone)
    options = shlex.join(containers.build_options())
    run(clone, "make", "release", OSV=osv, BASE_IMAGE=BASE_IMAGE, IMAGE_OPTIONS=options, **containers.environment)
    run(dist, "sha256sum", "--check", "--strict", "SHA256SUMS")
    made = {path.name for path in dist.iterdir()}
    ours, python = f"kafka-throttle-sidecar-{version()}", f"kafka_throttle_sidecar-{version()}"
    packages = {f"{ours}.deb", f"{ours}.rpm", f"{ours}.tgz"}
    images = {f"{ours}.oci.tar", f"kafka-throttle-sidecar-redirect-{version()}.oci.tar"}
    about = {f"{ours}.cdx.json", f"{ours}.provenance.json", "CHANGES.md", "SHA256SUMS"}
    wheels = {f"{python}-py3-none-any.whl", f"kafka_throttle_pipeline-{version()}-py3-none-any.whl"}
    assert made == wheels | {f"{python}.tar.gz"} | packages | images | about
    assert run(clone, "git", "status", "--porcelain") == ""
    run(tmp_path, sys.executable, "-m", "venv", venv)
    run(tmp_path, venv / "bin" / "pip", "install", "--quiet", *dist.glob("kafka_throttle_sidecar*.whl"))
    assert version() in run(tmp_path, venv / "bin" / "throttle-sidecar", "--version")
    run(tmp_path, venv / "bin" / "throttle-sidecar", "check", "--config", clone / "examples" / "proxy.toml")


def test_the_same_sources_and_base_are_the_same_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the byte of the archives, nothing cached."""
    containers = Containers()
    containers.build_base()
    for key, value in containers.environment.items():
        monkeypatch.setenv(key, value)
    plan = ImagePlan(BASE_IMAGE, containers.build_options())
    folders = tmp_path / "once", tmp_path / "again"
    for folder in folders:
        folder.mkdir()
    first, again = (build_images(folder, plan) for folder in folders)
    assert [image.digest for image in first] == [image.digest for image in again]
    assert [sha256(image.archive) for image in first] == [sha256(image.archive) for image in again]
    print("both times", *[f"{image.name} {image.digest}" for image in first])  # noqa: T201 - shown by -rP


def test_what_is_not_committed_is_not_released(tmp_path: Path, osv: str) -> None:
    clone = tmp_path / "clone"
    run(tmp_path, "git", "clone", "--quiet", ROOT, clone)
    (clone / "LICENSE").write_text("mine\n")
    said = run(clone, "make", "release", status=2, OSV=osv)
    assert "make release: changed since the commit that would be released: LICENSE; commit or stash" in said
    assert "Traceback" not in said

"""The two images as archives in OCI's layout, which no daemon and no registry is needed for: built by buildah.

The same commit on the same base gives the same digest: files have the commit's time, and nothing notes when and in
what container they were made. OCI's form has no health check; whoever runs the image by Docker or Podman asks for
`--health-cmd='throttle-sidecar health'`, and Kubernetes has probes.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from deploy.commit import ROOT, commit, commit_seconds, run, version

from .archive import pack
from .source import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Mapping

SIDECAR, REDIRECT = "kafka-throttle-sidecar", "kafka-throttle-sidecar-redirect"
BY_HAND = "urn:kafka-throttle-sidecar:built-by-hand"
_TARGETS = {SIDECAR: (), REDIRECT: ("--target=redirect",)}


class ImagePlan(NamedTuple):
    """The way images are built."""

    base: str
    """The image that both are built on, by its digest or, where it is of this machine alone, by its name."""

    options: tuple[str, ...] = ()
    """Further options of `buildah build`: --platform=linux/amd64,linux/arm64, --volume."""

    builder: str = BY_HAND
    """The URI of who builds, for the provenance: a CI's, if it is to be trusted more than a person's machine."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> ImagePlan:
        """Read BASE_IMAGE, IMAGE_OPTIONS and BUILDER; empty is as unset."""
        base = environment.get("BASE_IMAGE") or default_base()
        options = tuple(shlex.split(environment.get("IMAGE_OPTIONS", "")))
        return cls(base, options, environment.get("BUILDER") or BY_HAND)


class Image(NamedTuple):
    """One that was built."""

    name: str
    archive: Path
    digest: str
    """The digest of its index, sha256:…: what a registry calls it once it is pushed."""


def default_base() -> str:
    """Return the base that the Dockerfile names."""
    (found,) = re.findall(r"^ARG BASE_IMAGE=(\S+)$", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)
    return str(found)


def build_images(into: Path, plan: ImagePlan) -> list[Image]:
    """Build both and write an archive of each.

    Raises:
        ReleaseError: there is no buildah.
        CalledProcessError: buildah failed; its standard error says why.
    """
    if shutil.which("buildah") is None:
        raise ReleaseError("images are built by `buildah`, which was not found (Debian: apt-get install buildah)")
    return [_build(name, into, plan) for name in _TARGETS]


def base_digest(plan: ImagePlan) -> str:
    """Return the digest (sha256:…) of the base: as it is named, else of the one of this machine."""
    if "@" in plan.base:
        return plan.base.rpartition("@")[2]
    found: str = json.loads(run("buildah", "inspect", "--type=image", plan.base))["FromImageDigest"]
    return found


def _build(name: str, into: Path, plan: ImagePlan) -> Image:
    tag = f"localhost/{name}:{version()}"
    # An index is added to by a second build, not replaced.
    run("sh", "-c", 'buildah manifest rm "$1" >/dev/null 2>&1 || true', "sh", tag)
    about = {"BASE_IMAGE": plan.base, "VERSION": version(), "REVISION": commit()}
    arguments = [f"--build-arg={key}={value}" for key, value in about.items()]
    same = ("--format=oci", f"--timestamp={commit_seconds()}", "--no-cache", "--quiet")
    run("buildah", "build", *same, *arguments, *plan.options, *_TARGETS[name], f"--manifest={tag}", ROOT)
    with tempfile.TemporaryDirectory(dir=into) as folder:
        layout = Path(folder, "layout")
        run("buildah", "manifest", "push", "--quiet", "--all", tag, f"oci:{layout}:{version()}")
        archive = into / f"{name}-{version()}.oci.tar"
        pack(layout, archive)
        digest: str = json.loads((layout / "index.json").read_text("utf-8"))["manifests"][0]["digest"]
    return Image(name, archive, digest)

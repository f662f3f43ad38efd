"""Makes everything: wheels, sdist, chart, packages, images, what they are made of, where they came from, and sums.

Blocking. Invariants: the same commit gives the same bytes on the same base image by the same tools; a folder of a
release holds all of it, or what it held before.
"""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

from deploy.commit import ROOT, UV, run, version
from deploy.packages.building import build
from lab.kubernetes.clients import helm_command

from .archive import pack
from .images import build_images
from .materials import write_materials
from .provenance import sha256, write_provenance
from .source import changes, require_committed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .images import ImagePlan

DIST = ROOT / "dist"
STAGED = ROOT / "build" / "release"
SUMS = "SHA256SUMS"


def release(into: Path = DIST, *, plan: ImagePlan) -> list[Path]:
    """Return what was made.

    Raises:
        ReleaseError: files are not committed, the changelog has no entry, or a tool is missing.
        CalledProcessError: a tool failed.
    """
    require_committed()
    changelog = changes()
    publish(partial(_make, plan=plan, changelog=changelog), into, staged=STAGED)
    return sorted(into.iterdir())


def publish(make: Callable[[Path], None], into: Path, *, staged: Path) -> None:
    """Make everything in the folder `staged`, and put that in the place of `into` once all of it is there."""
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    make(staged)
    shutil.rmtree(into, ignore_errors=True)
    shutil.move(staged, into)


def _make(into: Path, *, plan: ImagePlan, changelog: str) -> None:
    run(UV, "build", "--quiet", "--out-dir", into)
    run(UV, "build", "--quiet", "--wheel", "--package", "kafka-throttle-pipeline", "--out-dir", into)
    (into / ".gitignore").unlink(missing_ok=True)
    build(into)
    _pack_chart(into)
    images = build_images(into, plan)
    write_materials(into / f"kafka-throttle-sidecar-{version()}.cdx.json")
    (into / "CHANGES.md").write_text(changelog, "utf-8")
    made = sorted(into.iterdir())
    provenance = into / f"kafka-throttle-sidecar-{version()}.provenance.json"
    write_provenance(provenance, made, images, plan)
    made = sorted([*made, provenance])
    (into / SUMS).write_text("".join(f"{sha256(path)}  {path.name}\n" for path in made), "utf-8")


def _pack_chart(into: Path) -> None:
    """Pack the chart as of the commit: helm would note the time of packing in the archive."""
    run(helm_command(), "package", ROOT / "deploy" / "helm", "--destination", into)
    archive = into / f"kafka-throttle-sidecar-{version()}.tgz"
    unpacked = into / "chart"
    unpacked.mkdir()
    run("tar", "-xzf", archive, "-C", unpacked)
    archive.unlink()
    pack(unpacked, archive)
    shutil.rmtree(unpacked)

"""The provenance of what is published: a statement of in-toto (v1) with the predicate of SLSA (provenance v1).

It says which commit, which base image and which locked libraries went in, what was asked for and who built it. It is
not signed: a key, or an identity that a registry knows, is whoever's who publishes. It has no times, so that the same
commit, built by the same tools, gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import platform
from typing import TYPE_CHECKING, Any

from deploy.commit import ROOT, UV, commit, run

from .images import base_digest
from .source import source_address

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from .images import Image, ImagePlan

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD = "urn:kafka-throttle-sidecar:make-release:v1"
_LOCKED = ("uv.lock", "uv.requirements.txt", "Dockerfile")


def write_provenance(path: Path, made: Iterable[Path], images: Iterable[Image], plan: ImagePlan) -> None:
    """Write the statement about these files and images. Raises CalledProcessError."""
    subjects = [{"name": file.name, "digest": {"sha256": sha256(file)}} for file in made]
    subjects += [{"name": image.name, "digest": {"sha256": image.digest.partition(":")[2]}} for image in images]
    predicate = {"buildDefinition": _definition(plan), "runDetails": {"builder": _builder(plan)}}
    statement = {"_type": STATEMENT, "subject": subjects, "predicateType": PREDICATE, "predicate": predicate}
    path.write_text(json.dumps(statement, indent=2) + "\n", "utf-8")


def sha256(path: Path) -> str:
    """Return the SHA-256 in hexadecimal digits; the file is read by pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _definition(plan: ImagePlan) -> dict[str, Any]:
    source: dict[str, Any] = {"name": "source", "digest": {"gitCommit": commit()}}
    if address := source_address():
        source["uri"] = f"{address}@{commit()}"
    base = {"uri": f"docker://{plan.base}", "digest": {"sha256": base_digest(plan).partition(":")[2]}}
    locked = [{"name": name, "digest": {"sha256": sha256(ROOT / name)}} for name in _LOCKED]
    return {
        "buildType": BUILD,
        "externalParameters": {"target": "release", "baseImage": plan.base, "imageOptions": list(plan.options)},
        "resolvedDependencies": [source, base, *locked],
    }


def _builder(plan: ImagePlan) -> dict[str, Any]:
    versions = {
        "buildah": run("buildah", "--version").split()[2],
        "python": platform.python_version(),
        "uv": run(UV, "--version").split()[1],
    }
    return {"id": plan.builder, "version": versions}

"""The bill of materials: the Python packages that the image and the packages ship, by CycloneDX 1.5. What the image's
base consists of is not in it."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

from deploy.commit import UV, commit, commit_time, run

if TYPE_CHECKING:
    from pathlib import Path


def write_materials(path: Path) -> None:
    """Write the materials as uv has them, without what differs from run to run. Raises CalledProcessError."""
    which = ("--frozen", "--no-dev", "--extra=operator", "--format=cyclonedx1.5")
    found: dict[str, Any] = json.loads(run(UV, "export", "--quiet", *which))
    found["metadata"]["timestamp"] = commit_time()
    found["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, commit())}"
    path.write_text(json.dumps(found, indent=2) + "\n", "utf-8")

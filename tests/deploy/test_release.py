"""What a release is made of that costs no network: bill of materials, changes. The packages: test_packages.py."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

from deploy.packages.building import version
from deploy.release import ROOT, changes, write_materials

if TYPE_CHECKING:
    from pathlib import Path


def test_the_bill_of_materials_names_what_is_shipped_and_is_the_same_twice(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_materials(tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    found = json.loads((tmp_path / "first").read_text())
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.5")
    names = {component["name"] for component in found["components"]}
    assert {"trio", "h11", "msgspec", "kafka-python"} <= names
    assert names & {"pytest", "pyspark", "mypy"} == set()


def test_the_changes_are_the_commits() -> None:
    newest = subprocess.run(
        ["git", "log", "-1", "--no-merges", "--format=%s"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert f"- {newest.stdout.strip()}\n" in changes()


def test_the_readme_installs_each_of_what_is_made() -> None:
    """What they are called is looked at where they are made: `make machines`."""
    lines = re.findall(r"dist/(\S+)", (ROOT / "README.md").read_text("utf-8"))
    ours, wheel = f"kafka-throttle-sidecar-{version()}", f"kafka_throttle_sidecar-{version()}-py3-none-any.whl"
    assert {wheel, f"{ours}.deb", f"{ours}.rpm", f"{ours}.tgz"} <= set(lines)

"""What a release is made of that costs no network: bill of materials, changes; its images and where they came from.

Its images: `make installed`. The packages: test_packages.py. The whole of it in a fresh clone: `make machines`.
"""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from deploy.commit import ROOT, commit, version
from deploy.release.images import ImagePlan, build_images, default_base
from deploy.release.materials import write_materials
from deploy.release.provenance import sha256, write_provenance
from deploy.release.publishing import publish
from deploy.release.source import ReleaseError, changelog_entry, changes

from .containers import BASE_IMAGE, Containers

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


@pytest.mark.parametrize(
    ("changelog", "entry"),
    [
        (
            "# Changelog\n\n## [1.2.3] - 2026-12-01\n\n### Added\n\n- One.\n\n## [1.2.2] - 2026-11-01\n\n- Two.\n",
            "### Added\n\n- One.",
        ),
        ("## [1.2.3]\n\n- One.\n", "- One."),
        ("## [1.2.30]\n\n- One.\n", None),
        ("## [1.2.4]\n\n- 1.2.3\n", None),
        ("## [1.2.3] - 2026-12-01\n\n### Added\n\n## [1.2.2]\n\n- Two.\n", None),
        ("", None),
    ],
)
def test_a_version_is_released_with_its_entry_alone(changelog: str, entry: str | None) -> None:
    if entry is None:
        with pytest.raises(ReleaseError, match=r"CHANGELOG\.md: expected an entry ## \[1\.2\.3\] with what changes"):
            changelog_entry(changelog, "1.2.3")
    else:
        assert changelog_entry(changelog, "1.2.3") == entry


def test_this_version_has_its_entry() -> None:
    assert changelog_entry((ROOT / "CHANGELOG.md").read_text("utf-8"), version()) in changes()


def test_the_readme_installs_each_of_what_is_made() -> None:
    """What they are called is looked at where they are made: `make machines`."""
    lines = re.findall(r"dist/(\S+)", (ROOT / "README.md").read_text("utf-8"))
    ours, wheel = f"kafka-throttle-sidecar-{version()}", f"kafka_throttle_sidecar-{version()}-py3-none-any.whl"
    assert {wheel, f"{ours}.deb", f"{ours}.rpm", f"{ours}.tgz", f"{ours}.oci.tar"} <= set(lines)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ImagePlan(default_base())),
        ({"BASE_IMAGE": "", "IMAGE_OPTIONS": "", "BUILDER": ""}, ImagePlan(default_base())),
        ({"BASE_IMAGE": "here/python:3.12"}, ImagePlan("here/python:3.12")),
        ({"IMAGE_OPTIONS": "-v '/a b:/c' --net=x"}, ImagePlan(default_base(), ("-v", "/a b:/c", "--net=x"))),
        ({"BUILDER": "https://ci.example/1"}, ImagePlan(default_base(), builder="https://ci.example/1")),
    ],
)  # fmt: skip
def test_what_is_asked_of_the_builder(given: dict[str, str], expected: ImagePlan) -> None:
    assert ImagePlan.of(given) == expected
    assert re.fullmatch(r"python:\S+@sha256:[0-9a-f]{64}", default_base())


def test_a_release_that_fails_leaves_the_last_one_as_it_was(tmp_path: Path) -> None:
    """It left wheel, sdist and packages in dist, without images and sums, and the last release was gone."""

    def whole(folder: Path) -> None:
        (folder / "wheel").write_text("1")
        (folder / "sums").write_text("of 1")

    def broken(folder: Path) -> None:
        (folder / "wheel").write_text("2")
        raise subprocess.CalledProcessError(125, ["buildah"])

    dist, staged = tmp_path / "dist", tmp_path / "build" / "release"
    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError):
            publish(broken, dist, staged=staged)
        assert not dist.exists()
    publish(whole, dist, staged=staged)
    with pytest.raises(subprocess.CalledProcessError):
        publish(broken, dist, staged=staged)
    assert {path.name: path.read_text() for path in dist.iterdir()} == {"wheel": "1", "sums": "of 1"}


@pytest.mark.installed
@pytest.mark.timeout(600)
def test_its_images_run_and_are_accounted_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    containers = Containers()
    containers.build_base()
    for key, value in containers.environment.items():
        monkeypatch.setenv(key, value)
    plan = ImagePlan(BASE_IMAGE, containers.build_options())
    images = build_images(tmp_path, plan)
    assert [image.archive.name for image in images] == [
        f"kafka-throttle-sidecar-{version()}.oci.tar",
        f"kafka-throttle-sidecar-redirect-{version()}.oci.tar",
    ]
    write_provenance(tmp_path / "said", [image.archive for image in images], images, plan)
    said = json.loads((tmp_path / "said").read_text("utf-8"))
    digests = {subject["name"]: subject["digest"]["sha256"] for subject in said["subject"]}
    for image in images:
        assert digests[image.archive.name] == sha256(image.archive)
        assert f"sha256:{digests[image.name]}" == image.digest
    source, base, *locked = said["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": commit()}
    assert base["uri"] == f"docker://{BASE_IMAGE}"
    assert re.fullmatch("[0-9a-f]{64}", base["digest"]["sha256"])
    assert {entry["name"]: entry["digest"]["sha256"] for entry in locked}["uv.lock"] == sha256(ROOT / "uv.lock")
    loaded = containers.podman("load", "--quiet", f"--input={images[0].archive}").split()[-1]
    assert version() in containers.podman("run", "--rm", "--pull=never", "--read-only", loaded, "--version")
    labels = containers.inspect(loaded, kind="image")["Config"]["Labels"]
    assert labels["org.opencontainers.image.revision"] == commit()

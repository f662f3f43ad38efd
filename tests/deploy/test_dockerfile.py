"""What the image is made of, as far as it can be told without building it. Built and run: test_image.py."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def packages() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])


def test_every_package_of_the_wheel_is_in_the_image() -> None:
    """hatchling says nothing of one that is missing."""
    copied = re.findall(r"^COPY (\w+) \./\1$", DOCKERFILE, re.MULTILINE)
    assert set(copied) == packages()
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert packages() <= let_through


def test_its_uv_is_the_one_of_the_makefile_and_has_hashes() -> None:
    pinned = (ROOT / "uv.requirements.txt").read_text()
    assert re.findall(r"^uv==[0-9.]+ ", pinned, re.MULTILINE)
    assert len(set(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", pinned))) >= 4
    for text in (DOCKERFILE, (ROOT / "Makefile").read_text()):
        installs = re.findall(r"pip install (.*)$", text, re.MULTILINE)
        assert [line.endswith("--require-hashes -r uv.requirements.txt") for line in installs] == [True]
    assert "!uv.requirements.txt" in (ROOT / ".dockerignore").read_text().splitlines()


def test_nothing_of_it_floats() -> None:
    (base,) = re.findall(r"^ARG BASE_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", base)
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"${BASE_IMAGE}"}
    assert "latest" not in DOCKERFILE

"""What the image is made of, as far as it can be told without building it. Built and run: test_image.py."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pyspark
import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
OF_THE_PIPELINE = (ROOT / "deploy" / "spark" / "Dockerfile").read_text()
BOTH = pytest.mark.parametrize("dockerfile", [DOCKERFILE, OF_THE_PIPELINE], ids=["sidecar", "pipeline"])
LIBRARY_FILES = """
import sys, operating.cli, operating.running, proxy.tls.leg
from proxy.observing.site import load_late
for command in operating.cli._BUILT_IN:
    operating.cli.cli.get_command(None, command)
load_late()
print(*(path for module in tuple(sys.modules.values()) if (path := getattr(module, "__file__", None))), sep="\\n")
"""


def packages() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])


@pytest.mark.parametrize(("dockerfile", "further"), [(DOCKERFILE, set()), (OF_THE_PIPELINE, {"pipeline"})])
def test_every_package_of_its_wheels_is_in_an_image_and_no_other(dockerfile: str, further: set[str]) -> None:
    """hatchling says nothing of one that is missing."""
    copied = re.findall(r"^COPY (\w+) \./\1$", dockerfile, re.MULTILINE)
    assert set(copied) == packages() | further


def test_whatever_is_copied_is_let_through() -> None:
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for dockerfile in (DOCKERFILE, OF_THE_PIPELINE):
        copied = {
            path for line in re.findall(r"^COPY (?!--)(.+) \S+$", dockerfile, re.MULTILINE) for path in line.split()
        }
        assert {path for path in copied if not any(f"{path}/".startswith(f"{each}/") for each in let_through)} == set()
    assert (ROOT / "deploy" / "spark" / "jars").is_dir()


def test_its_uv_is_the_one_of_the_makefile_and_has_hashes() -> None:
    pinned = (ROOT / "uv.requirements.txt").read_text()
    assert re.findall(r"^uv==[0-9.]+ ", pinned, re.MULTILINE)
    assert len(set(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", pinned))) >= 4
    for text in (DOCKERFILE, OF_THE_PIPELINE, (ROOT / "Makefile").read_text()):
        installs = re.findall(r"pip install (.*)$", text, re.MULTILINE)
        assert [line.endswith("--require-hashes -r uv.requirements.txt") for line in installs] == [True]
    assert "!uv.requirements.txt" in (ROOT / ".dockerignore").read_text().splitlines()


@BOTH
def test_nothing_of_it_floats(dockerfile: str) -> None:
    (base,) = re.findall(r"^ARG BASE_IMAGE=(\S+)$", dockerfile, re.MULTILINE)
    assert re.fullmatch(r"python:3\.11\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", base)
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", dockerfile, re.MULTILINE))
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) - stages == {"${BASE_IMAGE}"}
    assert "latest" not in dockerfile


def test_both_images_have_one_base() -> None:
    first, second = (
        re.findall(r"^ARG BASE_IMAGE=(\S+)$", each, re.MULTILINE) for each in (DOCKERFILE, OF_THE_PIPELINE)
    )
    assert first == second


def test_the_jars_for_s3_are_of_the_hadoop_that_spark_brings() -> None:
    """hadoop-aws works with its own version of Hadoop alone."""
    pom = (ROOT / "deploy" / "spark" / "jars" / "pom.xml").read_text()
    (wanted,) = re.findall(r"<artifactId>hadoop-aws</artifactId>.*?<version>([0-9.]+)</version>", pom, re.DOTALL)
    (brought,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    assert brought.name == f"hadoop-client-api-{wanted}.jar"


def test_what_is_left_out_of_the_librarys_bytecode_is_nothing_that_a_command_loads() -> None:
    """Built without any on a base that has none: test_image.py."""
    compiling = re.search(r"compileall .*?-x '([^']+)'", DOCKERFILE, re.DOTALL)
    assert compiling is not None
    library = sysconfig.get_path("stdlib")
    said = subprocess.check_output([sys.executable, "-c", LIBRARY_FILES], text=True).splitlines()
    found = [path for path in said if path.startswith(library) and "-packages/" not in path]
    assert len(found) > 150
    assert [path for path in found if re.search(compiling[1], path)] == []

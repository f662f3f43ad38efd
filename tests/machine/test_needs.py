"""machine/needs, on machines that lack things: a PATH of a few programs, and an apt-get that notes what it is asked."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "cat", "dirname", "grep", "sed")
APT = """#!/bin/sh
echo "$0 $*" >> {noted}
[ "$1" != show ] || case " {packages} " in *" $3 "*) printf 'Package: %s\nDescription: %0100000d\n' "$3" 0;; esac
"""
"""An answer of apt-cache is longer than a pipe holds: who stops reading at its first line ends it by SIGPIPE."""


class Machine(NamedTuple):
    programs: Path
    noted: Path

    def add(self, name: str, text: str = "#!/bin/sh\n") -> None:
        (self.programs / name).write_text(text)
        (self.programs / name).chmod(0o755)

    def needs(self, *verbs: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.programs)}
        command = [str(ROOT / "machine" / "needs"), *verbs]
        return subprocess.run(
            ["/usr/bin/env", *(f"{k}={v}" for k, v in environment.items()), "bash", *command],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    @property
    def asked(self) -> list[str]:
        return [line.removeprefix(f"{self.programs}/") for line in self.noted.read_text().splitlines()]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    found = Machine(tmp_path / "bin", tmp_path / "noted")
    found.programs.mkdir()
    found.noted.touch()
    for name in TOOLS:
        program = shutil.which(name)
        assert program is not None
        (found.programs / name).symlink_to(program)
    found.add("python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    return found


def with_apt(machine: Machine, *packages: str, user: int = 0) -> None:
    for name in ("apt-get", "apt-cache"):
        machine.add(name, APT.format(noted=machine.noted, packages=" ".join(packages)))
    machine.add("id", f"#!/bin/sh\necho {user}\n")


def test_what_is_there_is_left_alone(machine: Machine) -> None:
    for name in ("java", "mvn", "setpriv"):
        machine.add(name)
    done = machine.needs("demo")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_root_gets_what_is_missing_and_sees_the_command(machine: Machine) -> None:
    with_apt(machine, "openjdk-21-jre-headless", "default-jre-headless", "maven", "util-linux")
    done = machine.needs("demo")
    assert done.returncode == 0, done.stderr
    command = "apt-get install -y --no-install-recommends openjdk-21-jre-headless maven util-linux"
    assert done.stdout == f"make demo: {command}\n"
    assert [line for line in machine.asked if line.startswith("apt-get")] == ["apt-get update -q", f"{command} -q"]


def test_others_are_told_the_command_and_nothing_is_done(machine: Machine) -> None:
    with_apt(machine, "openjdk-17-jre-headless", "maven", "util-linux", user=1000)
    machine.add("mvn")
    done = machine.needs("demo")
    assert done.returncode == 1
    assert done.stderr == (
        "make demo: something is missing; as root (sudo): "
        "apt-get install -y --no-install-recommends openjdk-17-jre-headless util-linux\n"
    )
    assert [line for line in machine.asked if line.startswith("apt-get")] == []


def test_without_apt_the_packages_are_named(machine: Machine) -> None:
    done = machine.needs("report")
    assert done.returncode == 1
    assert "openjdk-17-jre-headless|openjdk-21-jre-headless|default-jre-headless maven" in done.stderr


@pytest.mark.parametrize(
    ("python", "told"),
    [
        (None, "python3 is not there: Python 3.11 or later"),
        ("#!/bin/sh\necho '/usr/bin/python3 is Python 3.9.2' >&2; exit 1\n", "is Python 3.9.2"),
    ],
)
def test_an_old_python_or_none_is_said_first(machine: Machine, python: str | None, told: str) -> None:
    with_apt(machine)
    (machine.programs / "python3").unlink()
    if python is not None:
        machine.add("python3", python)
    done = machine.needs("demo")
    assert done.returncode == 1
    assert told in done.stderr
    assert machine.asked == []


def test_without_a_verb_it_says_what_it_is_for(machine: Machine) -> None:
    done = machine.needs()
    assert done.returncode == 2
    assert "machine/needs VERB" in done.stderr


def test_every_verb_of_the_list_is_one_of_the_makefile_and_asks_for_itself() -> None:
    lines = (ROOT / "machine" / "needs.txt").read_text().splitlines()
    rows = [re.split(" {2,}", line) for line in lines if not line.startswith("#")]
    verbs = {verb for _, verbs, _, _ in rows for verb in verbs.split(",")} - {"every"}
    command = ["make", "--dry-run", "--no-print-directory", "--always-make"]
    for verb in verbs:
        said = subprocess.run([*command, verb], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert f"machine/needs {verb}" in said.splitlines()[0], verb
    said = subprocess.run(
        [*command, "demo", "KAFKA=embedded"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "machine/needs demo" not in said


@pytest.mark.parametrize(
    ("packages", "installed"),
    [(("chromium",), "chromium"), (("libnss3", "libexpat1", "brotli"), "libnss3 libexpat1 brotli")],
    ids=["Debian", "Ubuntu"],
)
def test_what_no_package_brings_is_fetched_or_said(machine: Machine, packages: tuple[str, ...], installed: str) -> None:
    """Ubuntu has Chromium as a snap alone. This apt-get installs nothing, so that nothing can be fetched either."""
    with_apt(machine, *packages)
    done = machine.needs("test")
    assert f" {installed} " in done.stdout
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "make test: machine/chromium --fetch does not succeed"

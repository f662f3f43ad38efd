"""A machine with git, python3 and make and nothing else: a clone, and the README's commands without a further word.

`make machines`; needs root, podman, runc and debootstrap, and mirrors of Debian and Ubuntu. Each system is a container
that may do what a machine may, on this machine's network: what is missing is fetched there as it would be anywhere.
"""

from __future__ import annotations

import re
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.deploy.containers import ROOT, Containers
from tests.deploy.systems import BARE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.system

MINUTE = 60
COLUMNS = 80
_TAIL_CHARACTERS = 8000
_TRUST = "/usr/local/share/ca-certificates"
_OF_THE_MACHINE = (_TRUST, "/etc/pip.conf")
_FIRST_LINE = re.compile(r"make \w+: apt-get install -y --no-install-recommends ")


class Machine:
    """A container that runs until it is closed, with a clone of this checkout's HEAD in /root/clone."""

    def __init__(self, containers: Containers, system: str, folder: Path) -> None:
        self._containers = containers
        self._name = f"kts-bare-{system.replace(' ', '-')}"
        self._system, self._log = system, folder / "said"
        bundle = folder / "source.bundle"
        subprocess.run(["git", "-C", ROOT, "bundle", "create", "--quiet", bundle, "HEAD"], check=True)
        containers.build_system(BARE[system])
        containers.podman(
            "run", "--detach", "--rm", "--replace", f"--name={self._name}", "--pull=never", "--init", "--privileged",
            "--network=host", "--ulimit=host", f"--volume={bundle}:/source.bundle:ro",
            *(f"--volume={path}:{path}:ro" for path in _OF_THE_MACHINE), BARE[system].image, "sleep", "infinity",
        )  # fmt: skip
        self.run("update-ca-certificates")
        self.run("git clone --quiet /source.bundle /root/clone")

    def run(self, command: str) -> str:
        """What it said on both outputs. Raises AssertionError with the end of it: it failed."""
        whole = f"cd /root; [ ! -d clone ] || cd clone; {command}"
        began = time.monotonic()
        with self._log.open("w+") as said:
            done = subprocess.run(
                ["podman", "exec", self._name, "bash", "-c", whole],
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, check=False,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **self._containers.environment},
            )  # fmt: skip
        text = self._log.read_text(encoding="utf-8", errors="replace")
        print(f"{self._system}: {command}: {time.monotonic() - began:.0f} s")  # noqa: T201 - shown by -rP
        assert done.returncode == 0, text[-_TAIL_CHARACTERS:]
        return text

    def close(self) -> None:
        self._containers.podman("rm", "--force", "--time=1", "--ignore", self._name)


@pytest.fixture(scope="module", params=BARE)
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    found = Machine(Containers(), request.param, tmp_path_factory.mktemp("machine"))
    yield found
    found.close()


@pytest.mark.timeout(30 * MINUTE)
def test_make_demo(machine: Machine) -> None:
    said = machine.run("make demo")
    assert _FIRST_LINE.search(said)
    _, demo = said.split("fetching Kafka's jars by Maven", 1)
    assert [line for line in demo.splitlines() if len(line) > COLUMNS] == []
    assert "FAIL" not in demo
    assert "Next:" in demo
    again = machine.run("make demo")
    assert "apt-get" not in again
    assert "by Maven" not in again


@pytest.mark.timeout(10 * MINUTE)
def test_make_check(machine: Machine) -> None:
    assert "All checks passed" in machine.run("make check")


@pytest.mark.timeout(90 * MINUTE)
def test_make_test(machine: Machine) -> None:
    said = machine.run("make test")
    closing = re.findall(r"=+ (\d+) passed.* in .*=+", said)
    assert len(closing) == 3
    assert " failed" not in said

"""What README.md, docs/first-hour.md and docs/pipeline.md print for a fresh clone, run in one: installations, demos.

Each in a root of its own, so that /opt and /usr/local are this test's. What is installed comes over the network.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from lab.host.own_root import own_root
from tests.docs.printed import ROOT, printed, runnable, suite_of
from tests.pipeline.journal_files import FIRST, traffic_line, write_file

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.installed, pytest.mark.timeout(1800)]

VERBS = "test_verbs_of_a_fresh_clone"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is committed, and nothing else."""
    folder = tmp_path_factory.mktemp("fresh") / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    return folder


def type_all(lines: list[str], folder: Path, *, path: str = "") -> str:
    """Type these lines in the folder, one after the other; return what they printed. The first that fails, fails."""
    script = f"cd {shlex.quote(str(folder))}; export PATH={path}:$PATH\nset -ex\n" + "\n".join(lines)
    environment = {
        name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "RUNTIME_DIRECTORY")
    }
    done = subprocess.run(
        [*own_root({}), "bash", "-c", script], env=environment, text=True, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def test_first_hour(clone: Path) -> None:
    said = type_all([*runnable("docs/first-hour.md", "1. Install"), "throttle-sidecar --version"], clone)
    assert "throttle-sidecar" in said.splitlines()[-1]


def test_verbs_of_a_fresh_clone(clone: Path) -> None:
    """The README's demos and its report."""
    found = [command.line for command in printed("README.md") if VERBS in (suite_of(command) or "")]
    lines = list(dict.fromkeys(found))
    assert len(lines) == 4
    said = type_all(lines, clone)
    assert said.count("replicas are equal") == 4
    assert "FAIL" not in said
    assert (clone / "build" / "report" / "report.html").stat().st_size > 10_000


def test_pipeline(clone: Path) -> None:
    """Installed from a checkout into an environment of its own; other engines then read its tables."""
    write_file(clone / "journal", lines=[traffic_line(FIRST + n, tick=n) for n in range(10)])
    install = runnable("docs/pipeline.md", "")
    engines = runnable("docs/pipeline.md", "Other engines")
    assert [line.split()[0] for line in (*install, *engines)] == ["pip", "python", "spark-sql", "python"]
    made = ["python3 -m venv environment"]
    ingest = ["python -m pipeline ingest journal --into tables", "pip install --quiet deltalake pyarrow"]
    said = type_all([*made, *install, *ingest, *engines], clone, path=str(clone / "environment" / "bin"))
    assert said.splitlines()[-1] == "10"

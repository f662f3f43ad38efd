"""What may not be read: said with its name, exit status 1, and nothing lost.

Tests run as root in many places, whom no permission stops: the jobs run in a process without that privilege.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.pipeline.journal_files import FIRST, traffic_line, write_file

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
JOBS = """
import sys
from contextlib import redirect_stdout
from pathlib import Path
from pipeline.cli import main
from tests.pipeline.sessions import session_in

place = Path(sys.argv[1])
session_in(place / "spark")
for source in ("folder", "below", "file", "target", "good"):
    into = "closed/tables" if source == "target" else "tables"
    print("#", source, file=sys.stderr)
    with redirect_stdout(sys.stderr):
        status = main(["ingest", str(place / ("good" if source == "target" else source)), "--into", str(place / into)])
    print("= exit status", status, file=sys.stderr)
"""


OF_SPARKS_DAEMON = re.compile(
    r"Traceback \(most recent call last\):\n  File \"[^\n]*/pyspark/daemon\.py\"[^\n]*(?:\n  [^\n]*)+\n[^\n]*"
)
"""Spark 4.2's daemon of Python workers prints one by itself if a task ends before its worker has; 4.3 does not."""


class Answer(NamedTuple):
    status: int
    said: str


def unprivileged() -> list[str]:
    """What to put before a command so that modes of files hold for it, whoever runs the tests."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    assert setpriv, "setpriv is missing: apt-get install util-linux"
    privileges = "-dac_override,-dac_read_search"
    return [setpriv, f"--bounding-set={privileges}", f"--inh-caps={privileges}", "--"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Journals of which something may not be read: a folder, one below, a file; and tables that may not be written."""
    place = tmp_path_factory.mktemp("permissions")
    for name in ("folder", "below/101", "file", "good"):
        write_file(place / name, lines=[traffic_line(FIRST)])
    write_file(place / "file", broker=102, lines=[traffic_line(FIRST, broker=102)])
    (place / "closed").mkdir()
    modes = {place / "folder": 0o000, place / "below/101": 0o000, place / "closed": 0o555}
    modes[next((place / "file").glob("journal-102-*"))] = 0o000
    for path, mode in modes.items():
        path.chmod(mode)
    yield place
    for path in modes:
        path.chmod(0o700)


@pytest.fixture(scope="module")
def answers(place: Path) -> dict[str, Answer]:
    command = [*unprivileged(), sys.executable, "-c", JOBS, str(place)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    found = {}
    for part in done.stderr.split("# ")[1:]:
        name, _, rest = part.partition("\n")
        said, _, status = rest.partition("= exit status ")
        found[name] = Answer(int(status.split()[0]), said)
    return found


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("folder", "error: {place}/folder: Permission denied"),
        ("below", "error: {place}/below/101: Permission denied"),
        (
            "file",
            "{place}/file/journal-102-20261121T084000Z-000001.ndjson.gz: not read: Permission denied, again and again",
        ),
        ("target", "error: {place}/closed/tables: cannot be written: Permission denied"),
    ],
)
def test_it_is_named(place: Path, answers: dict[str, Answer], source: str, message: str) -> None:
    assert answers[source].status == 1
    assert message.format(place=place) in answers[source].said
    assert "Traceback" not in OF_SPARKS_DAEMON.sub("", answers[source].said)
    assert "\tat " not in answers[source].said


def test_what_can_be_read_beside_it_is_taken(answers: dict[str, Answer]) -> None:
    assert "files: 1 unread, 1 whole; unchanged: 0" in answers["file"].said


def test_the_next_run_finds_everything_in_order(place: Path, answers: dict[str, Answer]) -> None:
    """What the failed runs left behind does no harm."""
    assert answers["good"].status == 0
    assert len(list((place / "tables" / "lines").glob("date=2026-11-21/*.parquet"))) == 1

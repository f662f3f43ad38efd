"""The commands of README.md and docs/pipeline.md that need nothing but journals, as they are printed there.

They run in a process of its own, whose working directory their relative paths are of, and whose /journals is ours.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from journal_schema import Kind
from lab.host.own_root import own_root
from tests.docs.printed import PIPELINE, ROOT, printed, suite_of
from tests.pipeline.journal_files import FIRST, event_line, traffic_line, write_file

if TYPE_CHECKING:
    from pathlib import Path

TEN_PAST_THREE = FIRST - 5 * 3600 - 30 * 60
DRIVER = "python -m pipeline "
PROGRAM = """
import os, signal, sys, threading, time
from pathlib import Path
from pipeline.cli import main
from tests.pipeline.sessions import session_in

def interrupt_when_written(path):
    while not path.exists():
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)

session_in(Path(sys.argv[1]))
for line in sys.stdin.read().splitlines():
    words = line.split("\\x1f")
    if words[0] == "stream":
        threading.Thread(target=interrupt_when_written, args=[Path(words[-1])], daemon=True).start()
    print(f"$ {' '.join(words)}", flush=True)
    print(f"status {main(words)}", flush=True)
"""
"""Runs the lines of its input one after the other, in one session: its start takes longer than most of them."""


def commands() -> list[list[str]]:
    """The arguments of `python -m pipeline`: those of `make report`, then those of docs/pipeline.md, in their order."""
    make = re.sub(r"\$\(REPORT\)", "build/report", (ROOT / "Makefile").read_text("utf-8"))
    found = re.findall(rf"^\t\$\(RUN\)({DRIVER}.+)$", make, re.MULTILINE)
    for command in printed("docs/pipeline.md"):
        if suite_of(command) == PIPELINE:
            found += command.line.split("; ")
    return [shlex.split(line.removeprefix(DRIVER)) for line in found]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_command_runs_in_the_directory_that_it_is_typed_in(tmp_path: Path) -> None:
    quota = event_line(
        Kind.QUOTA, TEN_PAST_THREE, role="leader", bytes_per_second=1018.0, policy="strict", enforce=True,
        selection="*", reason="start",
    )  # fmt: skip
    lines = [
        traffic_line(TEN_PAST_THREE + n, fetch_offset_before=[max(5 * n - 5, 0)], fetch_offset=5 * n, omitted=1)
        for n in range(100)
    ]
    # 04:00 is the last one recorded, too.
    later = TEN_PAST_THREE + 51 * 60
    lines += [
        traffic_line(
            later + n, fetch_offset_before=[900 + n], fetch_offset=901 + n, high_watermark=901 + n, in_sync=True
        )
        for n in range(10)
    ]
    for place in ("journal", "build/report/journal"):
        write_file(tmp_path / place, lines=[quota, *lines])
    wanted = commands()
    assert {"ingest", "ask", "audit", "lag", "moves", "replay", "report", "stream", "summarise"} <= {
        words[0] for words in wanted
    }
    spark = tmp_path.with_name("spark")
    done = subprocess.run(
        [*own_root({"/journals": tmp_path / "journal"}), "env", "-C", tmp_path, sys.executable, "-c", PROGRAM, spark],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input="\n".join("\x1f".join(words) for words in wanted), capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = done.stdout.split("$ ")[1:]
    assert len(said) == len(wanted), done.stderr
    # An answer may be bad (3) or not known (4); `stream` goes on until it is interrupted (130).
    failed = [text for text in said if not re.search(r"^status ([034]|130)$", text, re.MULTILINE)]
    assert not failed, done.stderr
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"journal", "tables", "build", "report.html", "report.json", "pipeline.prom"}

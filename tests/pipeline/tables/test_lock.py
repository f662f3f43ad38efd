"""Processes of one machine take turns, and who waits says for whom and for how long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.tables import lock
from pipeline.tables.lock import locked

HOLDER = """
import sys
from pathlib import Path
from pipeline.tables.lock import locked
with locked(Path(sys.argv[1]), of=Path("tables/lines")):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_writer_behind_a_stopped_one_says_whom_it_waits_for_and_for_how_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It waited for ever and said nothing."""
    monkeypatch.setattr(lock, "PATIENCE_SECONDS", 0.05)
    place, mine = tmp_path / "t" / "_lines.lock", threading.Event()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )  # fmt: skip
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        os.kill(holder.pid, signal.SIGSTOP)
        os.waitpid(holder.pid, os.WUNTRACED)

        def write() -> None:
            with locked(place, of=Path("tables/lines")):
                mine.set()

        waits = threading.Thread(target=write)
        waits.start()
        said = ""
        while said.count("so far") < 2:
            said += capsys.readouterr().err
        assert not mine.is_set()
        first = said.splitlines()[0]
        assert first.startswith(f"tables/lines: waiting for process {holder.pid} ({sys.executable} -c ")
        assert first.endswith(", which is stopped (kill -CONT lets it go on)) to write there, 0 s so far")
    finally:
        holder.kill()
        holder.communicate()
    waits.join()
    assert mine.is_set()
    assert place.read_text() == str(os.getpid())


def test_one_that_nobody_else_holds_is_had_without_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        with locked(tmp_path / "a" / "lock", of=tmp_path):
            pass
    assert capsys.readouterr().err == ""


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match=r"file/t: cannot be written: Not a directory"),
        locked(tmp_path / "file" / "t" / "lock", of=tmp_path),
    ):
        pass

"""machine/audit with an OSV of its own: what is known fails it, what nobody knows passes, and silence is said."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from .osv import Osv

ROOT = Path(__file__).parents[2]


def audit(**environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "UV_NO_CACHE": "1", "UV_HTTP_TIMEOUT": "2", "UV_HTTP_RETRIES": "0", **environment}
    command = [str(ROOT / "machine" / "audit")]
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False)


def test_a_known_vulnerability_of_what_is_shipped_fails(osv: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Osv, "bad", "h11")
    done = audit(OSV=osv)
    assert done.returncode == 1
    assert "OSV-1" in done.stdout


def test_what_nobody_knows_passes_and_all_that_is_shipped_was_asked_for(osv: str) -> None:
    assert audit(OSV=osv).returncode == 0
    assert {"h11", "trio", "msgspec", "kafka-python"} <= set(Osv.asked)
    assert "pytest" not in Osv.asked


@pytest.mark.parametrize(("required", "status"), [("", 0), ("required", 2)])
def test_where_nobody_answers_that_is_said_and_a_release_fails(required: str, status: int) -> None:
    done = audit(OSV="http://127.0.0.1:9/", AUDIT=required)
    assert done.returncode == status
    assert "NOT audited: nobody answered" in done.stderr
    assert ("make release AUDIT=optional" in done.stderr) == bool(required)


@pytest.mark.parametrize("required", ["", "required", "optional"])
def test_an_auditor_that_is_called_wrongly_fails_and_is_no_silence(required: str) -> None:
    done = audit(OSV="no-address", AUDIT=required)
    assert done.returncode == 2
    assert "invalid value 'no-address'" in done.stderr
    assert "the auditor itself failed (status 2)" in done.stderr
    assert "nobody answered" not in done.stderr


@pytest.mark.parametrize(
    ("program", "status"),
    [("kill -SEGV $$", 139), ("echo 'error: no uv.lock' >&2; exit 2", 2), (None, 127)],
    ids=["it crashes", "it finds no lock", "it is not there"],
)
def test_an_auditor_that_breaks_fails_and_is_no_silence(tmp_path: Path, program: str | None, status: int) -> None:
    (tmp_path / "machine").mkdir()
    shutil.copy(ROOT / "machine" / "audit", tmp_path / "machine")
    if program is not None:
        uv = tmp_path / ".tools" / "bin" / "uv"
        uv.parent.mkdir(parents=True)
        uv.write_text(f"#!/bin/sh\n{program}\n")
        uv.chmod(0o755)
    done = subprocess.run([tmp_path / "machine" / "audit"], capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert f"the auditor itself failed (status {status})" in done.stderr
    assert "nobody answered" not in done.stderr

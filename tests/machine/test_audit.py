"""machine/audit with an OSV of its own: what is known fails it, what nobody knows passes, and silence is said."""

from __future__ import annotations

import os
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

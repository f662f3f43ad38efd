"""kubectl and helm run, and are unpacked once."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from lab.errors import LabError
from lab.kubernetes.clients import helm_command, kubectl_command

if TYPE_CHECKING:
    from pathlib import Path


def test_they_run_and_are_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kubectl, helm = kubectl_command(), helm_command()
    for command in ([kubectl, "version", "--client"], [helm, "version"]):
        assert "Version" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
    written = [path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()]
    assert (kubectl_command(), helm_command()) == (kubectl, helm)
    assert [path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()] == written
    (folder,) = (tmp_path / "kafka-throttle-sidecar").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["helm", "kubectl"]


def test_on_another_processor_those_on_path_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match=r"`kubectl` was not found on PATH.*x86-64"):
        kubectl_command()
    (tmp_path / "kubectl").write_text("#!/bin/sh\n")
    (tmp_path / "kubectl").chmod(0o755)
    assert kubectl_command() == str(tmp_path / "kubectl")

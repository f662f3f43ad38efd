"""Kubernetes' servers: found in the cache or nowhere, built whole or not at all."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from lab.errors import LabError
from lab.kubernetes.programs import CONTROL_PLANE, KYVERNO, NODE, VERSION, Programs, build, built, main

if TYPE_CHECKING:
    from pathlib import Path

GO = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
case "$2" in */{fails}) echo 'no such module' >&2; exit 1;; esac
echo "$3" > "$2"
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    # Beside our own there may be a real Go.
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere" / "python"))
    return tmp_path / "cache" / "kafka-throttle-sidecar"


def go(tmp_path: Path, *, fails: str = "nothing") -> None:
    (tmp_path / "go").write_text(GO.format(fails=fails))
    (tmp_path / "go").chmod(0o755)


@pytest.mark.parametrize("programs", [CONTROL_PLANE, KYVERNO, NODE], ids=lambda each: each.name)
def test_what_was_not_built_is_an_error_that_says_how(cache: Path, programs: Programs) -> None:
    with pytest.raises(LabError, match=f"{programs.name} of Kubernetes {VERSION} runs is not in .*{programs.verb}"):
        built(programs)


def test_without_go_it_says_so(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match=r"`go` was not found on PATH.*Go 1\.26"):
        build(CONTROL_PLANE)


@pytest.mark.parametrize("programs", [CONTROL_PLANE, KYVERNO, NODE], ids=lambda each: each.name)
def test_it_is_built_once(cache: Path, tmp_path: Path, programs: Programs) -> None:
    go(tmp_path)
    folder = build(programs)
    packages = {name: package for name, (_, package) in programs.packages.items()}
    assert {path.name: path.read_text().strip() for path in folder.iterdir()} == packages
    (tmp_path / "go").unlink()
    assert build(programs) == built(programs) == folder


def test_half_of_it_is_nothing(cache: Path, tmp_path: Path) -> None:
    go(tmp_path, fails="helm")
    with pytest.raises(LabError, match=r"Go could not build helm\.sh"):
        build(CONTROL_PLANE)
    assert list(cache.iterdir()) == []


def test_what_is_not_known_is_refused_before_anything_is_built(cache: Path) -> None:
    with pytest.raises(LabError, match="expected some of control-plane, kyverno, node, found nodes"):
        main(["node", "nodes"])
    assert not cache.exists()

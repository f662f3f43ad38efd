"""Kubernetes' servers: found in the cache or nowhere, built whole or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.errors import LabError
from lab.kubernetes.programs import PACKAGES, VERSION, build, server_programs

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
    return tmp_path / "cache" / "kafka-throttle-sidecar"


def go(tmp_path: Path, *, fails: str = "nothing") -> None:
    (tmp_path / "go").write_text(GO.format(fails=fails))
    (tmp_path / "go").chmod(0o755)


def test_what_was_not_built_is_an_error_that_says_how(cache: Path) -> None:
    with pytest.raises(LabError, match=f"servers of Kubernetes {VERSION} are not in .*make kubernetes"):
        server_programs()


def test_without_go_it_says_so(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match=r"`go` was not found on PATH.*Go 1\.26"):
        build()


def test_it_is_built_once(cache: Path, tmp_path: Path) -> None:
    go(tmp_path)
    folder = build()
    assert {path.name: path.read_text().strip() for path in folder.iterdir()} == PACKAGES
    (tmp_path / "go").unlink()
    assert build() == server_programs() == folder


def test_half_of_it_is_nothing(cache: Path, tmp_path: Path) -> None:
    go(tmp_path, fails="helm")
    with pytest.raises(LabError, match=r"Go could not build helm\.sh"):
        build()
    assert list(cache.iterdir()) == []

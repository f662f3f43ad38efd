"""Where a folder has no proxy.toml, the error says how to name the one that is meant."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import operating.configuration
from operating.cli import cli

if TYPE_CHECKING:
    from pathlib import Path

READERS = [
    ["run"],
    ["check"],
    ["health"],
    ["guard"],
    ["status", "--once", "--config", "proxy.toml"],
]


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a package's proxy.toml would be; the current folder has none."""
    place = tmp_path / "etc" / "proxy.toml"
    place.parent.mkdir()
    monkeypatch.setattr(operating.configuration, "PACKAGED", place)
    monkeypatch.chdir(tmp_path)
    return place


@pytest.mark.usefixtures("packaged")
@pytest.mark.parametrize("arguments", READERS, ids=lambda arguments: arguments[0])
def test_the_option_is_named(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 1
    where = "proxy.toml: cannot be read: No such file or directory (--config FILE names one that is not in this folder)"
    assert result.stderr == f"Error: {where}\n"


@pytest.mark.parametrize("arguments", READERS, ids=lambda arguments: arguments[0])
def test_so_is_the_packages_own_if_it_is_there(packaged: Path, arguments: list[str]) -> None:
    packaged.touch()
    assert f"(--config FILE names one that is not in this folder: {packaged})" in CliRunner().invoke(
        cli, arguments
    ).stderr.replace("\n", "")


def test_programs_read_it_too(packaged: Path) -> None:
    packaged.touch()
    (problem,) = json.loads(CliRunner().invoke(cli, ["check", "--json"]).stdout)["problems"]
    assert str(packaged) in problem


@pytest.mark.usefixtures("packaged")
def test_of_a_file_that_is_there_or_was_named_nothing_more_is_said(tmp_path: Path) -> None:
    assert "--config" not in CliRunner().invoke(cli, ["health", "--config", "other.toml"]).stderr
    (tmp_path / "proxy.toml").write_text("nonsense")
    assert "--config" not in CliRunner().invoke(cli, ["health"]).stderr

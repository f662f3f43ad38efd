from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import EntryPoint, version
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import operating.cli
from operating.cli import cli

from .conftest import PROXY, QUOTAS

COMMANDS = ("run", "check", "set", "undo", "overrides", "status", "health", "plan", "verify", "completion")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "quotas.toml").write_text(QUOTAS)
    (tmp_path / "proxy.toml").write_text(PROXY)
    return tmp_path / "proxy.toml"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, prog_name="throttle-sidecar")


@click.command("plugin", help="From elsewhere.")
def plugin_command() -> None:
    click.echo("plugged in")


def plug_in(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    point = EntryPoint("plugin", value, operating.cli.PLUGIN_GROUP)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point] if group == point.group else [])


def test_help_teaches_with_examples() -> None:
    result = call("--help")
    assert result.exit_code == 0
    assert "throttle-sidecar run --config proxy.toml" in result.output
    assert 'leader.replication.throttled.rate = "50MiB/s"' in result.output
    for command in (
        "run",
        "check",
        "set",
        "undo",
        "overrides",
        "status",
        "health",
        "plan",
        "verify",
        "completion",
    ):
        assert f"\n  {command} " in result.output


@pytest.mark.parametrize("command", list(operating.cli._BUILT_IN))
def test_each_command_has_a_screen_of_help_with_an_example(command: str) -> None:
    result = call(command, "-h")
    assert result.exit_code == 0
    examples = result.output.partition("Example")[2].partition("\nOptions:")[0].splitlines()
    assert [line for line in examples if f"throttle-sidecar {command}" in line]
    assert [line for line in examples if line.count("throttle-sidecar ") > 1] == []
    assert len(result.output.splitlines()) <= 50


def test_the_version_is_the_distributions() -> None:
    assert call("--version").output == f"throttle-sidecar, version {version('kafka-throttle-sidecar')}\n"


@pytest.mark.parametrize("arguments", [["nope"], ["run", "--nope"], ["check", "extra"], ["status", "--watch=1"]])
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    assert call(*arguments).exit_code == 2


def test_wrong_input_is_1_with_a_message_and_no_traceback() -> None:
    result = call("check", "--config", "/nowhere/proxy.toml")
    assert result.exit_code == 1
    assert result.stderr == "Error: /nowhere/proxy.toml: cannot be read: No such file or directory\n"
    assert result.stdout == ""


def test_a_plugin_is_listed_and_called(monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(monkeypatch, f"{__name__}:plugin_command")
    assert "From elsewhere." in call("--help").output
    assert call("plugin").output == "plugged in\n"


@pytest.mark.parametrize("value", ["absent.module:command", f"{__name__}:absent"])
def test_a_plugin_that_is_not_all_there_says_so(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    plug_in(monkeypatch, value)
    assert "(cannot be loaded: " in call("--help").output
    result = call("plugin", "--any-option", "x")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: plugin cannot be loaded: ")
    assert "absent" in result.stderr


def test_main_is_the_console_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["throttle-sidecar", "nope"])
    with pytest.raises(SystemExit) as ended:
        operating.cli.main()
    assert ended.value.code == 2


@pytest.mark.parametrize("name", list(operating.cli._BUILT_IN))
def test_a_file_that_may_not_be_read_is_wrong_input_and_no_wrong_usage(name: str) -> None:
    """What click asks beforehand ends with 2, and is wrong for whoever may read by a capability."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    files = [each for each in command.params if isinstance(each.type, click.Path)]
    assert [each.name for each in files if each.type.readable] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["check"],
        ["check", "--json"],
        ["status", "--once", "--url", "http://127.0.0.1:1"],
        ["status", "--json", "--url", "http://127.0.0.1:1"],
        ["set", "leader.replication.throttled.rate", "5MiB/s", "--offline"],
    ],
)
def test_output_that_cannot_be_written_is_said(config: Path, arguments: list[str]) -> None:
    """Into a file on a full disk, buffered, as it is for people."""
    program = [sys.executable, "-c", "from operating.cli import main; main()", *arguments]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            program, cwd=config.parent, env=_buffered(), stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr.decode().startswith("Error: the output cannot be written: No space left on device; what was")
    assert len(done.stderr.splitlines()) == 1


def test_with_no_place_for_errors_the_exit_status_is_still_ours(config: Path) -> None:
    """Not 120, by which Python says that its own last flush failed."""
    program = [sys.executable, "-c", "from operating.cli import main; main()", "nope"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(program, cwd=config.parent, env=_buffered(), stderr=full, check=False)
    assert done.returncode == 1


def _buffered() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}

"""docs/operating.md: its commands parse, its files are accepted, its names and links are those there are."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
import yaml
from click.testing import CliRunner

from operating.cli import cli
from pipeline.cli import group as pipeline
from proxy.observing.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
MANUAL = ROOT / "docs" / "operating.md"
TEXT = MANUAL.read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
PROGRAMS = {"throttle-sidecar": cli, "python -m pipeline": pipeline}
NEEDS_NOTHING = ("check",)
"""Commands that look at files alone, so they are not only parsed but run."""
PAGES = {"/metrics", "/healthz", "/readyz", "/config", "/throttle", "/-/reload"}
MOVE = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [101, 102, 104]}]}


def commands() -> Iterator[str]:
    """Every command of ours: lines of code, and what stands between backticks and has arguments."""
    for program in PROGRAMS:
        yield from re.findall(rf"^ {{4,}}({program} .+)$", TEXT, re.MULTILINE)
        yield from re.findall(rf"^ *({program} .+)$", "\n".join(blocks("sh", "console")), re.MULTILINE)
        yield from re.findall(rf"(?<!`)`({program} [^`]+)`(?!`)", TEXT)


def blocks(*languages: str) -> list[str]:
    """Fenced blocks of these languages, without what indents them."""
    found = re.findall(rf"^( *)```(?:{'|'.join(languages)})\n(.*?)^ *```", TEXT, re.MULTILINE | re.DOTALL)
    return [re.sub(f"^{indent}", "", body, flags=re.MULTILINE) for indent, body in found]


def parsed(line: str) -> tuple[click.Command, list[str]]:
    """The command and its arguments, with what follows a `#` left out. Raises click.UsageError."""
    words = shlex.split(line, comments=True)
    size = 1 if words[0] == "throttle-sidecar" else 3
    program, rest = PROGRAMS[" ".join(words[:size])], words[size:]
    command = program.get_command(click.Context(program), rest[0])
    if command is None:
        raise click.UsageError(f"no such command: {rest[0]}")
    return command, rest[1:]


def group_context() -> click.Context:
    """A command keeps the names of its help option from its first context: it must have those of the program's."""
    return click.Context(cli, **cli.context_settings)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the manual's commands name."""
    for name in ("proxy.toml", "quotas.toml"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    (tmp_path / "move.json").write_text(json.dumps(MOVE), "utf-8")
    (tmp_path / "generated.txt").write_text(json.dumps(MOVE), "utf-8")
    (tmp_path / "quotas").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_there_are_commands_and_files_to_try() -> None:
    assert len(set(commands())) >= 8
    assert len(blocks("toml")) >= 2


@pytest.mark.parametrize("line", sorted(set(commands())))
@pytest.mark.usefixtures("workplace")
def test_every_command_is_one(line: str) -> None:
    command, arguments = parsed(line)
    if arguments:
        command.make_context(line, arguments, parent=group_context())
    if command.name in NEEDS_NOTHING and arguments:
        assert CliRunner().invoke(cli, [str(command.name), *arguments]).exit_code == 0


@pytest.mark.parametrize("name", cli.list_commands(click.Context(cli)))
def test_no_command_is_left_out(name: str) -> None:
    assert f"throttle-sidecar {name}" in TEXT + README


def test_a_wrong_option_would_be_noticed() -> None:
    command, arguments = parsed("throttle-sidecar status --onec")
    with pytest.raises(click.UsageError, match="--onec"):
        command.make_context("status", arguments, parent=group_context())


@pytest.mark.parametrize("text", [text for text in blocks("toml") if "[broker]" not in text])
def test_every_quotas_file_is_accepted(text: str, workplace: Path) -> None:
    (workplace / "quotas.toml").write_text(text, "utf-8")
    result = CliRunner().invoke(cli, ["check", "--config", "proxy.toml"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("text", blocks("yaml"))
def test_every_yaml_is_one(text: str) -> None:
    assert isinstance(yaml.safe_load(text), dict)


def test_every_metric_is_one() -> None:
    named = set(re.findall(r"replication_throttle_\w+", TEXT))
    assert named <= {metric.name for metric in METRICS}


def test_every_page_is_one() -> None:
    assert set(re.findall(r"http://[\w.-]+:9404(/[\w/-]+)", TEXT)) <= PAGES


def test_every_file_of_ours_is_there() -> None:
    named = set(re.findall(r"(?<![\w/])((?:deploy|tests|examples)/[\w./-]+\w)", TEXT))
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_every_redirection_names_the_sidecars_user_and_where_the_script_is() -> None:
    """Without --uid it is the image's user, and the package's sidecar is led to itself. It is on nobody's PATH."""
    assert re.findall(r"redirect\.sh add(?! --ports \S+ --to \S+ --uid \S+)", TEXT) == []
    assert re.findall(r"(?<!/)\bredirect\.sh (?:add|remove|show)", TEXT) == []


def test_every_link_leads_somewhere() -> None:
    headings = re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    targets = re.findall(r"\]\(([^)]+)\)", TEXT)
    assert {target[1:] for target in targets if target.startswith("#")} <= anchors
    missing = [t for t in targets if not t.startswith(("#", "http")) and not (MANUAL.parent / t.split("#")[0]).exists()]
    assert missing == []

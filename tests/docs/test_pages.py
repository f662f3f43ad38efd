"""The documents: commands parse, files are accepted, names and links exist, and they stay short."""

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
from proxy.config.settings_tables import LimitSettings
from proxy.config.tables import keys_of
from proxy.observing.exposition import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
}
TASKS = [
    "README.md",
    *(f"docs/{name}.md" for name in ("first-hour", "move", "incident", "runbooks", "packages", "guard")),
]
"""Pages whose TOML is a whole proxy.toml or quotas.toml. Those of the reference pages have tests of their own."""
PROGRAMS = {"throttle-sidecar": cli, "python -m pipeline": pipeline}
NEEDS_NOTHING = ("check",)
"""Commands that only read files, so they are run as well as parsed."""
NEEDS_A_SIDECAR = ("--live", "--url")
ROUTES = {
    *("/metrics", "/healthz", "/readyz", "/config", "/throttle"),
    *("/-/reload", "/overrides", "/overrides/undo", "/history"),
}
MOVE = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [101, 102, 104]}]}


GENERATED = re.compile(
    r"^\| (?:key \| sections|name \| severity \| do) \|.*?\n\n|<!-- ([\w ]+): begin -->.*?<!-- \1: end -->",
    re.MULTILINE | re.DOTALL,
)
"""The tables that `python -m deploy` and the benchmarks write."""


def blocks(text: str, *languages: str) -> list[str]:
    """Fenced blocks of these languages, without their indentation."""
    found = re.findall(rf"^( *)```(?:{'|'.join(languages)})\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    return [re.sub(f"^{indent}", "", body, flags=re.MULTILINE) for indent, body in found]


def commands(text: str) -> Iterator[str]:
    """Every command of ours: lines of code, also behind `kubectl exec … --`, and inline code with arguments."""
    for program in PROGRAMS:
        yield from re.findall(rf"^ {{4,}}(?:kubectl exec .* -- )?({program} .+)$", text, re.MULTILINE)
        yield from re.findall(rf"^ *({program} .+)$", "\n".join(blocks(text, "sh", "console")), re.MULTILINE)
        yield from re.findall(rf"(?<!`)`({program} [^`…]+)`(?!`)", text.replace("\n", " "))


def all_of(find: object, languages: tuple[str, ...], pages: list[str]) -> list[tuple[str, str]]:
    assert callable(find)
    return sorted({(page, each) for page in pages for each in find(PAGES[page], *languages)})


def parsed(line: str) -> tuple[click.Command, list[str]]:
    """The command and its arguments, without a comment. Raises click.UsageError."""
    words = shlex.split(line, comments=True)
    size = 1 if words[0] == "throttle-sidecar" else 3
    program, rest = PROGRAMS[" ".join(words[:size])], words[size:]
    if rest[0].startswith("-"):
        return program, []
    command = program.get_command(click.Context(program), rest[0])
    if isinstance(command, click.Group) and rest[1:]:
        command, rest = command.get_command(click.Context(command), rest[1]), rest[1:]
    if command is None:
        raise click.UsageError(f"no such command: {rest[0]}")
    return command, rest[1:]


def group_context() -> click.Context:
    """A command keeps the names of its help option from its first context: it must have those of the program's."""
    return click.Context(cli, **cli.context_settings)


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the commands name."""
    for name in ("proxy.toml", "quotas.toml"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    shutil.copy(ROOT / "examples" / "quotas.toml", tmp_path / "good.toml")
    for name in ("move.json", "new.json", "old.json", "generated.txt"):
        (tmp_path / name).write_text(json.dumps(MOVE), "utf-8")
    (tmp_path / "quotas").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("page", "line"), all_of(commands, (), list(PAGES)))
@pytest.mark.usefixtures("workplace")
def test_every_command_is_one(page: str, line: str) -> None:
    command, arguments = parsed(line)
    if arguments:
        command.make_context(line, list(arguments), parent=group_context())
    reads_files = command.name in NEEDS_NOTHING and not {*arguments} & {*NEEDS_A_SIDECAR}
    if reads_files and arguments and "/etc/" not in line:
        result = CliRunner().invoke(cli, [str(command.name), *arguments])
        assert result.exit_code == 0, (page, result.output)


@pytest.mark.parametrize("name", cli.list_commands(click.Context(cli)))
def test_no_command_is_left_out(name: str) -> None:
    assert any(f"throttle-sidecar {name}" in text for text in PAGES.values())


def test_a_wrong_option_would_be_noticed() -> None:
    command, arguments = parsed("throttle-sidecar status --onec")
    with pytest.raises(click.UsageError, match="--onec"):
        command.make_context("status", arguments, parent=group_context())


@pytest.mark.parametrize("page", ["docs/first-hour.md", "docs/move.md", "docs/incident.md", "docs/runbooks.md"])
def test_a_task_has_commands(page: str) -> None:
    assert len({*commands(PAGES[page])}) >= 3


@pytest.mark.parametrize(("page", "text"), all_of(blocks, ("toml",), TASKS))
def test_every_file_is_accepted(page: str, text: str, workplace: Path) -> None:
    (workplace / ("proxy.toml" if "[broker]" in text else "quotas.toml")).write_text(text, "utf-8")
    result = CliRunner().invoke(cli, ["check", "--config", "proxy.toml"])
    assert result.exit_code == 0, (page, result.output)


@pytest.mark.parametrize(("page", "text"), all_of(blocks, ("yaml",), list(PAGES)))
def test_every_yaml_is_one(page: str, text: str) -> None:
    assert isinstance(yaml.safe_load(text), dict), page


@pytest.mark.parametrize("page", PAGES)
def test_every_metric_is_one(page: str) -> None:
    named = {name for name in re.findall(r"replication_throttle_\w+", PAGES[page]) if not name.endswith("_")}
    guards = {name for name in named if name.startswith("replication_throttle_guard_")}
    assert named - guards <= {metric.name for metric in METRICS}


@pytest.mark.parametrize("page", PAGES)
def test_every_route_is_one(page: str) -> None:
    assert set(re.findall(r"http://[\w.-]+:9404(/[\w/-]+)", PAGES[page])) <= ROUTES


@pytest.mark.parametrize("page", PAGES)
def test_every_file_of_ours_is_there(page: str) -> None:
    named = set(re.findall(r"(?<![\w/.-])((?:deploy|tests|examples)/[\w./-]+\w)", PAGES[page]))
    assert {path for path in named if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "docs/budget.md"])
def test_every_module_is_there(page: str) -> None:
    """Maintainers' pages leave out the package that they are about."""
    named = set(re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", PAGES[page]))
    places = [ROOT, ROOT / "proxy", ROOT / "operating"]
    assert {path for path in named if not any((place / path).exists() for place in places)} == set()


def test_every_redirection_names_the_sidecars_user_and_where_the_script_is() -> None:
    """Without --uid it is the image's user, and the package's sidecar is led to itself. It is on nobody's PATH."""
    text = "".join(PAGES.values())
    assert re.findall(r"redirect\.sh add(?! --ports \S+ --to \S+ --uid \S+)", text) == []
    assert re.findall(r"(?<!/)\bredirect\.sh (?:add|remove|show)", text) == []


def anchors(text: str) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    """Also to the heading that it names, of this page or another."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", PAGES[page]):
        if target.startswith(("http://", "https://")):
            continue
        name, _, heading = target.partition("#")
        path = (ROOT / page).parent / name if name else ROOT / page
        if not path.exists() or (heading and heading not in anchors(path.read_text("utf-8"))):
            broken.append(target)
    assert broken == []


def test_every_page_can_be_reached() -> None:
    """From README.md, by links."""
    reached, left = {"README.md"}, ["README.md"]
    while left:
        page = left.pop()
        for target in re.findall(r"\]\(([^)#\s]+\.md)[^)]*\)", PAGES[page]):
            found = ((ROOT / page).parent / target).resolve().relative_to(ROOT).as_posix()
            if found in PAGES and found not in reached:
                reached.add(found)
                left.append(found)
    assert reached == set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_every_key_of_limits_is_one(page: str) -> None:
    """Keys that became constants are in no page."""
    assert set(re.findall(r"\blimits\.(\w+)", PAGES[page])) <= set(keys_of(LimitSettings))


def test_documents_stay_short() -> None:
    """What has to be added, replaces something; tables that programs write are as long as there is to say."""
    words = {page: len(GENERATED.sub("", text).split()) for page, text in PAGES.items()}
    measured = words.pop("docs/benchmarks.md")
    assert sum(words.values()) <= 32_000, words
    assert measured <= 2_100

"""``status`` of fifty sidecars: over HTTP, at 80 and 160 columns; compared with golden screens.

To write the screens anew after a change that was meant: ``GOLDEN=write pytest`` of this file, then read the diff.
"""

from __future__ import annotations

import io
import json
import os
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from operating.fleet.members import Member
from operating.status.rows import Sidecar
from operating.status.table import layout
from proxy.observing.throttle_page import Page
from tests.proxy.fake_sidecar import FakeSidecar, serving

from .fleet_of_fifty import SILENT, page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from click.testing import Result

    Run = Callable[..., Result]

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
GOLDEN = Path(__file__).parent / "golden"
BROKERS = range(101, 151)


def answers() -> list[Sidecar]:
    found = []
    for broker in BROKERS:
        url = f"http://kafka-{broker}:9404"
        if broker in SILENT:
            found.append(Sidecar(Member(url, broker), error=f"{url}/throttle: no answer from a sidecar: timed out"))
        else:
            content = json.dumps(page(broker, NOW.timestamp())).encode()
            found.append(Sidecar(Member(url, broker), content, msgspec.json.decode(content, type=Page)))
    return found


def screen(width: int, *, height: int | None = None) -> str:
    console = Console(file=io.StringIO(), width=width, legacy_windows=False)
    console.print(layout(answers(), NOW, width=width, height=height))
    assert isinstance(console.file, io.StringIO)
    return "".join(f"{line.rstrip()}\n" for line in console.file.getvalue().splitlines())


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fifty-at-80", {"width": 80}),
        ("fifty-at-160", {"width": 160}),
        ("fifty-at-80-of-40-lines", {"width": 80, "height": 40}),
    ],
)
def test_it_looks_as_it_did(name: str, options: dict[str, object]) -> None:
    found, golden = screen(**options), GOLDEN / f"status-{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        golden.write_text(found, "utf-8")
    assert found == golden.read_text("utf-8")


@pytest.mark.parametrize("width", [80, 100, 139, 140, 160, 250])
def test_no_line_of_a_table_is_wider_than_the_screen_and_columns_stay_in_line(width: int) -> None:
    lines = screen(width).splitlines()
    assert max(map(cell_len, lines)) <= width
    first = lines.index(next(line for line in lines if line.startswith("broker  ")))
    table = lines[first + 1 : lines.index("", first)]
    assert len(table) > 90
    ends = lines[first].index("quota") + len("quota")
    rows = [line for line in table if "no answer" not in line]
    assert {line[ends] for line in rows if len(line) > ends} == {" "}
    assert all(line[ends - 1] != " " for line in rows)


def test_the_worst_come_first() -> None:
    lines = screen(80).splitlines()
    brokers = [line.split()[0] for line in lines if line[:3].isdecimal()]
    assert brokers[:2] == [str(broker) for broker in SILENT]
    marked = [line.split()[1] == "!" for line in lines if line[:3].isdecimal()]
    assert marked == sorted(marked, reverse=True)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Path]:
    """Fifty that answer over HTTP, but for two ports where nobody listens."""
    with ExitStack() as stack:
        lines = []
        for broker in BROKERS:
            url = f"http://127.0.0.1:{SILENT.index(broker) + 1}" if broker in SILENT else None
            if url is None:
                fake = stack.enter_context(serving(FakeSidecar()))
                fake.content = json.dumps(page(broker, NOW.timestamp())).encode()
                url = fake.url
            lines.append(f'[[sidecars]]\nbroker = {broker}\nurl = "{url}"\n')
        path = tmp_path / "fleet.toml"
        path.write_text("\n".join(lines))
        yield path


def test_fifty_are_asked_at_once_and_those_who_do_not_answer_are_named(fleet: Path, sidecar: Run) -> None:
    result = sidecar("status", "--fleet", fleet)
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0] == "50 sidecars: 48 answer, 2 do not, 13 with warnings"
    assert "\x1b" not in result.output
    assert sum(line.split()[:1] == ["103"] for line in lines) >= 2
    assert next(line for line in lines if "no answer from a sidecar" in line).startswith("http://127.0.0.1:1: ")


def test_json_is_a_line_per_sidecar(fleet: Path, sidecar: Run) -> None:
    result = sidecar("status", "--fleet", fleet, "--json")
    assert result.exit_code == 1
    found = [json.loads(line) for line in result.output.splitlines()]
    assert [each.get("broker") for each in found] == [None if b in SILENT else b for b in BROKERS]
    assert sum("error" in each for each in found) == 2


def test_only_the_brokers_that_are_asked_for_are_asked(fleet: Path, sidecar: Run) -> None:
    result = sidecar("status", "--fleet", fleet, "--at", 103, "--at", 104, "--json")
    assert result.exit_code == 0
    assert [json.loads(line)["broker"] for line in result.output.splitlines()] == [103, 104]


def test_a_broker_that_the_fleet_has_not_is_an_error(fleet: Path, sidecar: Run) -> None:
    result = sidecar("status", "--fleet", fleet, "--at", 7)
    assert result.exit_code == 1
    assert f"{fleet}: has no broker 7" in result.output


def test_another_brokers_sidecar_at_an_address_is_an_error(tmp_path: Path, fake: FakeSidecar, sidecar: Run) -> None:
    (tmp_path / "fleet.toml").write_text(f'[[sidecars]]\nbroker = 102\nurl = "{fake.url}"\n')
    result = sidecar("status", "--fleet", tmp_path / "fleet.toml")
    assert result.exit_code == 1
    assert f"{fake.url}: is the sidecar of broker 101, not of 102" in result.output


def test_the_token_that_the_fleet_names_is_sent(tmp_path: Path, fake: FakeSidecar, sidecar: Run) -> None:
    """With http.require_token the sidecar answers nothing without it."""
    (tmp_path / "token").write_text("s3cret\n")
    (tmp_path / "fleet.toml").write_text(f'token_file = "token"\n[[sidecars]]\nbroker = 101\nurl = "{fake.url}"\n')
    assert sidecar("status", "--fleet", tmp_path / "fleet.toml", "--once").exit_code == 0
    assert fake.tokens == ["Bearer s3cret"]


def test_a_configuration_says_whom_to_ask(config: Path, fake: FakeSidecar, sidecar: Run) -> None:
    config.write_text(config.read_text().rpartition("127.0.0.1:0")[0] + f'127.0.0.1:{fake.server_port}"\n')
    assert sidecar("status", "--once", "--config", config).exit_code == 0
    assert fake.paths == ["/throttle"]


def test_a_fleet_file_that_is_wrong_is_an_error(tmp_path: Path, sidecar: Run) -> None:
    (tmp_path / "fleet.toml").write_text("[[sidecars]]\nbroker = 1\n")
    result = sidecar("status", "--fleet", tmp_path / "fleet.toml")
    assert result.exit_code == 1
    assert "fleet.toml: sidecars[0].url: missing" in result.output

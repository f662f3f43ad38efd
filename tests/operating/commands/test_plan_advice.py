"""The commands that `plan` prints do what it says they do, run as they are printed."""

from __future__ import annotations

import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.operating.fleet.fake_kubectl import FakeKubectl

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    Sidecar = Callable[..., Result]

LEADER_RATE = "leader.replication.throttled.rate"
COMMAND = re.compile(r"throttle-sidecar (set .*?)(?: ends it.*)?$")


def schedule(when: str, section: str, value: str) -> str:
    return f"[[schedules]]\n{when}\n[schedules.{section}]\n{value}\n"


def around_now() -> str:
    begins, ends = (datetime.now(UTC) + timedelta(hours=hours) for hours in (-1, 1))
    return f'from = "{begins:%H:%M}"\nto = "{ends:%H:%M}"'


FOR_A_TIME = "until = 2099-01-01T00:00:00Z"
IN_THE_WAY = {
    "the mode": "[mode]\nenforce = false\n",
    "the mode, for a time": schedule(FOR_A_TIME, "mode", "enforce = false"),
    "the mode, by the clock": schedule(around_now(), "mode", "enforce = false"),
    "a rate, for a time": schedule(FOR_A_TIME, "brokers.101", f'{LEADER_RATE} = "2MB/s"'),
}


@pytest.fixture
def plan(tmp_path: Path, sidecar: Sidecar) -> Callable[..., Any]:
    """Plan a move of orders-0 from 101 to 102, of 50 MB at 5 MB/s."""
    for name, replicas in (("cur", [101]), ("move", [102])):
        partitions = [{"topic": "orders", "partition": 0, "replicas": replicas}]
        (tmp_path / f"{name}.json").write_text(json.dumps({"version": 1, "partitions": partitions}))

    def run(*options: object) -> Any:
        asked = (tmp_path / "move.json", "--current", tmp_path / "cur.json", "--bytes", "50MB", "--rate", "5MB/s")
        result = sidecar("plan", *asked, *options, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return run


def run_what_is_printed(sidecar: Sidecar, warnings: list[str]) -> None:
    printed = [found[1] for found in map(COMMAND.search, warnings) if found]
    assert len(printed) == 1, warnings
    result = sidecar(*shlex.split(printed[0]))
    assert result.exit_code == 0, (printed, result.output)


@pytest.mark.parametrize("before", IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_what_is_printed_for_a_file_works(
    plan: Callable[..., Any], sidecar: Sidecar, tmp_path: Path, before: str
) -> None:
    quotas = tmp_path / "sp ace" / "q.toml"
    quotas.parent.mkdir()
    quotas.write_text(before)
    first = plan("--write", quotas)
    assert first["seconds"] != 10
    run_what_is_printed(sidecar, first["warnings"])
    assert plan("--write", quotas)["seconds"] == 10


@pytest.mark.parametrize("before", IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_what_is_printed_for_a_fleet_works(
    plan: Callable[..., Any], sidecar: Sidecar, tmp_path: Path, before: str
) -> None:
    kubectl = FakeKubectl(tmp_path / "cluster")
    (kubectl.folder / "kafka-throttle-quotas").write_text(json.dumps({"data": {"quotas.toml": before}}))
    fleet = tmp_path / "fle et.toml"
    members = [
        f'[[sidecars]]\nbroker = {broker}\nurl = "http://127.0.0.1:{port}"\nconfigmap = "kafka/throttle-quotas"\n'
        for port, broker in enumerate((101, 102), 1)
    ]
    fleet.write_text(f'[kubernetes]\nkubectl = "{kubectl.path}"\n' + "".join(members))
    first = plan("--fleet", fleet)
    assert first["seconds"] != 10
    run_what_is_printed(sidecar, first["warnings"])
    assert plan("--fleet", fleet)["seconds"] == 10


@pytest.mark.usefixtures("plan")
def test_a_name_with_a_space_is_quoted_in_what_comes_next(sidecar: Sidecar, tmp_path: Path) -> None:
    move = (tmp_path / "move.json").rename(tmp_path / "mo ve.json")
    result = sidecar(
        "plan", move, "--current", tmp_path / "cur.json", "--rate", "5MB/s", "--write", tmp_path / "q.toml"
    )
    assert result.exit_code == 0, result.output
    *_, command = result.stdout.rstrip().partition("throttle-sidecar verify ")
    assert shlex.split(command) == [str(move), "--bootstrap", "HOST:PORT", "--quotas", str(tmp_path / "q.toml")]

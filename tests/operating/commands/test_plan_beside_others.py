"""``plan --write`` into a file in which other things stand, from the command line."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    Sidecar = Callable[..., Result]

LEADER, FOLLOWER = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
LISTS = "follower.replication.throttled.replicas"


@pytest.fixture
def plan(tmp_path: Path, sidecar: Sidecar) -> Callable[..., Result]:
    """Plan a move of orders-0 from 101 and 102 to 102 and 103."""
    for name, replicas in (("cur", [101, 102]), ("move", [102, 103])):
        partitions = [{"topic": "orders", "partition": 0, "replicas": replicas}]
        (tmp_path / f"{name}.json").write_text(json.dumps({"version": 1, "partitions": partitions}))
    asked = (tmp_path / "move.json", "--current", tmp_path / "cur.json", "--bytes", "1GiB", "--rate", "50MiB/s")
    return lambda *options: sidecar("plan", *asked, *options)


def section(quotas: Path, broker: str) -> Any:
    return tomllib.loads(quotas.read_text())["brokers"][broker]


def test_a_plan_for_a_time_ends_no_quota_that_stands(plan: Callable[..., Result], tmp_path: Path) -> None:
    quotas = tmp_path / "q.toml"
    quotas.write_text(f'[topics."*"]\n{LISTS} = "*"\n[brokers.101]\n{FOLLOWER} = "80MiB/s"\n')
    result = plan("--for", "6h", "--write", quotas)
    assert result.exit_code == 0, result.output
    assert section(quotas, "101") == {"follower": {"replication": {"throttled": {"rate": "80MiB/s"}}}}
    assert f'{quotas}: schedules[0].brokers.101.{LEADER}: "50MiB/s"' in result.stdout
    assert "goes first" not in result.stdout


def test_a_plan_for_good_makes_nothing_last_that_was_set_for_a_time(
    plan: Callable[..., Result], sidecar: Sidecar, tmp_path: Path
) -> None:
    quotas = tmp_path / "q.toml"
    quotas.write_text("# ours\n")
    result = sidecar("set", FOLLOWER, "1MiB/s", "--broker", "101", "--for", "2h", "--quotas", quotas)
    assert result.exit_code == 0, result.output
    ends = section(quotas, "101")["until"]
    result = plan("--write", quotas)
    assert result.exit_code == 0, result.output
    assert section(quotas, "101") == {"leader": {"replication": {"throttled": {"rate": "50MiB/s"}}}}
    (schedule,) = tomllib.loads(quotas.read_text())["schedules"]
    rate = {"follower": {"replication": {"throttled": {"rate": "1MiB/s"}}}}
    assert schedule == {"until": ends, "brokers": {"101": rate}}
    assert f'{quotas}: schedules[0].brokers.101.{FOLLOWER}: "1MiB/s"' in result.stdout


@pytest.mark.parametrize("option", ["--write", "--fleet"])
def test_a_standing_list_that_throttles_less_is_a_warning(
    plan: Callable[..., Result], tmp_path: Path, option: str
) -> None:
    quotas, fleet = tmp_path / "q.toml", tmp_path / "fleet.toml"
    quotas.write_text(f'[topics."*"]\n{LISTS} = "*"\n')
    members = "".join(
        f'[[sidecars]]\nbroker = {broker}\nurl = "http://127.0.0.1:{port}"\nquotas = "q.toml"\n'
        for port, broker in enumerate((101, 102, 103), 1)
    )
    fleet.write_text(members)
    result = plan(option, quotas if option == "--write" else fleet, "--json")
    assert result.exit_code == 0, result.output
    told = f'{quotas}: topics."*" no longer throttles orders as follower: the exact list of the move'
    assert [each for each in json.loads(result.stdout)["warnings"] if each.startswith(told)]


def test_a_file_that_set_has_changed_is_one_that_plan_can_change(
    plan: Callable[..., Result], sidecar: Sidecar, tmp_path: Path
) -> None:
    """`set --broker` puts a section at the end, so that brokers stand above topics and below them."""
    quotas = tmp_path / "q.toml"
    quotas.write_text(f'[brokers.default]\n{LEADER} = "50MB/s"\n[topics.clicks]\n{LEADER} = "9MB/s"\n')
    assert sidecar("set", LEADER, "20MB/s", "--broker", "104", "--quotas", quotas).exit_code == 0
    result = plan("--write", quotas)
    assert result.exit_code == 0, result.output
    found = tomllib.loads(quotas.read_text())
    assert (found["brokers"].keys(), found["topics"].keys()) == (
        {"default", "101", "102", "103", "104"}, {"clicks", "orders"},
    )  # fmt: skip

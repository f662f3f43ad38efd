"""By when ``check`` says that catch-up is to end: never a time that the sidecar does not go by."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from operating import configuration
from operating.checking.report import with_overrides
from proxy.quota_files.quota_file import keep_last_good
from proxy.quotas import parse_quotas
from tests.proxy.files.test_reading import OfAnotherUser

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    Sidecar = Callable[..., Result]

RATE = "leader.replication.throttled.rate"
WITHIN = f'[brokers.101]\n{RATE} = {{ within = "2h", max = "20MiB/s" }}\nleader.replication.throttled.replicas = "*"\n'
KEY = f"brokers.101.{RATE} within 2h"
UNKNOWN = "  when it is to end is not known here: it counts from when the sidecar first read this"
BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def quotas(config: Path) -> Path:
    path = config.parent / "quotas.toml"
    path.write_text(WITHIN)
    return path


def keep(state: Path) -> None:
    state.parent.mkdir(exist_ok=True)
    keep_last_good(state, WITHIN.encode(), BEGAN.timestamp(), {KEY: BEGAN.timestamp()})


def source(sidecar: Sidecar, config: Path, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(sidecar("check", "--config", config, "--json", *options).output)
    return {key: found["roles"]["leader"]["rate_source"][key] for key in ("finish_by", "counts_from", "known_from")}


def test_a_start_after_the_moment_that_is_asked_about_is_none_of_it(
    sidecar: Sidecar, config: Path, quotas: Path
) -> None:
    keep(quotas.with_name(".quotas.toml.last-good"))
    output = sidecar("check", "--config", config, "--at", "2020-01-01T00:00:00Z").output
    assert UNKNOWN in output
    assert "to end by" not in output


@pytest.mark.parametrize("at", [(), ("--at", "2100-01-01T00:00:00Z")])
def test_a_start_that_is_kept_is_told_with_its_place(
    sidecar: Sidecar, config: Path, quotas: Path, at: tuple[str, ...]
) -> None:
    state = quotas.with_name(".quotas.toml.last-good")
    keep(state)
    output = sidecar("check", "--config", config, *at).output
    assert f"  to end by 2026-01-01 14:00:00 UTC, counted from 2026-01-01 12:00:00 UTC (kept in {state})\n" in output
    assert source(sidecar, config, *at)["known_from"] == str(state)


@pytest.mark.parametrize("at", [(), ("--at", "2100-01-01T00:00:00Z")])
def test_a_state_that_only_the_environment_names(
    sidecar: Sidecar, config: Path, quotas: Path, monkeypatch: pytest.MonkeyPatch, at: tuple[str, ...]
) -> None:
    """An operator's shell has no STATE_DIRECTORY: no time is told that would be off by as long as the sidecar runs."""
    folder = config.parent / "state"
    keep(folder / "quotas.toml.last-good")
    output = sidecar("check", "--config", config, *at).output
    state = config.parent / ".quotas.toml.last-good"
    assert f"{UNKNOWN}; no such start can be read in {state}, and `status` asks the sidecar\n" in output
    assert "to end by" not in output
    assert set(source(sidecar, config, *at).values()) == {None}
    monkeypatch.setenv("STATE_DIRECTORY", str(folder))
    assert "  to end by 2026-01-01 14:00:00 UTC, " in sidecar("check", "--config", config, *at).output


@pytest.mark.parametrize("named", [False, True])
def test_the_packages_configuration_has_its_state_where_the_unit_keeps_it(
    sidecar: Sidecar, config: Path, quotas: Path, monkeypatch: pytest.MonkeyPatch, *, named: bool
) -> None:
    unit = config.parent / "unit"
    keep(unit / "quotas.toml.last-good")
    monkeypatch.setattr(configuration, "PACKAGED", config)
    monkeypatch.setattr(configuration, "UNIT_STATE", unit)
    if named:
        config.write_text(config.read_text() + '[quotas]\nstate = "other"\n')
    known_from = source(sidecar, config)["known_from"]
    assert known_from == (None if named else str(unit / "quotas.toml.last-good"))


def test_a_deadline_that_counts_from_nothing_is_told_as_it_is(sidecar: Sidecar, config: Path, quotas: Path) -> None:
    quotas.write_text(WITHIN.replace('within = "2h"', "finish_by = 2100-01-01T06:00:00Z"))
    assert "  to end by 2100-01-01 06:00:00 UTC\n" in sidecar("check", "--config", config).output
    quotas.write_text(WITHIN.replace('within = "2h"', 'finish_by = "06:00"'))
    output = sidecar("check", "--config", config, "--at", "2100-01-01T07:00:00Z").output
    assert "  to end by 2100-01-02 06:00:00 UTC\n" in output


def test_overrides_below_a_directory_that_is_closed_are_left_out_and_it_is_said() -> None:
    _, lines = with_overrides(parse_quotas(b""), OfAnotherUser("priv/sub/quotas.state"), 101, BEGAN)
    where = "priv/sub/overrides-101.json"
    assert lines == [f"overrides: {where}: cannot be read: Permission denied: they are left out here"]

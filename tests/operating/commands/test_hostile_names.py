"""Whatever a topic, a peer or an error is called, nothing reaches an operator's terminal but text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.proxy.fake_sidecar import PAGE, ROLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from tests.proxy.fake_sidecar import FakeSidecar

    Sidecar = Callable[..., Result]

CLIPBOARD = "\x1b]52;c;cm0gLXJmIC8=\x07"
CLEAR = "\x9b2J"
MARKUP = "[/red]:bomb:"
NEW_LINE = "a\nbroker 101: all is well\t\0"
NAMES = [CLIPBOARD, CLEAR, MARKUP, "back\u202eward", NEW_LINE]


def page_of(name: str) -> bytes:
    link = {"peer": name, "fetch_version": 17, "partitions": 1}
    partition: dict[str, Any] = {"topic": name, "partition": 7, "peer": name, "in_sync": False, "lag_messages": 345}
    role = {**ROLE, "partitions": [partition], "links": [link], "undecoded": {name: 3}}
    quotas = {"hash": name, "last_reload_successful": False, "last_error": f"quotas.toml: {name}"}
    clients = [{"kind": "producer", "entity": name, "quota_bytes_per_second": 1.0}]
    page = {**PAGE, "policy": name, "quotas": quotas, "roles": {"leader": role}, "clients": clients}
    return json.dumps(page).encode()


def assert_only_text(output: str) -> None:
    assert output.replace("\n", "").isprintable(), ascii(output)


@pytest.mark.parametrize("name", NAMES)
def test_status_shows_names_escaped(name: str, fake: FakeSidecar, sidecar: Sidecar) -> None:
    fake.content = page_of(name)
    result = sidecar("status", "--once", "--url", fake.url)
    assert result.exit_code == 0, result.output
    assert_only_text(result.output)
    assert "345" in result.output
    assert [line for line in result.output.splitlines() if line.startswith("broker 101: all is well")] == []
    assert (MARKUP in result.output) == (name == MARKUP)


@pytest.mark.parametrize("name", NAMES)
def test_status_json_stays_json_and_says_the_same(name: str, fake: FakeSidecar, sidecar: Sidecar) -> None:
    fake.content = json.dumps(json.loads(page_of(name)), ensure_ascii=False).encode()
    result = sidecar("status", "--json", "--url", fake.url)
    assert_only_text(result.output)
    assert json.loads(result.output)["roles"]["leader"]["partitions"][0]["topic"] == name


@pytest.mark.parametrize("command", [("status", "--once"), ("status", "--json"), ("health",)])
def test_a_refusal_is_shown_escaped(command: tuple[str, ...], fake: FakeSidecar, sidecar: Sidecar) -> None:
    body = f"no: {CLIPBOARD}{CLEAR}".encode()
    fake.answers = {"/throttle": (500, body), "/healthz": (500, body)}
    result = sidecar(*command, "--url", fake.url)
    assert result.exit_code == 1
    assert_only_text(result.output)
    assert "no: " in result.output


def test_an_error_in_a_file_is_shown_escaped(sidecar: Sidecar, tmp_path: Any) -> None:
    (tmp_path / "proxy.toml").write_text(f'[broker]\nid = "{json.dumps(CLIPBOARD)[1:-1]}{CLEAR}"\n')
    result = sidecar("check", "--config", tmp_path / "proxy.toml")
    assert result.exit_code == 1
    assert_only_text(result.stderr)
    assert "broker.id: expected an integer" in result.stderr


RATE = "leader.replication.throttled.rate"
QUOTAS = f"""
[brokers.default]
{RATE} = "20MB/s"
[racks."eu\u009b2J\u00a01b"]
{RATE} = "1MB/s"
"""


def test_what_check_says_in_json_stays_json(config: Path, sidecar: Sidecar) -> None:
    (config.parent / "quotas.toml").write_text(QUOTAS)
    result = sidecar("check", "--config", config, "--json")
    assert_only_text(result.stdout)
    finer = json.loads(result.stdout)["roles"]["leader"]["finer"]
    assert [each["name"] for each in finer] == ["eu\x9b2J\xa01b"]

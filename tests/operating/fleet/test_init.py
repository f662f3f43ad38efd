"""``fleet init``: what is found is asked for its broker, and written whole or not at all."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from operating.cli import cli
from operating.commands import fleet as fleet_command
from operating.fleet.members import load_fleet
from tests.proxy.fake_sidecar import PAGE, FakeSidecar, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class FakeCluster:
    def __init__(self, hosts: list[str]) -> None:
        self._hosts = hosts

    def hosts(self) -> list[str]:
        return self._hosts


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    found = FakeCluster(["127.0.0.1"])

    @contextmanager
    def connected(**_: Any) -> Iterator[FakeCluster]:
        yield found

    monkeypatch.setattr(fleet_command, "connected", connected)
    return found


def init(folder: Path, *arguments: object) -> Result:
    return CliRunner().invoke(cli, ["fleet", "init", "--out", str(folder / "fleet.toml"), *map(str, arguments)])


def test_brokers_become_members(tmp_path: Path, cluster: FakeCluster) -> None:
    (tmp_path / "token").write_text("a-token-of-the-fleet")
    with serving(FakeSidecar()) as fake:
        done = init(tmp_path, "--bootstrap", "a:9092", "--port", fake.url.rpartition(":")[2], "--token-file", "token")
    assert done.exit_code == 0, done.output
    (member,) = load_fleet(tmp_path / "fleet.toml").members
    assert (member.broker, member.url, member.token_file) == (101, fake.url, tmp_path / "token")


def test_a_broker_may_have_the_id_0(tmp_path: Path, cluster: FakeCluster) -> None:
    """Strimzi's first broker has it."""
    with serving(FakeSidecar()) as fake:
        fake.content = json.dumps({**PAGE, "broker": 0}).encode()
        done = init(tmp_path, "--bootstrap", "a:9092", "--port", fake.url.rpartition(":")[2])
    assert done.exit_code == 0, done.output
    assert load_fleet(tmp_path / "fleet.toml").brokers == (0,)


def test_one_that_does_not_answer_is_named_and_nothing_is_written(tmp_path: Path, cluster: FakeCluster) -> None:
    cluster._hosts.append("127.0.0.2")
    done = init(tmp_path, "--bootstrap", "a:9092", "--port", 1)
    assert (done.exit_code, done.output.count("http://127.0.0.2:1:")) == (1, 1), done.output
    assert not (tmp_path / "fleet.toml").exists()


def test_a_sidecar_that_answers_for_two_brokers_is_named_and_nothing_is_written(
    tmp_path: Path, cluster: FakeCluster
) -> None:
    """Brokers of one host have sidecars at several ports; the file would be refused by every command."""
    cluster._hosts.append("127.0.0.1")
    with serving(FakeSidecar()) as fake:
        done = init(tmp_path, "--bootstrap", "a:9092", "--port", fake.url.rpartition(":")[2])
    assert (done.exit_code, f"{fake.url}, {fake.url}: are the sidecar of broker 101" in done.output) == (1, True)
    assert not (tmp_path / "fleet.toml").exists()


def test_a_token_that_cannot_be_read_is_said_before_anything_is_written(tmp_path: Path, cluster: FakeCluster) -> None:
    done = init(tmp_path, "--bootstrap", "a:9092", "--token-file", "token")
    assert (done.exit_code, f"{tmp_path / 'token'}: cannot be read" in done.output) == (1, True), done.output
    assert not (tmp_path / "fleet.toml").exists()


def test_a_file_that_is_there_stays(tmp_path: Path, cluster: FakeCluster) -> None:
    (tmp_path / "fleet.toml").write_text("# ours\n")
    assert "is there already" in init(tmp_path, "--bootstrap", "a:9092").output
    assert (tmp_path / "fleet.toml").read_text() == "# ours\n"


def test_without_kubectl_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    done = init(tmp_path, "--selector", "app=kafka")
    assert (done.exit_code, "kubectl: cannot be run" in done.output) == (1, True), done.output


def test_where_to_look_is_said_once(tmp_path: Path) -> None:
    assert init(tmp_path).exit_code == 2
    assert init(tmp_path, "--bootstrap", "a:9092", "--selector", "app=kafka").exit_code == 2

"""``set --fleet``: over files and ConfigMaps, with sidecars that answer and that do not."""

from __future__ import annotations

import json
import shlex
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from proxy.quotas import hash_of
from tests.operating.fleet.fake_kubectl import FakeKubectl
from tests.proxy.fake_sidecar import PAGE, ROLE, FakeSidecar, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    Run = Callable[..., Result]

RATE = "leader.replication.throttled.rate"
QUOTAS = f'[brokers.default]  # everybody\n{RATE} = "1MiB/s"\nleader.replication.throttled.replicas = "*"\n'


class Taking(FakeSidecar):
    """Its /throttle says that it has what its file says, at once."""

    def __init__(self, broker: int, path: Path) -> None:
        super().__init__()
        self._broker, self._path = broker, path

    @property
    def content(self) -> bytes:
        text = self._path.read_bytes()
        rate = 5 * 2**20 if b"5MiB" in text else 2**20
        roles = {"leader": {**ROLE, "quota_bytes_per_second": rate}}
        return json.dumps({**PAGE, "broker": self._broker, "quotas": {"hash": hash_of(text)}, "roles": roles}).encode()

    @content.setter
    def content(self, _: bytes) -> None:
        """What the fake's constructor says does not hold here."""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Path]:
    """Brokers 101 and 102 with a file each, 103 and 104 with one together; 104 does not answer."""
    with ExitStack() as stack:
        lines = []
        for broker, name in ((101, "a"), (102, "b"), (103, "c"), (104, "c")):
            path = tmp_path / f"{name}.toml"
            path.write_text(QUOTAS)
            url = "http://127.0.0.1:1" if broker == 104 else stack.enter_context(serving(Taking(broker, path))).url
            lines.append(f'[[sidecars]]\nbroker = {broker}\nurl = "{url}"\nquotas = "{name}.toml"\n')
        (tmp_path / "fleet.toml").write_text("\n".join(lines))
        yield tmp_path / "fleet.toml"


def files(fleet: Path) -> list[str]:
    return [(fleet.parent / f"{name}.toml").read_text() for name in "abc"]


def test_every_file_is_changed_once_and_every_broker_is_told_of(fleet: Path, sidecar: Run) -> None:
    result = sidecar("set", RATE, "5MiB/s", "--fleet", fleet)
    assert result.exit_code == 0, result.output
    assert files(fleet) == [QUOTAS.replace("1MiB", "5MiB")] * 3
    for line in (
        "broker 101: leader 1.00 MiB/s (1048576 B/s) -> 5.00 MiB/s (5242880 B/s)",
        "broker 102: leader 1.00 MiB/s (1048576 B/s) -> 5.00 MiB/s (5242880 B/s)",
        "brokers 103, 104: leader 1.00 MiB/s (1048576 B/s) -> 5.00 MiB/s (5242880 B/s)",
        "written at 3 places",
        "in force: brokers 101, 102, 103",
    ):
        assert line in result.output
    assert "could not ask: http://127.0.0.1:1/throttle" in result.output


def test_the_undo_of_each_place_brings_it_back(fleet: Path, sidecar: Run) -> None:
    (fleet.parent / "b.toml").write_text(QUOTAS.replace("1MiB", "3MiB"))
    before = files(fleet)
    result = sidecar("set", RATE, "5MiB/s", "--fleet", fleet)
    undos = [line.removeprefix("undo: ") for line in result.output.splitlines() if line.startswith("undo: ")]
    assert len(undos) == 3
    for undo in undos:
        assert sidecar(*shlex.split(undo)[1:], "--dry-run").exit_code == 0
        sidecar(*shlex.split(undo)[1:])
    assert files(fleet) == before


def test_a_value_of_one_broker_changes_only_what_it_reads(fleet: Path, sidecar: Run) -> None:
    assert sidecar("set", RATE, "5MiB/s", "--fleet", fleet, "--broker", 102).exit_code in (0, 1)
    assert [text != QUOTAS for text in files(fleet)] == [False, True, False]
    assert "[brokers.102]" in files(fleet)[1]


def test_at_chooses_files_by_who_reads_them(fleet: Path, sidecar: Run) -> None:
    assert sidecar("set", RATE, "5MiB/s", "--fleet", fleet, "--at", 104, "--at", 101).exit_code == 0
    assert [text != QUOTAS for text in files(fleet)] == [True, False, True]


def test_if_one_file_is_wrong_none_is_changed(fleet: Path, sidecar: Run) -> None:
    (fleet.parent / "b.toml").write_text("[brokers.default]\nrate = 1\n")
    result = sidecar("set", RATE, "5MiB/s", "--fleet", fleet)
    assert result.exit_code == 1
    assert "b.toml: brokers.default.rate: unknown key" in result.output
    assert "nothing is written, at none of 3 places" in result.output
    assert (files(fleet)[0], files(fleet)[2]) == (QUOTAS, QUOTAS)
    assert "Traceback" not in result.output


def test_if_another_section_goes_first_somewhere_none_is_changed_and_it_is_named(fleet: Path, sidecar: Run) -> None:
    (fleet.parent / "a.toml").write_text(f'{QUOTAS}[brokers.101]\n{RATE} = "9MiB/s"\n')
    result = sidecar("set", RATE, "5MiB/s", "--fleet", fleet)
    assert result.exit_code == 1
    assert "a.toml: brokers.default" in result.output
    assert "brokers.101 goes first on broker 101" in result.output
    assert f"--fleet {fleet} --at 101" in result.output
    assert files(fleet)[1:] == [QUOTAS, QUOTAS]


def test_a_dry_run_shows_and_writes_nothing(fleet: Path, sidecar: Run) -> None:
    result = sidecar("set", RATE, "5MiB/s", "--fleet", fleet, "--dry-run")
    assert result.exit_code == 0
    assert result.output.count(f'+{RATE} = "5MiB/s"') == 3
    assert "dry run: nothing is written" in result.output
    assert files(fleet) == [QUOTAS] * 3


def test_json_has_each_place_and_each_sidecar(fleet: Path, sidecar: Run) -> None:
    result = sidecar("set", RATE, "5MiB/s", "--fleet", fleet, "--json")
    said: dict[str, Any] = json.loads(result.output)
    assert [(each["read_by"], each["written"]) for each in said["places"]] == [
        ([101], True), ([102], True), ([103, 104], True),
    ]  # fmt: skip
    assert [(each["broker"], each["in_force"]) for each in said["sidecars"]] == [
        (101, True), (102, True), (103, True), (104, None),
    ]  # fmt: skip
    refused = sidecar("set", RATE, "5MiB/x", "--fleet", fleet, "--json")
    assert refused.exit_code == 1
    assert json.loads(refused.output.splitlines()[0])["problems"]


@pytest.mark.parametrize(
    "options",
    [("--quotas", "a.toml"), ("--config", "proxy.toml"), ("--url", "http://a")],
)
def test_the_fleet_says_where_everything_is(fleet: Path, sidecar: Run, options: tuple[str, str]) -> None:
    assert sidecar("set", RATE, "5MiB/s", "--fleet", fleet, *options).exit_code == 2
    assert sidecar("set", RATE, "5MiB/s", "--at", 1, "--quotas", fleet.parent / "a.toml").exit_code == 2


def test_a_broker_that_is_not_in_the_fleet_is_named(fleet: Path, sidecar: Run) -> None:
    result = sidecar("set", RATE, "5MiB/s", "--fleet", fleet, "--broker", 7)
    assert result.exit_code == 1
    assert "has no broker 7: expected one of 101, 102, 103, 104" in result.output


def test_a_config_map_is_patched_and_who_waits_for_its_kubelet_is_named(tmp_path: Path, sidecar: Run) -> None:
    kubectl = FakeKubectl(tmp_path / "cluster")
    (kubectl.folder / "kafka-quotas").write_text(json.dumps({"data": {"quotas.toml": QUOTAS}}))
    (tmp_path / "fleet.toml").write_text(
        f'[kubernetes]\nkubectl = "{kubectl.path}"\n'
        '[[sidecars]]\nbroker = 1\nurl = "http://127.0.0.1:1"\nconfigmap = "kafka/quotas"\n'
    )
    result = sidecar("set", RATE, "5MiB/s", "--fleet", tmp_path / "fleet.toml")
    assert result.exit_code == 0, result.output
    assert "configmap kafka/quotas, quotas.toml: brokers.default" in result.output
    assert "not told, its kubelet brings the ConfigMap within a minute or so" in result.output
    data = json.loads((kubectl.folder / "kafka-quotas").read_text())["data"]
    assert data["quotas.toml"] == QUOTAS.replace("1MiB", "5MiB")

"""Set, look at the file, type the undo that it printed, look again."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

import pytest

from proxy.quotas.editing import facts
from proxy.quotas.reading import hash_of
from tests.proxy.fake_sidecar import PAGE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from tests.proxy.fake_sidecar import FakeSidecar

    Sidecar = Callable[..., Result]

RATE = "leader.replication.throttled.rate"
LIST = "leader.replication.throttled.replicas"
FILE = f"""\
# as the team agreed
[brokers.default]
{RATE} = "20MB/s"   # each
[topics.orders]
{LIST} = "0:101,1:102"
"""


@pytest.fixture
def quotas(config: Path) -> Path:
    path = config.parent / "quotas.toml"
    path.write_text(FILE)
    return path


def undone(sidecar: Sidecar, output: str) -> Result:
    (line,) = (line for line in output.splitlines() if line.startswith("undo: "))
    program, *arguments = shlex.split(line.removeprefix("undo: "))
    assert program == "throttle-sidecar"
    return sidecar(*arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([RATE, "30MB/s"], f'{RATE} = "30MB/s"   # each'),
        ([RATE, "0"], f"{RATE} = 0   # each"),
        ([RATE, "5MB/s", "--broker", "101"], f'[brokers.101]\n{RATE} = "5MB/s"\n'),
        ([RATE, "5MB/s", "--broker", "101", "--for", "2h"], f'[brokers.101]\n{RATE} = "5MB/s"\nuntil = '),
        ([RATE, "5MB/s", "--for", "1d"], f'[schedules.brokers.default]\n{RATE} = "5MB/s"\n'),
        ([RATE, "5MB/s", "--until", "2100-01-01T01:00:00+01:00"], "[[schedules]]\nuntil = 2100-01-01T00:00:00Z\n"),
        ([LIST, "*", "--topic", "clicks.*-eu"], f'[topics."clicks.*-eu"]\n{LIST} = "*"\n'),
        ([LIST, "", "--topic", "orders"], f'[topics.orders]\n{LIST} = ""\n'),
        (["mode.enforce", "false", "--for", "30m"], "[mode]\nenforce = false\nuntil = "),
        ([RATE, "--remove"], f'# as the team agreed\n[topics.orders]\n{LIST} = "0:101,1:102"\n'),
    ],
)
def test_a_change_and_its_undo(sidecar: Sidecar, quotas: Path, arguments: list[str], said: str) -> None:
    result = sidecar("set", *arguments, "--quotas", quotas)
    assert result.exit_code == 0, result.output
    assert said in quotas.read_text()
    assert quotas.read_text().startswith("# as the team agreed\n")
    assert undone(sidecar, result.output).exit_code == 0
    assert facts(quotas.read_bytes()) == facts(FILE.encode())


def test_what_was_what_is_and_what_it_means(sidecar: Sidecar, config: Path, quotas: Path, fake: FakeSidecar) -> None:
    changed = FILE.replace("20MB/s", "40MiB/s")
    fake.content = json.dumps({**PAGE, "quotas": {"hash": hash_of(changed.encode())}}).encode()
    result = sidecar("set", RATE, "40MiB/s", "--config", config, "--url", fake.url)
    assert result.exit_code == 0
    assert result.output == (
        f"{quotas}: brokers.default.{RATE}\n"
        '  was  "20MB/s"\n'
        '  now  "40MiB/s"\n'
        "broker 101: leader 19.07 MiB/s (20000000 B/s) -> 40.00 MiB/s (41943040 B/s)\n"
        f"undo: throttle-sidecar set --config {config} --url={fake.url} {RATE} 20MB/s\n"
        f"broker 101 ({fake.url}): in force, hash {hash_of(changed.encode())}\n"
    )
    assert quotas.read_text() == changed


def test_what_check_refuses_is_not_written(sidecar: Sidecar, quotas: Path) -> None:
    for arguments, problem in [
        ([RATE, "50mb"], f"{quotas}: brokers.default.{RATE}: expected bytes per second"),
        (["mode.enforce", "maybe"], f'{quotas}: mode.enforce: expected true or false, found "maybe"'),
        ([RATE, "5", "--broker", "x"], f'{quotas}: brokers.x: expected a broker id or "default", found "x"'),
        ([LIST, "0-101", "--topic", "a"], f'{quotas}: topics.a.{LIST}: expected "partition:broker'),
        ([LIST, "*", "--topic", "a b"], "expected a topic name or glob"),
        ([RATE, "5", "--for", "2"], "--for: expected a time like 2h"),
        ([RATE, "5", "--until", "noon"], "--until: expected a date and time with an offset"),
        ([RATE, "5", "--until", "2020-01-01T00:00:00Z"], "--until: expected a time to come"),
        (["rate", "5"], "rate: unknown key; expected one of"),
        ([RATE, "--end"], "nothing there ends by itself"),
        ([RATE, "--remove", "--broker", "7"], "not there, so there is nothing to remove"),
    ]:
        result = sidecar("set", *arguments, "--quotas", quotas)
        assert result.exit_code == 1
        assert result.stderr.startswith("Error: ")
        assert problem in result.stderr
        assert quotas.read_text() == FILE


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        [RATE],
        [RATE, "5", "--remove"],
        [RATE, "--remove", "--end"],
        [RATE, "--end", "--for", "2h"],
        [RATE, "5", "--for", "2h", "--until", "2100-01-01T00:00:00Z"],
    ],
)
def test_wrong_usage_is_2(sidecar: Sidecar, quotas: Path, arguments: list[str]) -> None:
    assert sidecar("set", *arguments, "--quotas", quotas).exit_code == 2
    assert quotas.read_text() == FILE


def test_a_dry_run_shows_the_difference_and_writes_nothing(sidecar: Sidecar, quotas: Path) -> None:
    result = sidecar("set", RATE, "40MiB/s", "--dry-run", "--quotas", quotas)
    assert result.exit_code == 0
    assert f'\n-{RATE} = "20MB/s"   # each\n+{RATE} = "40MiB/s"   # each\n' in result.output
    assert result.output.endswith("dry run: nothing is written\n")
    assert quotas.read_text() == FILE


def test_what_is_so_already_is_said(sidecar: Sidecar, quotas: Path) -> None:
    result = sidecar("set", RATE, "20MB/s", "--quotas", quotas)
    assert (result.exit_code, result.output) == (
        0,
        f"{quotas}: brokers.default.{RATE}: says so already, nothing is changed\n",
    )


def test_a_change_that_means_nothing_now_is_said_so(sidecar: Sidecar, config: Path, quotas: Path) -> None:
    quotas.write_text(FILE + f"[brokers.101]\n{RATE} = 5\n")
    result = sidecar("set", RATE, "40MiB/s", "--config", config, "--dry-run")
    assert "broker 101: nothing changes now (another section goes first" in result.output


def test_a_value_in_a_section_that_ends_ends_with_it(sidecar: Sidecar, quotas: Path) -> None:
    quotas.write_text(f"[brokers.101]\n{RATE} = 5\n{LIST} = '*'\nuntil = 2100-01-01T00:00:00Z\n")
    result = sidecar("set", RATE, "6", "--broker", "101", "--quotas", quotas)
    assert "  note: the whole section ends until 2100-01-01 00:00:00 UTC (in " in result.output


def test_a_new_warning_is_shown(sidecar: Sidecar, config: Path, quotas: Path) -> None:
    result = sidecar("set", RATE, "0", "--config", config, "--dry-run")
    assert "warning: leader: the quota is 0: catch-up of the listed replicas stops" in result.output
    assert result.output.count("\nwarning: ") == 1


def test_a_file_that_was_wrong_may_be_put_right(sidecar: Sidecar, config: Path, quotas: Path) -> None:
    quotas.write_text(FILE.replace("20MB/s", "20mb"))
    result = sidecar("set", RATE, "20MB/s", "--config", config)
    assert result.exit_code == 0
    assert "note: the file as it was would have been refused" in result.output
    assert quotas.read_text() == FILE


def test_what_had_ended_needs_no_undo(sidecar: Sidecar, quotas: Path) -> None:
    quotas.write_text(f"[brokers.101]\n{RATE} = 5\nuntil = 2020-01-01T00:00:00Z\n")
    result = sidecar("set", RATE, "--broker", "101", "--end", "--quotas", quotas)
    assert "undo: not needed: what was there had ended\n" in result.output
    assert quotas.read_text() == "# no quotas\n"


def test_without_a_url_nobody_is_asked(sidecar: Sidecar, quotas: Path) -> None:
    result = sidecar("set", RATE, "1", "--quotas", quotas)
    assert result.output.endswith("give the sidecar's --url, or --config instead of --quotas\n")


def test_a_sidecar_that_does_not_take_it_is_exit_1(
    sidecar: Sidecar, quotas: Path, fake: FakeSidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.commands.confirming.WAIT_SECONDS", 0.0)
    result = sidecar("set", RATE, "1", "--quotas", quotas, "--url", fake.url)
    assert result.exit_code == 1
    assert "not in force after 0 s: it has hash abc; does it read this file?" in result.stderr


def test_a_config_map_is_refused(sidecar: Sidecar, tmp_path: Path) -> None:
    mount = tmp_path / "mount"
    (mount / "..1").mkdir(parents=True)
    (mount / "..1" / "quotas.toml").write_text(FILE)
    (mount / "..data").symlink_to("..1")
    (mount / "quotas.toml").symlink_to("..data/quotas.toml")
    result = sidecar("set", RATE, "1", "--quotas", mount / "quotas.toml")
    assert result.exit_code == 1
    assert "kubectl edit configmap" in result.stderr
    assert sidecar("set", RATE, "1", "--quotas", mount / "quotas.toml", "--dry-run").exit_code == 0


def test_without_a_configuration_it_says_what_is_missing(
    sidecar: Sidecar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = sidecar("set", RATE, "1")
    assert result.exit_code == 1
    assert "proxy.toml: cannot be read" in result.stderr

"""Set, look at the file, type the undo that it printed, look again."""

from __future__ import annotations

import json
import math
import shlex
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from operating.editing.facts import facts
from proxy.quotas.reading import hash_of, parse_quotas
from proxy.quotas.rules import effective
from tests.proxy.fake_sidecar import PAGE, ROLE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    from tests.proxy.fake_sidecar import FakeSidecar

    Sidecar = Callable[..., Result]

MIB = 1 << 20
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
    return typed(sidecar, line.removeprefix("undo: "))


def typed(sidecar: Sidecar, line: str) -> Result:
    """As a shell takes it: the next command only if the one before went well."""
    for command in line.split(" && "):
        program, *arguments = shlex.split(command)
        assert program == "throttle-sidecar"
        result = sidecar(*arguments)
        if result.exit_code:
            break
    return result


def in_force(content: str, leader: float | None, **page: object) -> bytes:
    """/throttle of a sidecar of broker 101 that has this file, and this rate."""
    roles = {"leader": {**ROLE, "quota_bytes_per_second": leader}}
    return json.dumps({**PAGE, "quotas": {"hash": hash_of(content.encode())}, "roles": roles, **page}).encode()


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
        ([RATE, "10MiB/s", "--peer", "102"], f'[peers.102]\n{RATE} = "10MiB/s"\n'),
        ([RATE, "5", "--rack", "eu.1b", "--for", "2h"], f'[racks."eu.1b"]\n{RATE} = 5\nuntil = '),
        ([RATE, "1MiB/s", "--topic", "orders"], f'{LIST} = "0:101,1:102"\n{RATE} = "1MiB/s"\n'),
        ([RATE, "unlimited", "--topic", "clicks-*"], f'[topics."clicks-*"]\n{RATE} = "unlimited"\n'),
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
    fake.content = in_force(changed, 40 * MIB)
    result = sidecar("set", RATE, "40MiB/s", "--config", config, "--url", fake.url)
    assert result.exit_code == 0
    assert result.output == (
        f"{quotas}: brokers.default.{RATE}\n"
        '  was  "20MB/s"\n'
        '  now  "40MiB/s"\n'
        "every broker: leader 19.07 MiB/s (20000000 B/s) -> 40.00 MiB/s (41943040 B/s)\n"
        f"undo: throttle-sidecar set --config {config} --url={fake.url} --broker default {RATE} 20MB/s\n"
        f"broker 101 ({fake.url}): in force: leader 40.00 MiB/s (41943040 B/s), hash {hash_of(changed.encode())}\n"
    )
    assert quotas.read_text() == changed


def test_rates_inside_the_rate_are_told_changed_and_taken_out(sidecar: Sidecar, quotas: Path) -> None:
    written = sidecar("set", RATE, "10MiB/s", "--peer", "102", "--quotas", quotas)
    assert "every broker: leader peer 102 unlimited -> 10.00 MiB/s (10485760 B/s)\n" in written.output
    quotas.write_text(quotas.read_text().replace("[peers.102]", "[peers.102]   # its disk is old"))
    changed = sidecar("set", RATE, "20MiB/s", "--peer", "102", "--quotas", quotas)
    assert "leader peer 102 10.00 MiB/s (10485760 B/s) -> 20.00 MiB/s" in changed.output
    assert f'[peers.102]   # its disk is old\n{RATE} = "20MiB/s"\n' in quotas.read_text()
    before = quotas.read_text()
    dry = sidecar("set", RATE, "--peer", "102", "--remove", "--dry-run", "--quotas", quotas)
    assert f'-{RATE} = "20MiB/s"' in dry.output
    assert quotas.read_text() == before
    removed = sidecar("set", RATE, "--peer", "102", "--remove", "--json", "--quotas", quotas)
    (effect,) = json.loads(removed.output)["brokers"]
    inside = [effect[when]["leader"]["inside"] for when in ("before", "after")]
    assert inside == [{"peer 102": 20 * MIB}, {}]
    assert "--peer" in json.loads(removed.output)["undo"][0]
    again = sidecar("set", RATE, "--peer", "102", "--remove", "--quotas", quotas)
    assert again.exit_code == 1
    assert f"peers.102.{RATE}: not there, so there is nothing to remove" in again.output


def test_a_schedules_rate_of_a_peer_goes_first_and_is_named(sidecar: Sidecar, quotas: Path) -> None:
    quotas.write_text(f'{FILE}[[schedules]]\ndays = ["mon-sun"]\n[schedules.peers.102]\n{RATE} = "1MiB/s"\n')
    result = sidecar("set", RATE, "10MiB/s", "--peer", "102", "--quotas", quotas)
    assert result.exit_code == 1
    assert "schedules[0].peers.102 goes first" in result.output
    refused = sidecar("set", RATE, "--within", "2h", "--max", "5MiB/s", "--peer", "103", "--quotas", quotas)
    assert refused.exit_code == 1
    assert "a rate that sets itself belongs to a broker" in refused.output


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
        (
            [RATE, "--finish-by", "2020-01-01T00:00:00Z", "--max", "5MB/s"],
            "--finish-by: expected a time to come, found 2020",
        ),
        (
            [RATE, "--finish-by", "2020-01-01 06:00", "--timezone", "Europe/Berlin", "--max", "5MB/s"],
            "--finish-by: expected a time to come, found 2020-01-01 06:00 (it is 2",
        ),
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
        (
            f"{quotas}: brokers.default.{RATE}: says so already, and it holds: nothing is changed\n"
            "not asked whether it is in force: give the sidecar's --url, or --config instead of --quotas\n"
        ),
    )


PLANNED = FILE + f"[brokers.101]\n{RATE} = 5\n"
"""As `plan --write` leaves it: brokers with a rate of their own."""


def nightly(section: str, value: str) -> str:
    """A schedule by the clock; the test says when it begins and ends, since processes that share the tests out have to
    find the same parameters."""
    return f'[[schedules]]\nfrom = BEGINS\nto = ENDS\n[schedules.{section}]\n{RATE} = "{value}"\n'


def holding_now(text: str) -> str:
    """All day long but for one second, which is half a day away."""
    ends = datetime.now(UTC) + timedelta(hours=12)
    begins = ends + timedelta(seconds=1)
    return text.replace("BEGINS", f"{begins:%H:%M:%S}").replace("ENDS", f"{ends:%H:%M:%S}")


@pytest.mark.parametrize(
    ("before", "arguments", "first", "rate"),
    [
        (PLANNED, [RATE, "1MiB/s"], "brokers.101 goes first on broker 101, and says 5 B/s", MIB),
        (PLANNED, [RATE, "1MiB/s", "--for", "1h"], "brokers.101 goes first on broker 101", MIB),
        (PLANNED, [RATE, "--remove"], "brokers.101 goes first on broker 101", math.inf),
        (PLANNED + nightly("brokers.101", "9MiB/s"), [RATE, "1MiB/s", "--broker", "101"],
         "schedules[0].brokers.101 goes first on broker 101 until", MIB),
        (FILE + nightly("brokers.default", "9MiB/s"), [f"{RATE}=1MiB/s"],
         "schedules[0].brokers.default goes first on every other broker until", MIB),
    ],
)  # fmt: skip
def test_what_would_not_hold_is_refused_with_the_command_that_does_it(
    sidecar: Sidecar, config: Path, quotas: Path, before: str, arguments: list[str], first: str, rate: float
) -> None:
    before = holding_now(before)
    quotas.write_text(before)
    result = sidecar("set", *arguments, "--quotas", quotas)
    assert (result.exit_code, quotas.read_text()) == (1, before), result.output
    assert first in result.stderr
    (line,) = (line for line in result.stderr.splitlines() if line.startswith("this does it: "))
    assert typed(sidecar, line.removeprefix("this does it: ")).exit_code == 0
    now = datetime.now(UTC)
    assert effective(parse_quotas(quotas.read_bytes()), 101, now).leader.bytes_per_second == rate


def test_in_an_incident_the_newest_word_wins(sidecar: Sidecar, quotas: Path) -> None:
    """A rate for an hour, then another at once, then both taken back, each by what was printed."""
    told = [
        sidecar("set", RATE, "12MiB/s", "--broker", "101", "--for", "1h", "--quotas", quotas),
        sidecar("set", RATE, "9MiB/s", "--broker", "101", "--quotas", quotas),
    ]
    assert [result.exit_code for result in told] == [0, 0]
    assert "broker 101: leader 12.00 MiB/s (12582912 B/s) -> 9.00 MiB/s (9437184 B/s)\n" in told[1].output

    def rates() -> list[float]:
        quota_file, now = parse_quotas(quotas.read_bytes()), datetime.now(UTC)
        return [effective(quota_file, 101, now + timedelta(hours=h)).leader.bytes_per_second for h in (0, 2)]

    assert rates() == [9 * MIB, 9 * MIB]
    assert undone(sidecar, told[1].output).exit_code == 0
    assert rates() == [12 * MIB, 20e6]
    assert undone(sidecar, told[0].output).exit_code == 0
    assert rates() == [20e6, 20e6]
    assert quotas.read_text() == FILE


def test_the_schedules_entry_that_is_changed_too_is_said(sidecar: Sidecar, quotas: Path) -> None:
    assert sidecar("set", RATE, "12MiB/s", "--for", "1h", "--quotas", quotas).exit_code == 0
    result = sidecar("set", RATE, "1MiB/s", "--quotas", quotas)
    assert result.exit_code == 0
    assert "  also schedules[0].brokers.default, which went first\n" in result.output
    assert "every broker: leader 12.00 MiB/s (12582912 B/s) -> 1.00 MiB/s (1048576 B/s)\n" in result.output


def test_what_will_hold_later_is_written_if_that_is_said(sidecar: Sidecar, quotas: Path) -> None:
    before = holding_now(PLANNED + nightly("brokers.101", "9MiB/s"))
    quotas.write_text(before)
    result = sidecar("set", RATE, "1MiB/s", "--broker", "101", "--later", "--quotas", quotas)
    assert result.exit_code == 0
    assert "  note: nothing changes yet: schedules[0].brokers.101 goes first on broker 101 until" in result.output
    assert "broker 101: nothing changes now\n  then " in result.output
    assert undone(sidecar, result.output).exit_code == 0
    assert quotas.read_text() == before


def test_several_brokers_and_keys_at_once(sidecar: Sidecar, quotas: Path) -> None:
    pairs = f"{RATE}=1MiB/s,follower.replication.throttled.rate=2097152"
    result = sidecar("set", pairs, "--broker", "101", "--broker", "102", "--quotas", quotas)
    assert result.exit_code == 0, result.output
    quota_file, now = parse_quotas(quotas.read_bytes()), datetime.now(UTC)
    for broker in (101, 102):
        found = effective(quota_file, broker, now)
        assert (found.leader.bytes_per_second, found.follower.bytes_per_second) == (MIB, 2 * MIB)
    assert undone(sidecar, result.output).exit_code == 0
    assert quotas.read_text() == FILE


def test_a_list_as_kafka_configs_takes_it(sidecar: Sidecar, quotas: Path) -> None:
    result = sidecar("set", f"{LIST}=[0:101,1:101]", "--topic", "clicks", "--quotas", quotas)
    assert result.exit_code == 0, result.output
    assert f'[topics.clicks]\n{LIST} = "0:101,1:101"\n' in quotas.read_text()


def test_json_says_what_the_words_say(sidecar: Sidecar, config: Path, quotas: Path, fake: FakeSidecar) -> None:
    changed = FILE.replace("20MB/s", "40MiB/s")
    fake.content = in_force(changed, 40 * MIB)
    result = sidecar("set", f"{RATE}=40MiB/s", "--config", config, "--url", fake.url, "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["written"], told["hash"]) == (0, True, hash_of(changed.encode()))
    assert told["places"] == [{"place": f"brokers.default.{RATE}", "was": "20MB/s", "now": "40MiB/s"}]
    assert [(each["broker"], each["after"]["leader"]["bytes_per_second"]) for each in told["brokers"]] == [
        (101, 40 * MIB), (None, 40 * MIB)
    ]  # fmt: skip
    assert [(each["broker"], each["in_force"]) for each in told["sidecars"]] == [(101, True)]
    assert sidecar(*told["undo"][0][1:]).exit_code == 1  # the fake sidecar never has the old file
    assert quotas.read_text() == FILE


def test_json_says_what_goes_first(sidecar: Sidecar, quotas: Path) -> None:
    quotas.write_text(PLANNED)
    result = sidecar("set", RATE, "1MiB/s", "--quotas", quotas, "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["changed"]) == (1, False)
    assert told["goes_first"][0]["section"] == "brokers.101"
    assert sidecar(*told["instead"][0][1:]).exit_code == 0


def test_in_force_is_what_the_brokers_own_sidecar_says(
    sidecar: Sidecar, config: Path, quotas: Path, fake: FakeSidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the file, and not the rate; or it enforces nothing; or it is another broker's."""
    monkeypatch.setattr("operating.commands.confirming.WAIT_SECONDS", 0.0)
    changed = FILE.replace("20MB/s", "40MiB/s")
    for page, said in [
        (
            in_force(changed, 12 * MIB),
            "it has the file, and 12.00 MiB/s (12582912 B/s) as leader instead of 40.00 MiB/s",
        ),
        (in_force(changed, 40 * MIB, enforce=False), "it has the file, and does not enforce as the file says"),
    ]:
        quotas.write_text(FILE)
        fake.content = page
        result = sidecar("set", RATE, "40MiB/s", "--config", config, "--url", fake.url)
        assert (result.exit_code, quotas.read_text()) == (1, changed)
        assert said in result.stderr
    quotas.write_text(PLANNED.replace("[brokers.101]", "[brokers.102]"))
    fake.content = in_force(quotas.read_text().replace("= 5", "= 6"), 20e6)
    result = sidecar("set", RATE, "6", "--broker", "102", "--quotas", quotas, "--url", fake.url)
    assert result.exit_code == 0
    assert "not asked whether it is in force: the sidecar of broker 102: give its --url\n" in result.output


def test_a_value_in_a_section_that_ends_ends_with_it(sidecar: Sidecar, quotas: Path) -> None:
    quotas.write_text(f"[brokers.101]\n{RATE} = 5\n{LIST} = '*'\nuntil = 2100-01-01T00:00:00Z\n")
    result = sidecar("set", RATE, "6", "--broker", "101", "--quotas", quotas)
    assert "  note: the whole section ends at 2100-01-01 00:00:00 UTC (in " in result.output


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
    monkeypatch.setattr("operating.commands.confirming.WAIT_SECONDS", 0.0)
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--finish-by", "06:00", "--max", "300MiB/s"], '{finish_by = "06:00", max = "300MiB/s"}'),
        (
            ["--finish-by", "06:00", "--timezone", "Europe/Berlin", "--min", "1MiB/s", "--max", "300MiB/s"],
            '{finish_by = "06:00", timezone = "Europe/Berlin", min = "1MiB/s", max = "300MiB/s"}',
        ),
        (["--within", "2h", "--max", "300MiB/s"], '{within = "2h", max = "300MiB/s"}'),
        (['{ within = "2h", max = "300MiB/s" }'], '{within = "2h", max = "300MiB/s"}'),
        (['{within = "2h", max = 5}', "--for", "3h"], '{within = "2h", max = 5}'),
    ],
)
def test_a_rate_that_sets_itself_is_written_and_taken_back(
    sidecar: Sidecar, quotas: Path, arguments: list[str], said: str
) -> None:
    before = quotas.read_text()
    result = sidecar("set", "--quotas", quotas, RATE, *arguments)
    assert result.exit_code == 0, result.output
    assert f"{RATE} = {said}" in quotas.read_text()
    parse_quotas(quotas.read_bytes())
    assert undone(sidecar, result.output).exit_code == 0
    assert facts(quotas.read_bytes()) == facts(before.encode())


def test_a_rate_that_sets_itself_is_replaced_and_brought_back(sidecar: Sidecar, quotas: Path) -> None:
    sidecar("set", "--quotas", quotas, RATE, "--within", "2h", "--max", "300MiB/s")
    before = quotas.read_text()
    result = sidecar("set", "--quotas", quotas, RATE, "1MiB/s")
    assert result.exit_code == 0, result.output
    assert "what is needed to end within 2h, from 64.00 KiB/s" in result.output
    assert undone(sidecar, result.output).exit_code == 0
    assert facts(quotas.read_bytes()) == facts(before.encode())


@pytest.mark.parametrize(
    ("arguments", "status", "problem"),
    [
        ([RATE, "--within", "2h"], 1, f"brokers.default.{RATE}: max: missing"),
        ([RATE, "--within", "soon", "--max", "1MiB/s"], 1, "within: expected a time like 2h"),
        ([RATE, "{ within = 2h }"], 1, "expected a table like { finish_by = "),
        ([RATE, "5MB/s", "--max", "1MiB/s"], 2, "are in place of the VALUE of a rate"),
        ([LIST, "--max", "1MiB/s"], 2, "are in place of the VALUE of a rate"),
        ([RATE, "--remove", "--within", "2h"], 2, "--remove and --end stand alone"),
    ],
)
def test_a_rate_that_cannot_set_itself_is_not_written(
    sidecar: Sidecar, quotas: Path, arguments: list[str], status: int, problem: str
) -> None:
    result = sidecar("set", "--quotas", quotas, *arguments)
    assert result.exit_code == status
    assert problem in result.output
    assert quotas.read_text() == FILE


def test_it_is_in_force_when_the_sidecar_has_its_source(sidecar: Sidecar, quotas: Path, fake: FakeSidecar) -> None:
    """What was chosen is another rate every second."""
    sidecar("set", "--quotas", quotas, RATE, "--within", "2h", "--max", "300MiB/s")
    content = quotas.read_text()
    source = str(effective(parse_quotas(content.encode()), 101, datetime.now(UTC)).leader.source)
    rate = {"source": source, "least_bytes_per_second": 65536, "most_bytes_per_second": 300 * MIB}
    role = {**ROLE, "quota_bytes_per_second": 5 * MIB, "rate": rate}
    page = {**PAGE, "quotas": {"hash": hash_of(content.encode())}, "roles": {"leader": role}}
    fake.content = json.dumps(page).encode()
    result = sidecar("set", "--quotas", quotas, "--url", fake.url, RATE, "--within", "2h", "--max", "300MiB/s")
    assert result.exit_code == 0, result.output
    assert "in force: leader 5.00 MiB/s" in result.output

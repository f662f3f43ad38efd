from __future__ import annotations

import json
import resource
import tomllib
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from operating.commands import plan as plan_command
from operating.moves.cluster import Cluster
from tests.operating.moves.fake_client import FakeClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    from tests.proxy.fake_sidecar import FakeSidecar

    Sidecar = Callable[..., Result]

MB = 1_000_000
ROW = '{{"topic":"orders","partition":{},"replicas":{},"log_dirs":["any","any"]}}'
CURRENT = f'{{"version":1,"partitions":[{ROW.format(0, [101, 102])},{ROW.format(1, [101, 102])}]}}'
PROPOSED = f'{{"version":1,"partitions":[{ROW.format(0, [101, 104])},{ROW.format(1, [102, 101])}]}}'
GENERATED = (
    f"Current partition replica assignment\n{CURRENT}\n\nProposed partition reassignment configuration\n{PROPOSED}\n"
)
QUOTAS = {
    "brokers": {
        "101": {"leader.replication.throttled.rate": "5MB/s"},
        "102": {"leader.replication.throttled.rate": "5MB/s"},
        "104": {"follower.replication.throttled.rate": "5MB/s"},
    },
    "topics": {
        "orders": {
            "leader.replication.throttled.replicas": "0:101,0:102",
            "follower.replication.throttled.replicas": "0:104",
        }
    },
}


@pytest.fixture
def generated(tmp_path: Path) -> Path:
    path = tmp_path / "generated.txt"
    path.write_text(GENERATED)
    return path


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    """Where `--bootstrap` leads to."""
    fake = FakeClient(
        {("orders", 0): (101, [101, 102], [101, 102]), ("orders", 1): (102, [101, 102], [101, 102])},
        sizes={(101, "orders", 0): 50 * MB, (102, "orders", 1): 70 * MB},
    )

    @contextmanager
    def connected(*_: object) -> Iterator[Cluster]:
        yield Cluster(fake)

    monkeypatch.setattr(plan_command, "connected", connected)
    return fake


def asked(sidecar: Sidecar, *arguments: object) -> Any:
    result = sidecar("plan", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_output_of_generate_is_all_it_takes(generated: Path, sidecar: Sidecar) -> None:
    """orders-1 only changes its leader: nothing of it is listed."""
    report = asked(sidecar, generated, "--rate", "5MB/s", "--bytes", "50MB")
    assert report["quotas"] == QUOTAS
    assert (report["move_bytes"], report["seconds"]) == (50 * MB, 10)
    assert report["moves"] == [
        {"topic": "orders", "partition": 0, "leader": 101, "sources": [101, 102], "destinations": [104],
         "bytes": 50 * MB}
    ]  # fmt: skip


def test_current_and_proposed_may_be_files_of_their_own(tmp_path: Path, sidecar: Sidecar) -> None:
    (tmp_path / "new.json").write_text(PROPOSED)
    (tmp_path / "old.json").write_text(CURRENT)
    report = asked(sidecar, tmp_path / "new.json", "--current", tmp_path / "old.json", "--rate", "5MB/s")
    assert report["quotas"] == QUOTAS
    assert (report["move_bytes"], report["seconds"], report["brokers"][0]["move_bytes"]) == (None, None, None)


def test_a_cluster_knows_sizes_and_leaders(generated: Path, sidecar: Sidecar, client: FakeClient) -> None:
    client.partitions["orders", 0] = (102, [101, 102], [101, 102])
    client.sizes[102, "orders", 0] = 60 * MB
    report = asked(sidecar, generated, "--bootstrap", "kafka-101:9092", "--within", "63s")
    assert [(load["broker"], load["role"], load["move_bytes"]) for load in report["brokers"]] == [
        (102, "leader", 60 * MB), (104, "follower", 60 * MB),
    ]  # fmt: skip
    assert report["seconds"] == pytest.approx(60, rel=0.01)
    assert report["warnings"] == [
        "IN is not known: what is written meanwhile has to be moved as well (--measure 30s tells)"
    ]


def test_in_is_measured_by_looking_twice(
    generated: Path, sidecar: Sidecar, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two seconds, in which 4 MB are written to orders-0, and retention takes 30 MB of orders-1."""
    clock = [100.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        client.sizes[101, "orders", 0] += 4 * MB
        client.sizes[102, "orders", 1] -= 30 * MB

    monkeypatch.setattr(plan_command, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: clock[0]))
    report = asked(sidecar, generated, "--bootstrap", "a:9092", "--measure", "2s", "--rate", "7MB/s")
    follower = report["brokers"][1]
    assert (follower["broker"], follower["written_bytes_per_second"]) == (104, 2 * MB)
    assert follower["seconds"] == 10  # 50 MB at 7 - 2 MB/s
    assert report["warnings"] == []


def test_people_see_a_table_and_what_comes_next(generated: Path, sidecar: Sidecar, tmp_path: Path) -> None:
    result = sidecar("plan", generated, "--rate", "5MB/s", "--bytes", "50MB", "--write", tmp_path / "quotas.toml")
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0] == "1 partition to move, 47.68 MiB over the network, in about 10s"
    assert "101 leader 47.68 MiB 4.77 MiB/s 10s - -" in lines
    assert "102 leader if it leads 4.77 MiB/s - - -" in lines
    assert "orders follower 0:104" in lines
    assert f"{tmp_path / 'quotas.toml'}: written" in lines
    assert f"throttle-sidecar verify {generated} --bootstrap HOST:PORT --quotas " in lines[-1]


def test_what_is_written_is_what_check_accepts(generated: Path, sidecar: Sidecar, config: Path) -> None:
    """`config` is broker 101's, which is the leader."""
    quotas = config.parent / "move.toml"
    asked(sidecar, generated, "--rate", "5MB/s", "--write", quotas, "--for", "2h")
    report = json.loads(sidecar("check", "--config", config, "--quotas", quotas, "--json").stdout)
    assert report["roles"]["leader"]["quota_bytes_per_second"] == 5 * MB
    assert report["roles"]["leader"]["replicas"] == {"orders": "0"}
    assert len(report["changes"]) == 1  # in two hours it is over


def test_a_file_that_exists_keeps_its_rest(generated: Path, sidecar: Sidecar, tmp_path: Path) -> None:
    quotas = tmp_path / "quotas.toml"
    quotas.write_text(
        "# ours\n[brokers.101]\nleader.replication.throttled.rate = 1\nuntil = 2026-01-01T00:00:00Z # of last year\n"
        '[topics.clicks]\nleader.replication.throttled.replicas = "*" # always\n'
    )
    result = sidecar("plan", generated, "--rate", "5MB/s", "--write", quotas)
    assert f'{quotas}: brokers.101.leader.replication.throttled.rate: "5MB/s" (was 1)' in result.stdout
    assert f"{quotas}: brokers.101.until: removed (was 2026-01-01T00:00:00+00:00)" in result.stdout
    text = quotas.read_text()
    assert text.startswith('# ours\n[brokers.101]\nleader.replication.throttled.rate = "5MB/s"\n')
    assert "# always" in text
    assert tomllib.loads(text)["topics"].keys() == {"orders", "clicks"}
    assert f"{quotas}: says so already" in sidecar("plan", generated, "--rate", "5MB/s", "--write", quotas).stdout


LEADER_RATE = "leader.replication.throttled.rate"


def schedule(section: str, key: str, value: str, when: str) -> str:
    return f"[[schedules]]\n{when}\n[schedules.{section}]\n{key} = {value}\n"


ALWAYS = 'days = ["mon-sun"]'
SET_FOR_A_TIME = "until = 2099-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("before", "seconds", "holds", "warning"),
    [
        ("# ours\n", 10, 5 * MB, None),
        # What somebody set for a time, in the move before.
        (schedule("brokers.101", LEADER_RATE, '"2MB/s"', SET_FOR_A_TIME), 25, 2 * MB,
         ("broker 101 as leader: 1.91 MiB/s (2000000 B/s) holds, not 4.77 MiB/s (5000000 B/s): schedules[0].brokers.101"
         " goes first; throttle-sidecar set leader.replication.throttled.rate --broker 101 --end --quotas")),
        (schedule("brokers.101", LEADER_RATE, '"2MB/s"', ALWAYS), 25, 2 * MB, "schedules[0].brokers.101 goes first"),
        (schedule("topics.orders", LEADER_RATE.replace("rate", "replicas"), '""', ALWAYS), None, 5 * MB,
         "broker 101 as leader: orders-0 is not throttled: another list of that topic goes first"),
        ("[mode]\nenforce = false\n", None, 5 * MB,
         "mode.enforce is false: nothing is throttled, only observed: throttle-sidecar set mode.enforce true"),
        (schedule("mode", "enforce", "false", SET_FOR_A_TIME), None, 5 * MB,
         "schedules[0].mode.enforce is false until"),
        # What is over counts nothing, and goes.
        (schedule("brokers.101", LEADER_RATE, '"2MB/s"', "until = 2020-01-01T00:00:00Z"), 10, 5 * MB, None),
    ],
)  # fmt: skip
def test_what_is_promised_is_what_the_written_file_means(
    generated: Path,
    sidecar: Sidecar,
    tmp_path: Path,
    before: str,
    seconds: float | None,
    holds: float,
    warning: str | None,
) -> None:
    quotas = tmp_path / "quotas.toml"
    quotas.write_text(before)
    asking = [generated, "--rate", "5MB/s", "--bytes", "50MB", "--write", quotas]
    report = asked(sidecar, *asking)
    assert report["seconds"] == seconds
    (leader,) = [load for load in report["brokers"] if load["role"] == "leader"]
    assert (leader["rate_bytes_per_second"], leader["seconds"]) == (5 * MB, seconds)
    found = [each for each in report["warnings"] if str(quotas) in each]
    assert all(each.startswith(f"{quotas}: ") for each in found)
    assert (warning is None and not found) or any(warning is not None and warning in each for each in found)
    shown = sidecar("plan", *asking)
    assert ("holds now" in shown.stdout) is (holds != 5 * MB or seconds is None)
    assert "2020" not in quotas.read_text()


def test_quotas_that_end_before_the_move_does_promise_no_time(
    generated: Path, sidecar: Sidecar, tmp_path: Path
) -> None:
    report = asked(
        sidecar, generated, "--rate", "5MB/s", "--bytes", "50GB", "--for", "1h", "--write", tmp_path / "q.toml"
    )
    assert report["seconds"] is None
    assert sum("nothing is throttled any more, and the move is not done by then" in w for w in report["warnings"]) == 3


def test_what_is_over_does_not_come_to_life_again(generated: Path, sidecar: Sidecar, tmp_path: Path) -> None:
    quotas = tmp_path / "quotas.toml"
    quotas.write_text(f"[brokers.101]\n{LEADER_RATE} = 1\nfollower.replication.throttled.rate = 7\n"
                      "until = 2020-01-01T00:00:00Z\n")  # fmt: skip
    asked(sidecar, generated, "--rate", "5MB/s", "--write", quotas)
    assert tomllib.loads(quotas.read_text())["brokers"]["101"].keys() == {"leader"}


def test_every_broker_may_have_a_file_of_its_own(generated: Path, sidecar: Sidecar, tmp_path: Path) -> None:
    asked(sidecar, generated, "--rate", "5MB/s", "--per-broker", tmp_path / "quotas")
    found = sorted(path.name for path in (tmp_path / "quotas").iterdir())
    assert found == ["quotas-101.toml", "quotas-102.toml", "quotas-104.toml"]
    follower = tomllib.loads((tmp_path / "quotas" / "quotas-104.toml").read_text())
    assert (follower["brokers"].keys(), follower["topics"]["orders"].keys()) == ({"104"}, {"follower"})


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Brokers 101 and 102 share a file, 104 has its own; nobody answers."""
    lines = []
    for port, (broker, name) in enumerate(((101, "a"), (102, "a"), (104, "b")), 1):
        (tmp_path / f"{name}.toml").write_text("# ours\n")
        lines.append(f'[[sidecars]]\nbroker = {broker}\nurl = "http://127.0.0.1:{port}"\nquotas = "{name}.toml"\n')
    (tmp_path / "fleet.toml").write_text("".join(lines))
    return tmp_path / "fleet.toml"


def test_a_fleet_has_each_part_where_its_brokers_read(generated: Path, sidecar: Sidecar, fleet: Path) -> None:
    result = sidecar("plan", generated, "--bytes", "120MB", "--rate", "5MB/s", "--fleet", fleet)
    assert result.exit_code == 0, result.output
    shared, own = (tomllib.loads((fleet.parent / f"{name}.toml").read_text()) for name in "ab")
    assert {"101", "102"} <= shared["brokers"].keys()
    assert (own["brokers"].keys(), own["topics"]["orders"].keys()) == ({"104"}, {"follower"})
    assert (fleet.parent / "b.toml").read_text().startswith("# ours\n")
    assert result.output.count("could not ask: http://127.0.0.1:") == 3


def test_a_sidecar_that_has_not_in_force_what_was_written_is_status_1(
    generated: Path, sidecar: Sidecar, fleet: Path, fake: FakeSidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of `set`. A script would go on and execute the reassignment, unthrottled on that broker."""
    monkeypatch.setattr("operating.commands.confirming.WAIT_SECONDS", 0.0)
    fleet.write_text(fleet.read_text().replace("http://127.0.0.1:1", fake.url))
    result = sidecar("plan", generated, "--bytes", "120MB", "--rate", "5MB/s", "--fleet", fleet)
    assert f"broker 101 ({fake.url}): not in force after 0 s: it has hash abc" in result.output
    assert result.exit_code == 1
    assert "101" in tomllib.loads((fleet.parent / "a.toml").read_text())["brokers"]


def test_a_fleet_is_written_everywhere_or_nowhere(generated: Path, sidecar: Sidecar, fleet: Path) -> None:
    (fleet.parent / "b.toml").write_text("[nonsense]\n")
    result = sidecar("plan", generated, "--bytes", "120MB", "--rate", "5MB/s", "--fleet", fleet, "--json")
    assert (result.exit_code, "moves" in json.loads(result.stdout)) == (1, True)
    assert "b.toml: nonsense: unknown" in result.output
    assert (fleet.parent / "a.toml").read_text() == "# ours\n"


def test_a_broker_of_the_move_that_the_fleet_has_not_is_an_error(
    generated: Path, sidecar: Sidecar, fleet: Path
) -> None:
    fleet.write_text(fleet.read_text().replace("broker = 104", "broker = 105"))
    result = sidecar("plan", generated, "--bytes", "120MB", "--rate", "5MB/s", "--fleet", fleet)
    assert result.exit_code == 1
    assert "has no broker 104" in result.output
    assert (fleet.parent / "a.toml").read_text() == "# ours\n"


def test_nothing_to_move_writes_nothing(tmp_path: Path, sidecar: Sidecar) -> None:
    (tmp_path / "same.json").write_text(CURRENT)
    result = sidecar("plan", tmp_path / "same.json", "--current", tmp_path / "same.json", "--rate", "5MB/s",
                     "--write", tmp_path / "quotas.toml")  # fmt: skip
    assert (result.exit_code, result.stdout) == (
        0, "Nothing moves between brokers: every replica that is wanted is there already.\n"
    )  # fmt: skip
    assert not (tmp_path / "quotas.toml").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--rate", "5MB/s", "--within", "2h"], "expected --rate or --within, not both"),
        (["--write", "q.toml"], "--write, --per-broker and --fleet need --rate or --within"),
        (["--rate", "1", "--write", "q", "--per-broker", "d"], "expected one of --write, --per-broker and --fleet"),
        (["--rate", "unlimited"], "--rate: expected a limit"),
        (["--rate", "20mb"], "write MB; MB is 10^6 bytes, MiB is 2^20"),
        (["--within", "2"], 'expected a duration like "250ms" or "10s", found "2"'),
        (["--within", "0s", "--bytes", "5"], 'expected more than nothing, found "0s"'),
        (["--capacity", "0"], "expected what a network carries, such as 1.25GB/s, found"),
        (["--capacity", "unlimited"], "expected what a network carries, such as 1.25GB/s, found"),
        (["--measure", "0s"], 'expected more than nothing, found "0s"'),
        (["--measure", "2s"], "--measure needs a cluster: --bootstrap"),
        (["--bootstrap", "a:9092", "--bytes", "5"], "leave out --current and --bytes"),
    ],
)
def test_what_does_not_go_together_is_a_usage_error(
    generated: Path, sidecar: Sidecar, arguments: list[str], problem: str
) -> None:
    result = sidecar("plan", generated, *arguments)
    assert result.exit_code == 2
    assert problem in " ".join(result.stderr.replace("│", " ").split())


def test_what_is_there_now_has_to_come_from_somewhere(tmp_path: Path, sidecar: Sidecar) -> None:
    (tmp_path / "new.json").write_text(PROPOSED)
    result = sidecar("plan", tmp_path / "new.json")
    assert (result.exit_code, "expected --bootstrap or --current" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "new.json: line 1: not JSON"),
        (PROPOSED.replace('partition":0', 'partition":7'), "orders-7: not in the cu"),
    ],
)
def test_a_wrong_file_is_an_error_without_a_traceback(
    tmp_path: Path, sidecar: Sidecar, text: str, problem: str
) -> None:
    (tmp_path / "new.json").write_text(text)
    (tmp_path / "old.json").write_text(CURRENT)
    result = sidecar("plan", tmp_path / "new.json", "--current", tmp_path / "old.json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert problem in result.stderr
    as_json = sidecar("plan", tmp_path / "new.json", "--current", tmp_path / "old.json", "--json")
    assert (as_json.exit_code, as_json.stderr) == (1, result.stderr)
    assert problem in json.loads(as_json.stdout)["problems"][0]
    past = sidecar("plan", tmp_path / "new.json", "--rate", "1", "--finish-by", "2020-01-01T00:00:00Z", "--json")
    assert "expected a time to come" in json.loads(past.stdout)["problems"][0]
    assert sidecar("plan", tmp_path / "gone.json").stderr.endswith(
        "gone.json: cannot be read: No such file or directory\n"
    )


def test_a_deadline_is_written_for_every_broker_and_told(sidecar: Sidecar, generated: Path, tmp_path: Path) -> None:
    """120 MB at 5 MB/s take 24 s."""
    path = tmp_path / "q.toml"
    options = ("--bytes", "120MB", "--rate", "5MB/s", "--finish-by", "2100-01-01T06:00:00Z")
    result = sidecar("plan", generated, *options, "--write", path)
    assert result.exit_code == 0, result.output
    rate = {"finish_by": "2100-01-01T06:00:00Z", "max": "5MB/s"}
    assert tomllib.loads(path.read_text())["brokers"] == {
        broker: {role: {"replication": {"throttled": {"rate": rate}}}}
        for broker, role in (("101", "leader"), ("102", "leader"), ("104", "follower"))
    }
    assert "to be over by 2100-01-01 06:00:00 UTC" in result.output
    assert "the sidecars find the least that will do" in result.output
    assert "it will be late" not in result.output
    again = sidecar("plan", generated, *options[:-1], "2100-01-02T06:00:00Z", "--write", path)
    assert again.exit_code == 0, again.output
    assert '(was {finish_by = "2100-01-01T06:00:00Z", max = "5MB/s"})' in again.output.replace("\n", "")
    assert "2100-01-02T06:00:00Z" in path.read_text()


def test_a_deadline_that_cannot_be_kept_is_a_warning(sidecar: Sidecar, generated: Path) -> None:
    soon = f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    result = sidecar("plan", generated, "--bytes", "120GB", "--rate", "5MB/s", "--finish-by", soon)
    assert result.exit_code == 0, result.output
    assert f"warning: to be over by {soon[:10]} {soon[11:19]} UTC" in result.output
    assert "it will be late" in result.output


@pytest.mark.parametrize("typed", ["2026-01-01T00:00:00Z", "2026-01-01 00:00"])
@pytest.mark.parametrize("option", ["--write", "--per-broker", "--fleet"])
def test_a_deadline_that_has_passed_is_refused_before_anything_is_asked_or_written(
    sidecar: Sidecar, generated: Path, tmp_path: Path, typed: str, option: str
) -> None:
    """A warning said that it will be late, and what is behind would have gone at the most there is."""
    place = tmp_path / "there"
    options = ("--bytes", "120MB", "--rate", "5MB/s", "--finish-by", typed, option, place)
    result = sidecar("plan", generated, *options)
    assert result.exit_code == 1
    assert f"Error: --finish-by: expected a time to come, found {typed} (it is 2" in result.stderr
    assert result.stdout == ""
    assert not place.exists()


@pytest.mark.parametrize(
    ("options", "status", "problem"),
    [
        (["--finish-by", "06:00"], 2, "--finish-by needs --rate"),
        (["--finish-by", "tomorrow", "--rate", "5MB/s"], 1, "--finish-by: finish_by: expected a time of day"),
    ],
)
def test_a_deadline_that_is_none(
    sidecar: Sidecar, generated: Path, options: list[str], status: int, problem: str
) -> None:
    result = sidecar("plan", generated, "--bytes", "120MB", *options)
    assert result.exit_code == status
    assert problem in result.output


@pytest.mark.parametrize("lasting", ["9000h", "400d", "100ms", "0s", "99999999h", "999999999999h"])
def test_a_time_that_set_would_refuse_is_refused(
    generated: Path, sidecar: Sidecar, tmp_path: Path, lasting: str
) -> None:
    result = sidecar("plan", generated, "--rate", "5MB/s", "--write", tmp_path / "quotas.toml", "--for", lasting)
    told = " ".join(result.stderr.replace("│", " ").split())
    assert f'expected a time like 2h, 90m or 1d12h, of at most 366d, found "{lasting}"' in told
    assert (result.exit_code, (tmp_path / "quotas.toml").exists()) == (2, False)


def test_a_file_in_the_place_of_the_directory_is_said(generated: Path, sidecar: Sidecar, tmp_path: Path) -> None:
    (tmp_path / "quotas").write_text("")
    result = sidecar("plan", generated, "--rate", "5MB/s", "--per-broker", tmp_path / "quotas")
    assert result.exit_code == 1
    assert f"Error: {tmp_path / 'quotas'}: expected a directory: File exists" in result.stderr


def test_a_disk_that_fills_leaves_no_half_of_a_new_file(generated: Path, sidecar: Sidecar, tmp_path: Path) -> None:
    """A sidecar would have what its first lines say in force, and the next plan would find no TOML."""
    written = tmp_path / "quotas.toml"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        result = sidecar("plan", generated, "--rate", "5MB/s", "--write", written)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (result.exit_code, list(tmp_path.iterdir())) == (1, [generated])
    assert f"Error: {written}: cannot be written: File too large" in result.stderr
    assert sidecar("plan", generated, "--rate", "5MB/s", "--write", written).exit_code == 0
    assert 'follower.replication.throttled.replicas = "0:104"' in written.read_text()


def test_a_new_file_is_what_a_file_is_by_default(generated: Path, sidecar: Sidecar, tmp_path: Path) -> None:
    """Readable for the sidecar's user; where a link leads to nothing yet, it is made there."""
    beside, link, folder = tmp_path / "beside", tmp_path / "quotas.toml", tmp_path / "elsewhere"
    beside.touch()
    folder.mkdir()
    link.symlink_to("elsewhere/quotas.toml")
    assert sidecar("plan", generated, "--rate", "5MB/s", "--write", link).exit_code == 0
    assert link.is_symlink()
    assert [each.name for each in folder.iterdir()] == ["quotas.toml"]
    assert link.stat().st_mode == beside.stat().st_mode


@pytest.mark.parametrize("wrong", [b"[[[", b"# \xe9"])
def test_where_one_brokers_file_is_wrong_none_is_written(
    generated: Path, sidecar: Sidecar, tmp_path: Path, wrong: bytes
) -> None:
    (tmp_path / "quotas-102.toml").write_bytes(wrong)
    result = sidecar("plan", generated, "--rate", "5MB/s", "--per-broker", tmp_path)
    assert result.exit_code == 1
    assert f"Error: {tmp_path / 'quotas-102.toml'}: not TOML: " in result.stderr
    assert not (tmp_path / "quotas-101.toml").exists()


def test_a_name_that_no_file_can_have_is_an_error(generated: Path, sidecar: Sidecar, tmp_path: Path) -> None:
    path = tmp_path / ("q" * 300)
    result = sidecar("plan", generated, "--rate", "5MB/s", "--write", path)
    assert (result.exit_code, result.stderr) == (1, f"Error: {path}: cannot be read: File name too long\n")
    assert "partition to move" in result.stdout


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--within", "1h"), "how much moves is not known: ask a cluster (--bootstrap) or say --bytes"),
        (("--within", "1s", "--bytes", "1GB", "--capacity", "10MB/s"), "broker 101 as leader: needs "),
    ],
)
def test_a_time_that_cannot_be_kept_is_told_in_json_as_well(
    generated: Path, sidecar: Sidecar, options: tuple[str, ...], problem: str
) -> None:
    result = sidecar("plan", generated, "--json", *options)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["problems"][0].startswith(problem)
    assert result.stderr == sidecar("plan", generated, *options).stderr

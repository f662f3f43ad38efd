from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import trio

from operating.commands import plan as plan_command
from operating.moves import inspection
from operating.moves.cluster import Cluster
from proxy.quotas import effective, parse_quotas
from proxy.quotas.override import layer_of
from tests.operating.fleet.sidecars import fleet_file, running
from tests.operating.moves.fake_client import FakeClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    from proxy.quotas import Quotas
    from proxy.quotas.override import Override
    from tests.operating.fleet.sidecars import OneSidecar

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

    monkeypatch.setattr(inspection, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: clock[0]))
    report = asked(sidecar, generated, "--bootstrap", "a:9092", "--measure", "2s", "--rate", "7MB/s")
    follower = report["brokers"][1]
    assert (follower["broker"], follower["written_bytes_per_second"]) == (104, 2 * MB)
    assert follower["seconds"] == 10  # 50 MB at 7 - 2 MB/s
    assert report["warnings"] == []


def test_times_count_from_the_end_of_a_measurement(
    generated: Path, sidecar: Sidecar, client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [datetime(2026, 12, 1, tzinfo=UTC)]

    def sleep(seconds: float) -> None:
        clock[0] += timedelta(seconds=seconds)

    monkeypatch.setattr(inspection, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: clock[0].timestamp()))
    monkeypatch.setattr(plan_command, "datetime", SimpleNamespace(now=lambda _: clock[0]))
    options = ("--bootstrap", "a:9092", "--rate", "7MB/s", "--finish-by", "2026-12-01T00:40:00Z", "--measure", "30m")
    assert "(in 10m00s)" in sidecar("plan", generated, *options).stdout
    assert (
        "until = 2026-12-01T02:00:00+00:00"
        in sidecar("plan", generated, *options[:4], *options[6:], "--print", "--for", "1h").stdout
    )


def test_people_see_a_table(generated: Path, sidecar: Sidecar) -> None:
    result = sidecar("plan", generated, "--rate", "5MB/s", "--bytes", "50MB")
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0] == "1 partition to move, 47.68 MiB over the network, in about 10s"
    assert "101 leader 47.68 MiB 4.77 MiB/s 10s - -" in lines
    assert "102 leader if it leads 4.77 MiB/s - - -" in lines
    assert "orders follower 0:104" in lines


def test_what_is_printed_is_a_quotas_file(generated: Path, sidecar: Sidecar) -> None:
    result = sidecar("plan", generated, "--rate", "5MB/s", "--bytes", "50MB", "--print", "--for", "2h")
    assert result.exit_code == 0, result.output
    quotas = effective(parse_quotas(result.stdout.encode()), 104, datetime.now(UTC))
    assert (quotas.follower.bytes_per_second, quotas.follower.selects("orders", 0)) == (5 * MB, True)
    later = effective(parse_quotas(result.stdout.encode()), 104, datetime.now(UTC) + timedelta(hours=3))
    assert later.follower.selects_nothing


def test_nothing_to_move_changes_nothing(tmp_path: Path, sidecar: Sidecar, applying: Applying) -> None:
    (tmp_path / "same.json").write_text(CURRENT)
    result = sidecar("plan", tmp_path / "same.json", "--current", tmp_path / "same.json", "--rate", "5MB/s",
                     "--apply", "--fleet", applying.fleet)  # fmt: skip
    assert (result.exit_code, result.stdout) == (
        0, "Nothing moves between brokers: every replica that is wanted is there already.\n"
    )  # fmt: skip
    assert applying.overrides == {}


class Applying:
    """Three sidecars of the move's brokers."""

    def __init__(self, folder: Path, sidecars: dict[int, OneSidecar]) -> None:
        self.sidecars = sidecars
        self.fleet = fleet_file(folder, {broker: each.url for broker, each in sidecars.items()})

    @property
    def overrides(self) -> dict[int, list[Override]]:
        found = {broker: list(each.keeper.current) for broker, each in self.sidecars.items()}
        return {broker: overrides for broker, overrides in found.items() if overrides}

    def quotas(self, broker: int) -> Quotas:
        return self.sidecars[broker].watch.current


@pytest.fixture
def applying(tmp_path: Path) -> Iterator[Applying]:
    with running(tmp_path, [101, 102, 104]) as sidecars:
        for each in sidecars.values():
            each.quotas.write_text("# nothing\n")
        trio.run(_reload, sidecars)
        yield Applying(tmp_path, sidecars)


async def _reload(sidecars: dict[int, OneSidecar]) -> None:
    for each in sidecars.values():
        each.watch._reading, each.watch._applying = trio.Lock(), trio.Lock()
        await each.watch.reload("test")


def applied(sidecar: Sidecar, generated: Path, applying: Applying, *more: object) -> Result:
    options = ("--rate", "5MB/s", "--bytes", "50MB", "--apply", "--fleet", applying.fleet)
    result = sidecar("plan", generated, *options, *more)
    assert result.exit_code == 0, result.output
    return result


def test_each_broker_is_told_its_part_under_one_label(generated: Path, sidecar: Sidecar, applying: Applying) -> None:
    result = applied(sidecar, generated, applying)
    assert {broker: len(found) for broker, found in applying.overrides.items()} == {101: 1, 102: 1, 104: 1}
    (made,) = {(each.id, each.label) for found in applying.overrides.values() for each in found}
    for broker, role in ((101, "leader"), (102, "leader"), (104, "follower")):
        quota = getattr(applying.quotas(broker), role)
        assert (quota.bytes_per_second, quota.selects("orders", 0), quota.selects("orders", 1)) == (5 * MB, True, False)
    assert f"undo: throttle-sidecar undo {made[0]} --fleet {applying.fleet}" in result.stdout
    assert f"--fleet {applying.fleet} --label {made[1]} --wait 2h --remove" in result.stdout.splitlines()[-1]
    (until,) = {each.until for found in applying.overrides.values() for each in found}
    assert until is not None
    assert timedelta(hours=1) <= until - datetime.now(UTC) + timedelta(seconds=5) <= timedelta(hours=1, minutes=1)


def test_the_label_does_not_depend_on_how_the_file_is_formatted(
    generated: Path, sidecar: Sidecar, applying: Applying, tmp_path: Path
) -> None:
    applied(sidecar, generated, applying)
    again = tmp_path / "other" / generated.name
    again.parent.mkdir()
    again.write_text(GENERATED.replace(",", ", "))
    applied(sidecar, again, applying)
    assert len({each.label for found in applying.overrides.values() for each in found}) == 1


def test_what_a_standing_list_throttles_stays_throttled(generated: Path, sidecar: Sidecar, applying: Applying) -> None:
    """A list that names what moves alone would hide it."""
    for broker, listed in ((101, "*"), (102, "7:102")):
        change = ("set", "leader.replication.throttled.replicas", listed, "--topic", "orders")
        assert sidecar(*change, "--fleet", applying.fleet, "--at", broker).exit_code == 0
    applied(sidecar, generated, applying)
    assert [applying.quotas(101).leader.selects("orders", each) for each in (0, 7, 9)] == [True, True, True]
    assert [applying.quotas(102).leader.selects("orders", each) for each in (0, 7, 9)] == [True, True, False]


def test_the_lists_of_a_move_last_as_long_as_its_newest_rate(
    generated: Path, sidecar: Sidecar, applying: Applying
) -> None:
    """At a lower rate it takes longer than the override that began it lasts."""
    applied(sidecar, generated, applying, "--for", "1h")
    applied(sidecar, generated, applying, "--rate", "1MB/s", "--for", "9h")
    layers = tuple(layer_of(each, 101) for each in reversed(applying.overrides[101]))
    later = datetime.now(UTC) + timedelta(hours=5)
    leader = effective(replace(parse_quotas(b""), overrides=layers), 101, later).leader
    assert (leader.bytes_per_second, leader.selects("orders", 0)) == (MB, True)


def test_two_moves_beside_each_other(generated: Path, sidecar: Sidecar, applying: Applying) -> None:
    before = {broker: applying.quotas(broker) for broker in applying.sidecars}
    applied(sidecar, generated, applying, "--label", "one")
    applied(sidecar, generated, applying, "--label", "two", "--rate", "3MB/s")
    assert applying.quotas(101).leader.bytes_per_second == 3 * MB
    assert sidecar("undo", "--label", "two", "--fleet", applying.fleet).exit_code == 0
    assert applying.quotas(101).leader.bytes_per_second == 5 * MB
    assert sidecar("undo", "--label", "one", "--fleet", applying.fleet).exit_code == 0
    assert all(applying.quotas(broker).means_the_same_as(quotas) for broker, quotas in before.items())


def test_a_broker_without_a_sidecar_is_an_error_and_nothing_is_changed(
    generated: Path, sidecar: Sidecar, applying: Applying, tmp_path: Path
) -> None:
    fleet = fleet_file(tmp_path, {101: applying.sidecars[101].url, 104: applying.sidecars[104].url})
    result = sidecar("plan", generated, "--rate", "5MB/s", "--bytes", "1MB", "--apply", "--fleet", fleet)
    assert (result.exit_code, applying.overrides) == (1, {})
    assert "broker 102 of the move: no sidecar is named for it" in result.stderr


def test_a_sidecar_that_does_not_answer_is_named_and_the_others_are_told(
    generated: Path, sidecar: Sidecar, applying: Applying, tmp_path: Path
) -> None:
    urls = {broker: each.url for broker, each in applying.sidecars.items()} | {102: "http://127.0.0.1:1"}
    fleet = fleet_file(tmp_path, urls)
    result = sidecar("plan", generated, "--rate", "5MB/s", "--bytes", "1MB", "--apply", "--fleet", fleet)
    assert (result.exit_code, sorted(applying.overrides)) == (1, [101, 104]), result.output
    assert "broker 102: http://127.0.0.1:1: no answer" in result.stdout


def test_what_would_keep_it_from_the_planned_rate_is_a_warning(
    generated: Path, sidecar: Sidecar, applying: Applying
) -> None:
    where = ("--fleet", applying.fleet, "--at", "101")
    assert sidecar("set", "leader.replication.throttled.rate", "1MB/s", "--peer", "104", *where).exit_code == 0
    assert sidecar("set", "mode.enforce", "false", *where).exit_code == 0
    result = applied(sidecar, generated, applying)
    assert "warning: broker 101: mode.enforce is false" in result.stdout
    assert "inside the planned 4.77 MiB/s (5000000 B/s), peer 104 has 976.56 KiB/s" in result.stdout


def test_without_a_known_size_it_has_no_end_and_says_so(generated: Path, sidecar: Sidecar, applying: Applying) -> None:
    result = sidecar("plan", generated, "--rate", "5MB/s", "--apply", "--fleet", applying.fleet)
    assert result.exit_code == 0, result.output
    assert "the throttle has no end" in result.stdout
    assert {each.until for found in applying.overrides.values() for each in found} == {None}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--rate", "5MB/s", "--within", "2h"], "expected --rate or --within, not both"),
        (["--apply"], "--apply and --print need --rate or --within"),
        (["--rate", "1", "--apply", "--print"], "expected --apply or --print, not both"),
        (["--rate", "1", "--print", "--json"], "expected --print or --json, not both"),
        (["--rate", "unlimited"], "--rate: expected a limit"),
        (["--rate", "20mb"], "write MB; MB is 10^6 bytes, MiB is 2^20"),
        (["--within", "2"], 'expected a duration like "250ms" or "10s", found "2"'),
        (["--within", "0s", "--bytes", "5"], 'expected a duration above 0, found "0s"'),
        (["--capacity", "0"], "expected the speed of a network, such as 1.25GB/s, found"),
        (["--capacity", "unlimited"], "expected the speed of a network, such as 1.25GB/s, found"),
        (["--measure", "0s"], 'expected a duration above 0, found "0s"'),
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
    assert "expected a time in the future" in json.loads(past.stdout)["problems"][0]
    assert sidecar("plan", tmp_path / "gone.json").stderr.endswith(
        "gone.json: cannot be read: No such file or directory\n"
    )


def test_a_deadline_is_told_to_every_broker(generated: Path, sidecar: Sidecar, applying: Applying) -> None:
    """120 MB at 5 MB/s take 24 s."""
    soon = f"{datetime.now(UTC) + timedelta(hours=9):%Y-%m-%dT%H:%M:%SZ}"
    result = applied(sidecar, generated, applying, "--bytes", "120MB", "--finish-by", soon)
    assert "the sidecars find the least that will do" in result.stdout
    assert "it will be late" not in result.output
    source = applying.quotas(104).follower.source
    assert source is not None
    assert (source.most, str(source.deadline)) == (5 * MB, f"by {soon[:10]} {soon[11:19]} UTC")
    # The rates may take until then: the throttle ended after an hour, and what was left came without one.
    (override,) = applying.sidecars[104].keeper.current
    assert override.until is not None
    assert override.until > datetime.fromisoformat(soon)


def test_a_deadline_that_cannot_be_kept_is_a_warning(sidecar: Sidecar, generated: Path) -> None:
    soon = f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    result = sidecar("plan", generated, "--bytes", "120GB", "--rate", "5MB/s", "--finish-by", soon)
    assert result.exit_code == 0, result.output
    assert f"warning: to be over by {soon[:10]} {soon[11:19]} UTC" in result.output
    assert "it will be late" in result.output


@pytest.mark.parametrize("typed", ["2026-01-01T00:00:00Z", "2026-01-01 00:00"])
def test_a_deadline_that_has_passed_is_refused_before_anything_is_asked_or_changed(
    sidecar: Sidecar, generated: Path, applying: Applying, typed: str
) -> None:
    """A warning said that it will be late, and what is behind would have gone at the most there is."""
    options = ("--bytes", "120MB", "--rate", "5MB/s", "--finish-by", typed, "--apply", "--fleet", applying.fleet)
    result = sidecar("plan", generated, *options)
    assert result.exit_code == 1
    assert f"Error: --finish-by: expected a time in the future, found {typed} (it is 2" in result.stderr
    assert (result.stdout, applying.overrides) == ("", {})


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
def test_a_time_that_cannot_be_is_refused(generated: Path, sidecar: Sidecar, lasting: str) -> None:
    result = sidecar("plan", generated, "--rate", "5MB/s", "--print", "--for", lasting)
    told = " ".join(result.stderr.replace("│", " ").split())
    assert f'expected a time like 2h, 90m or 1d12h, of at most 366d, found "{lasting}"' in told
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--within", "1h"), "the size of the move is unknown: ask a cluster (--bootstrap) or give --bytes"),
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

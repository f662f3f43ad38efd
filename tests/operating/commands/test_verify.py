from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from operating.commands import verify as verify_command
from operating.moves.cluster import Cluster
from operating.moves.kafka_python import KafkaError
from operating.moves.verification import SidecarLeftover
from proxy.errors import UnreachableError
from proxy.quotas import effective, parse_quotas
from tests.operating.moves.fake_client import FakeClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    Sidecar = Callable[..., Result]

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_LIST = "leader.replication.throttled.replicas"
FOLLOWER_LIST = "follower.replication.throttled.replicas"
QUOTAS = f"""\
# ours
[brokers.104]
follower.replication.throttled.rate = 7
[topics.orders]
{FOLLOWER_LIST} = "0:104"
"""
CONFIGS = {
    ("topic", "orders", LEADER_LIST): ("0:101", "DYNAMIC_TOPIC_CONFIG"),
    ("topic", "orders", FOLLOWER_LIST): ("0:104", "DYNAMIC_TOPIC_CONFIG"),
    ("broker", "101", LEADER_RATE): ("5000", "DYNAMIC_BROKER_CONFIG"),
}
MOVING = {("orders", 0): ([101, 104], [104], [])}


class Bench:
    """A reassignment of orders-0 from [101] to [101, 104], a cluster, a quotas file, and time that does not pass."""

    def __init__(self, folder: Path, sidecar: Sidecar) -> None:
        self.client = FakeClient(
            {("orders", 0): (101, [101, 104], [101, 104])},
            sizes={(101, "orders", 0): 1000, (104, "orders", 0): 1000},
        )
        self.quotas = folder / "quotas.toml"
        self.quotas.write_text("# ours\n")
        self.move = folder / "move.json"
        self.move.write_text('{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[101,104]}]}')
        self.now = 0.0
        self.events: dict[float, Callable[[], None]] = {}
        self._sidecar = sidecar

    def under_way(self) -> None:
        self.client.ongoing = dict(MOVING)
        self.client.partitions["orders", 0] = (101, [101, 104], [101])
        self.client.sizes[104, "orders", 0] = 400

    def ends(self) -> None:
        self.client.ongoing = {}
        self.client.partitions["orders", 0] = (101, [101, 104], [101, 104])
        self.client.sizes[104, "orders", 0] = 1000

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for at in [at for at in self.events if at <= self.now]:
            self.events.pop(at)()

    def verify(self, *arguments: object) -> Result:
        return self._sidecar("verify", self.move, "--bootstrap", "a:9092", "--quotas", self.quotas, *arguments)


@pytest.fixture
def bench(tmp_path: Path, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(tmp_path, sidecar)

    @contextmanager
    def connected(**_: object) -> Iterator[Cluster]:
        yield Cluster(made.client)

    monkeypatch.setattr(verify_command, "connected", connected)
    # The command's own: a thread that another test left behind would make the time of all of `time` pass.
    monkeypatch.setattr(verify_command, "time", SimpleNamespace(sleep=made.sleep, monotonic=lambda: made.now))
    return made


def test_done_and_clean_is_zero(bench: Bench) -> None:
    result = bench.verify()
    assert (result.exit_code, result.stdout) == (
        0, "1 of 1 partitions are in place\ndone, and nothing is left behind\n"
    )  # fmt: skip


def test_a_move_under_way_shows_what_is_left_and_keeps_its_throttle(bench: Bench) -> None:
    bench.under_way()
    bench.quotas.write_text(QUOTAS)
    bench.client.configs = dict(CONFIGS)
    result = bench.verify("--remove")
    assert result.exit_code == 1
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0] == "1 of 1 partitions are in place, 600 B left".replace("1 of 1", "0 of 1")
    assert "orders-0 moving 101,104 101,104 101 600 B" in lines
    assert f"in force: {bench.quotas}: brokers.104.follower.replication.throttled.rate = 7" in lines
    assert lines[-1] == "not done: the throttle stays until it is"
    assert (bench.quotas.read_text(), bench.client.configs) == (QUOTAS, CONFIGS)


def test_what_is_left_behind_is_named_and_kept_until_told(bench: Bench) -> None:
    bench.quotas.write_text(QUOTAS)
    bench.client.configs = dict(CONFIGS)
    result = bench.verify()
    assert result.exit_code == 1
    assert result.stdout.splitlines()[1:] == [
        f'left behind: {bench.quotas}: topics.orders.{FOLLOWER_LIST} = "0:104"',
        f"left behind: {bench.quotas}: brokers.104.follower.replication.throttled.rate = 7",
        f"left behind: topic orders: {LEADER_LIST} = 0:101",
        f"left behind: topic orders: {FOLLOWER_LIST} = 0:104",
        f"left behind: broker 101: {LEADER_RATE} = 5000",
        "done; to remove what is left behind: the same command with --remove",
    ]
    assert (bench.quotas.read_text(), bench.client.configs) == (QUOTAS, CONFIGS)


def test_what_is_left_behind_is_removed_when_told(bench: Bench) -> None:
    bench.quotas.write_text(QUOTAS)
    bench.client.configs = dict(CONFIGS)
    result = bench.verify("--remove")
    assert result.exit_code == 0, result.output
    assert sum(line.startswith("removed: ") for line in result.stdout.splitlines()) == 5
    assert result.stdout.splitlines()[-1] == "done, and nothing is left behind"
    assert (bench.quotas.read_text(), bench.client.configs) == ("# ours\n", {})


def test_a_rate_for_a_time_stays_where_a_broker_is_under_it_that_only_a_list_names(
    bench: Bench, sidecar: Sidecar
) -> None:
    """Broker 107 would have gone from 5 to 50 MiB/s, without a word."""
    ours = f'[brokers.default]\n{LEADER_RATE} = "50MiB/s"\n[topics.payments]\n{LEADER_LIST} = "0:107"\n'
    bench.quotas.write_text(
        f'{ours}[brokers.101]\n{LEADER_RATE} = "50MiB/s"\n[topics.orders]\n{LEADER_LIST} = "0:101"\n'
    )
    setting = ("set", LEADER_RATE, "5MiB/s", "--broker", "default", "--for", "6h", "--quotas", bench.quotas)
    assert sidecar(*setting).exit_code == 0
    result = bench.verify("--remove")
    assert result.exit_code == 0, result.output
    assert sum(line.startswith("removed: ") for line in result.stdout.splitlines()) == 2
    assert effective(parse_quotas(bench.quotas.read_bytes()), 107, datetime.now(UTC)).leader.bytes_per_second == 5 << 20


def test_a_cancelled_move_is_not_done_but_can_be_cleaned_up(bench: Bench) -> None:
    bench.client.partitions["orders", 0] = (101, [101], [101])
    bench.quotas.write_text(QUOTAS)
    assert "nothing of it is under way; to remove" in bench.verify().stdout
    result = bench.verify("--remove")
    assert (result.exit_code, bench.quotas.read_text()) == (1, "# ours\n")
    assert result.stdout.splitlines()[-1] == "not done, and nothing is left behind"


def test_waiting_ends_when_it_is_done_and_tells_what_changes(bench: Bench) -> None:
    bench.under_way()
    bench.quotas.write_text(QUOTAS)
    bench.events = {2.0: lambda: bench.client.sizes.update({(104, "orders", 0): 900}), 4.0: bench.ends}
    result = bench.verify("--wait", "1h", "--remove")
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == [
        "0 of 1 partitions are in place, 600 B left", "0 of 1 partitions are in place, 100 B left",
    ]  # fmt: skip
    assert bench.now == 4


def test_a_broker_that_is_away_for_a_while_does_not_end_the_waiting(bench: Bench) -> None:
    """One that restarts in the night would leave the throttle of a move that is done by then."""
    bench.under_way()
    bench.quotas.write_text(QUOTAS)
    away = KafkaError("broker 104 is not available")
    bench.events = {
        2.0: lambda: bench.client.errors.update(describe_log_dirs=away),
        4.0: bench.ends,
        6.0: bench.client.errors.clear,
    }
    result = bench.verify("--wait", "1h", "--remove")
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == [
        "0 of 1 partitions are in place, 600 B left",
        "describing log dirs: KafkaError: broker 104 is not available: looking again until the time is over",
    ]
    assert (bench.now, bench.quotas.read_text()) == (6, "# ours\n")


def test_a_file_that_somebody_is_writing_does_not_end_the_waiting(bench: Bench) -> None:
    """Nor kubectl, while the server of a ConfigMap is away: both were good when the waiting began."""
    bench.under_way()
    bench.quotas.write_text(QUOTAS)
    bench.events = {
        2.0: lambda: bench.quotas.write_text("[[[") and None,
        4.0: bench.ends,
        6.0: lambda: bench.quotas.write_text(QUOTAS) and None,
    }
    result = bench.verify("--wait", "1h", "--remove")
    assert result.exit_code == 0, result.output
    assert f"{bench.quotas}: not TOML: " in result.stderr
    assert (bench.now, bench.quotas.read_text()) == (6, "# ours\n")


def test_a_sidecar_that_is_away_until_the_time_is_over_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.under_way()
    answers = iter([[], []])

    def asked(url: str, _: object) -> list[SidecarLeftover]:
        found = next(answers, None)
        if found is None:
            raise UnreachableError(f"{url}/config: no answer from a sidecar: refused")
        return found

    monkeypatch.setattr(verify_command, "still_throttled", asked)
    result = bench.verify("--wait", "90s", "--url", "http://b:1")
    assert (result.exit_code, bench.now) == (3, 90)
    assert result.stderr.splitlines()[-1] == "Error: http://b:1/config: no answer from a sidecar: refused"
    assert len(result.stderr.splitlines()) == 3


def test_waiting_ends_when_the_time_is_over(bench: Bench) -> None:
    bench.under_way()
    assert bench.verify("--wait", "90s").exit_code == 1
    assert bench.now == 90


def test_a_sidecar_that_reads_another_file_is_said(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        verify_command, "still_throttled", lambda url, _: [SidecarLeftover(url, "follower", "orders", "0")]
    )
    bench.quotas.write_text(QUOTAS)
    result = bench.verify("--remove", "--url", "http://b:9404")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-2:] == [
        "left behind: http://b:9404: throttles as follower: orders 0",
        "a sidecar still throttles: the quotas file that it reads is another one",
    ]
    # Brokers and sidecars are given their time to hear of it.
    assert 5 <= bench.now < 5.2


def test_nothing_of_kafkas_own_goes_while_another_partition_moves(bench: Bench) -> None:
    """Both lists of the topic went, the other partition continued unthrottled, and it was "done, and nothing is left
    behind", exit status 0."""
    bench.client.partitions["orders", 1] = (101, [101, 104], [101])
    bench.client.ongoing = {("orders", 1): ([101, 104], [104], [])}
    bench.client.configs = dict(CONFIGS)
    result = bench.verify("--remove")
    assert (result.exit_code, bench.client.configs) == (1, CONFIGS)
    lines = result.stdout.splitlines()
    assert f"in force: topic orders: {LEADER_LIST} = 0:101" in lines
    assert lines[-1] == "done; orders-1 is still moving: Kafka's own throttle stays until then"
    assert bench.now == 0


def test_a_broker_that_is_down_is_named_and_its_lists_stay(bench: Bench) -> None:
    """Its rate was not looked at, and it was "nothing is left behind", exit status 0."""
    bench.client.configs = CONFIGS | {("topic", "orders", LEADER_LIST): ("0:101,0:102", "DYNAMIC_TOPIC_CONFIG")}
    bench.client.brokers.remove(101)
    # 101 was the source; the partition is on 102 and 104 now.
    bench.client.partitions["orders", 0] = (102, [102, 104], [102, 104])
    bench.move.write_text('{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[102,104]}]}')
    bench.client.configs["broker", "104", FOLLOWER_RATE] = ("5000", "DYNAMIC_BROKER_CONFIG")
    del bench.client.configs["broker", "101", LEADER_RATE]
    result = bench.verify("--remove")
    assert result.exit_code == 1
    assert f"removed: broker 104: {FOLLOWER_RATE} = 5000" in result.stdout
    assert f"left behind: topic orders: {LEADER_LIST} = 0:101,0:102" in result.stdout
    assert result.stdout.splitlines()[-2:] == [
        "not known: broker 101 does not answer; throttles of the brokers' own may be left there",
        "done, as far as brokers answer; to remove what is left although they do not answer: --remove --force",
    ]
    result = bench.verify("--remove", "--force")
    assert (result.exit_code, bench.client.configs) == (0, {}), result.output
    assert result.stdout.splitlines()[-1] == "done, and nothing is left behind"


def test_a_replica_that_is_dead_is_named_and_the_operator_may_insist(bench: Bench) -> None:
    """The reassignment is completed, and a replica that stays is dead: it was in the way for ever."""
    bench.client.brokers.remove(101)
    bench.client.partitions["orders", 0] = (104, [101, 104], [104])
    bench.client.configs = {place: found for place, found in CONFIGS.items() if place[0] == "topic"}
    bench.quotas.write_text(QUOTAS)
    before = dict(bench.client.configs)
    result = bench.verify("--remove")
    assert (result.exit_code, bench.client.configs, bench.quotas.read_text()) == (1, before, QUOTAS)
    assert "in place, but not in sync, and its broker does not answer" in " ".join(result.stdout.split())
    result = bench.verify("--remove", "--force")
    assert (result.exit_code, bench.client.configs, bench.quotas.read_text()) == (3, {}, "# ours\n")
    assert result.stdout.splitlines()[-1].startswith("not done, and nothing of it is under way, as far as brokers")


def test_standing_throttles_stay(bench: Bench) -> None:
    standing = {
        ("topic", "orders", LEADER_LIST): ("*", "DYNAMIC_TOPIC_CONFIG"),
        ("topic", "orders", FOLLOWER_LIST): ("*", "DYNAMIC_TOPIC_CONFIG"),
        ("broker", "101", LEADER_RATE): ("20971520", "DYNAMIC_BROKER_CONFIG"),
        ("broker", "104", FOLLOWER_RATE): ("20971520", "DYNAMIC_BROKER_CONFIG"),
    }
    bench.client.configs = dict(standing)
    result = bench.verify("--remove")
    assert (result.exit_code, bench.client.configs) == (0, standing)
    assert f"note: topic orders: {LEADER_LIST} = *: not by this move: it stays" in result.stdout


def test_the_lists_of_every_topic_are_asked_before_a_rate_goes(bench: Bench) -> None:
    bench.client.configs = CONFIGS | {("topic", "clicks", LEADER_LIST): ("0:101", "DYNAMIC_TOPIC_CONFIG")}
    bench.client.partitions["clicks", 0] = (101, [101], [101])
    result = bench.verify("--remove")
    assert result.exit_code == 0, result.output
    assert set(bench.client.configs) == {("broker", "101", LEADER_RATE), ("topic", "clicks", LEADER_LIST)}


def test_preserved_throttles_are_not_looked_at(bench: Bench) -> None:
    """Kafka's own word for it. Whoever may not see configs can verify this way as well."""
    bench.client.configs = dict(CONFIGS)
    bench.client.errors["describe_configs"] = KafkaError("not allowed")
    result = bench.verify("--remove", "--preserve-throttles")
    assert (result.exit_code, bench.client.configs) == (0, CONFIGS), result.output


def test_a_copy_between_disks_keeps_its_throttle(bench: Bench) -> None:
    """It was done at once, and the throttle was deleted during the copy."""
    bench.move.write_text(
        '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[101,104],"log_dirs":["any","/b"]}]}'
    )
    configs = {("broker", "104", LOG_DIR_RATE): ("1048576", "DYNAMIC_BROKER_CONFIG")}
    bench.client.configs, bench.client.copies = dict(configs), {(104, "orders", 0): 400}
    result = bench.verify("--remove")
    assert (result.exit_code, bench.client.configs) == (1, configs)
    assert result.stdout.splitlines()[0] == "0 of 1 partitions are in place, 600 B left"
    bench.client.copies = {}
    assert "not in the log directory that it shall be in" in " ".join(bench.verify().stdout.split())
    bench.move.write_text(bench.move.read_text().replace("/b", "/a"))
    result = bench.verify("--remove")
    assert (result.exit_code, bench.client.configs) == (0, {}), result.output


def test_json_has_the_same(bench: Bench) -> None:
    bench.under_way()
    bench.quotas.write_text(QUOTAS)
    report = json.loads(bench.verify("--json").stdout)
    assert (report["done"], report["clean"], report["removed"]) == (False, False, [])
    assert report["partitions"] == [
        {"topic": "orders", "partition": 0, "stage": "moving", "target": [101, 104], "replicas": [101, 104],
         "in_sync": [101], "left_bytes": 600}
    ]  # fmt: skip
    assert report["left_behind"]["quotas_file"][0] == {
        "file": str(bench.quotas), "key": f"topics.orders.{FOLLOWER_LIST}", "value": "0:104", "becomes": None,
    }  # fmt: skip


def test_what_set_put_before_it_is_removed_from_every_file(bench: Bench, tmp_path: Path) -> None:
    """The next plan would have been held by it, until it ended by itself."""
    until = f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    over = f"[[schedules]]\nuntil = 2020-01-01T00:00:00Z\n[schedules.brokers.109]\n{LEADER_RATE} = 3\n"
    temporary = f"[[schedules]]\nuntil = {until}\n[schedules.brokers.104]\nfollower.replication.throttled.rate = 9\n"
    bench.quotas.write_text(f"{QUOTAS}\n{over}{temporary}")
    other = tmp_path / "quotas-101.toml"
    other.write_text(f'[brokers.101]\n{LEADER_RATE} = 5\n[topics.orders]\n{FOLLOWER_LIST} = "0:104"\n')
    result = bench.verify("--quotas", other, "--remove")
    assert result.exit_code == 0, result.output
    assert bench.quotas.read_text() == "# ours\n"
    assert other.read_text() == "# no quotas: everything passes\n"
    removed = [line for line in result.stdout.splitlines() if line.startswith("removed: ")]
    assert f"removed: {bench.quotas}: schedules[1].brokers.104.follower.replication.throttled.rate = 9" in removed
    assert f"removed: {other}: brokers.101.{LEADER_RATE} = 5" in removed


def test_brokers_that_do_not_answer_are_3(bench: Bench) -> None:
    bench.client.errors["describe_topics"] = KafkaError("gone")
    result = bench.verify()
    assert (result.exit_code, result.stderr) == (3, "Error: describing topics: KafkaError: gone\n")


def test_a_topic_that_is_gone_is_not_asked_for_its_configs(bench: Bench) -> None:
    bench.client.partitions = {}
    result = bench.verify()
    assert result.exit_code == 1
    assert "no such partition" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["verify", "{move}"], 2, "expected --bootstrap: only the cluster knows"),
        (["verify", "{move}.gone", "--bootstrap", "a:9092"], 4, "move.json.gone: cannot be read: No such file"),
        (["verify", "{quotas}", "--bootstrap", "a:9092"], 4, "quotas.toml: line 1: not JSON"),
        (["verify", "{move}", "--bootstrap", "a:9092", "--quotas", "{move}"], 4, "move.json: not TOML"),
        (["verify", "{move}", "--bootstrap", "a:9092", "--url", "http://127.0.0.1:1"], 3, "no answer from a sidecar"),
    ],
)
def test_wrong_input_is_said(bench: Bench, sidecar: Sidecar, arguments: list[str], code: int, problem: str) -> None:
    typed = [argument.format(move=bench.move, quotas=bench.quotas) for argument in arguments]
    result = sidecar(*typed)
    assert (result.exit_code, problem in result.stderr) == (code, True), result.output
    if code != 2:
        as_json = sidecar(*typed, "--json")
        (said,) = json.loads(as_json.stdout)["problems"]
        assert (as_json.exit_code, as_json.stderr) == (code, f"Error: {said}\n") == (code, result.stderr)


def test_a_fleet_is_asked_and_cleaned_as_a_whole(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(verify_command, "still_throttled", lambda url, _: asked.append(url) or [])
    files = [tmp_path / f"{name}.toml" for name in "ab"]
    lines = []
    for broker, path in enumerate(files, 101):
        path.write_text(QUOTAS)
        lines.append(f'[[sidecars]]\nbroker = {broker}\nurl = "http://{broker}"\nquotas = "{path.name}"\n')
    lines.append('[[sidecars]]\nbroker = 104\nurl = "http://104"\n')
    (tmp_path / "fleet.toml").write_text("".join(lines))
    result = bench.verify("--fleet", tmp_path / "fleet.toml")
    assert result.exit_code == 1
    assert all(f"left behind: {path}: brokers.104" in result.output for path in files)
    assert asked == ["http://101", "http://102", "http://104"]
    files[0].write_text("[nonsense")
    assert bench.verify("--fleet", tmp_path / "fleet.toml", "--remove").exit_code == 4
    assert files[1].read_text() == QUOTAS
    files[0].write_text(QUOTAS)
    assert bench.verify("--fleet", tmp_path / "fleet.toml", "--remove").exit_code == 0
    assert [path.read_text() for path in files] == ["# ours\n"] * 2
    assert bench.verify("--fleet", tmp_path / "none.toml").exit_code == 4

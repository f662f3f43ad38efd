from __future__ import annotations

import errno
import json
import os
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from operating.client.kafka_python import KafkaError
from operating.commands import verify as verify_command
from operating.moves import inspection
from operating.moves.cluster import Cluster
from tests.operating.fleet.sidecars import fleet_file, running
from tests.operating.moves.fake_client import FakeClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    from tests.operating.fleet.sidecars import OneSidecar

    Sidecar = Callable[..., Result]

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_LIST = "leader.replication.throttled.replicas"
FOLLOWER_LIST = "follower.replication.throttled.replicas"
CONFIGS = {
    ("topic", "orders", LEADER_LIST): ("0:101", "DYNAMIC_TOPIC_CONFIG"),
    ("topic", "orders", FOLLOWER_LIST): ("0:104", "DYNAMIC_TOPIC_CONFIG"),
    ("broker", "101", LEADER_RATE): ("5000", "DYNAMIC_BROKER_CONFIG"),
}
LABEL = "move-b38fed"
"""As it is derived from the reassignment below."""
MOVING = {("orders", 0): ([101, 104], [104], [])}


class Bench:
    """A reassignment of orders-0 from [101] to [101, 104], a cluster, two sidecars, and time that does not pass."""

    def __init__(self, folder: Path, sidecar: Sidecar, sidecars: dict[int, OneSidecar]) -> None:
        self.client = FakeClient(
            {("orders", 0): (101, [101, 104], [101, 104])},
            sizes={(101, "orders", 0): 1000, (104, "orders", 0): 1000},
        )
        self.sidecars = sidecars
        self.fleet = fleet_file(folder, {broker: each.url for broker, each in sidecars.items()})
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
        return self._sidecar("verify", self.move, "--bootstrap", "a:9092", "--fleet", self.fleet, *arguments)

    def throttle(self, label: str = LABEL) -> None:
        """Throttle the move at both sidecars, as `plan --apply` does."""
        done = self._sidecar("set", LEADER_RATE, "5MiB/s", "--label", label, "--fleet", self.fleet)
        assert done.exit_code == 0, done.output

    @property
    def labels(self) -> list[str | None]:
        return [each.label for sidecar in self.sidecars.values() for each in sidecar.keeper.current]


@pytest.fixture
def bench(tmp_path: Path, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with running(tmp_path, [101, 104]) as sidecars:
        yield _bench(Bench(tmp_path, sidecar, sidecars), monkeypatch)


def _bench(made: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:

    @contextmanager
    def connected(**_: object) -> Iterator[Cluster]:
        yield Cluster(made.client)

    monkeypatch.setattr(verify_command, "connected", connected)
    # The command's own: a thread that another test left behind would make the time of all of `time` pass.
    for module in (verify_command, inspection):
        monkeypatch.setattr(module, "time", SimpleNamespace(sleep=made.sleep, monotonic=lambda: made.now))
    return made


def test_done_and_clean_is_zero(bench: Bench) -> None:
    result = bench.verify()
    assert (result.exit_code, result.stdout) == (
        0, "1 of 1 partitions are in place\ndone, and nothing is left behind\n"
    )  # fmt: skip


def test_a_move_under_way_shows_what_is_left_and_keeps_its_throttle(bench: Bench) -> None:
    bench.under_way()
    bench.throttle()
    bench.client.configs = dict(CONFIGS)
    result = bench.verify("--remove")
    assert result.exit_code == 1
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert lines[0] == "1 of 1 partitions are in place, 600 B left".replace("1 of 1", "0 of 1")
    assert "orders-0 moving 101,104 101,104 101 600 B" in lines
    assert any(line.startswith("in force: broker 104: override ") for line in lines)
    assert lines[-1] == "not done: the throttle stays until it is"
    assert (bench.labels, bench.client.configs) == ([LABEL, LABEL], CONFIGS)


def test_what_is_left_behind_is_named_and_kept_until_told(bench: Bench) -> None:
    bench.throttle()
    bench.client.configs = dict(CONFIGS)
    result = bench.verify()
    assert result.exit_code == 1
    (made,) = {each.id for one in bench.sidecars.values() for each in one.keeper.current}
    assert result.stdout.splitlines()[1:] == [
        f"left behind: broker 101: override {made} ({LABEL})",
        f"left behind: broker 104: override {made} ({LABEL})",
        f"left behind: topic orders: {LEADER_LIST} = 0:101",
        f"left behind: topic orders: {FOLLOWER_LIST} = 0:104",
        f"left behind: broker 101: {LEADER_RATE} = 5000",
        "done; to remove what is left behind: the same command with --remove",
    ]
    assert (bench.labels, bench.client.configs) == ([LABEL, LABEL], CONFIGS)


def test_what_is_left_behind_is_removed_when_told(bench: Bench) -> None:
    bench.throttle()
    bench.client.configs = dict(CONFIGS)
    result = bench.verify("--remove")
    assert result.exit_code == 0, result.output
    assert sum(line.startswith("removed: ") for line in result.stdout.splitlines()) == 5
    assert result.stdout.splitlines()[-1] == "done, and nothing is left behind"
    assert (bench.labels, bench.client.configs) == ([], {})


def test_only_the_label_of_the_move_goes(bench: Bench) -> None:
    """A standing 20 MiB/s was not restored, and the report was "nothing is left behind"."""
    bench.throttle("another-move")
    bench.throttle()
    rates = [each.rate for each in bench.sidecars.values()]
    assert bench.verify("--remove").exit_code == 0
    assert (bench.labels, [each.rate for each in bench.sidecars.values()]) == (["another-move"] * 2, rates)
    assert bench.verify("--label", "another-move", "--remove").exit_code == 0
    assert [each.rate for each in bench.sidecars.values()] == [50 * 2**20] * 2


def test_a_sidecar_that_does_not_answer_is_named_and_it_is_not_clean(bench: Bench, tmp_path: Path) -> None:
    bench.throttle()
    urls = {broker: each.url for broker, each in bench.sidecars.items()} | {107: "http://127.0.0.1:1"}
    bench.fleet = fleet_file(tmp_path, urls)
    result = bench.verify("--remove")
    assert (result.exit_code, bench.labels) == (3, []), result.output
    assert "not known: broker 107: http://127.0.0.1:1: no answer" in result.output
    assert result.stdout.splitlines()[-1] == "done, as far as sidecars answer"


def test_a_cancelled_move_is_not_done_but_can_be_cleaned_up(bench: Bench) -> None:
    bench.client.partitions["orders", 0] = (101, [101], [101])
    bench.throttle()
    assert "nothing of it is under way; to remove" in bench.verify().stdout
    result = bench.verify("--remove")
    assert (result.exit_code, bench.labels) == (1, [])
    assert result.stdout.splitlines()[-1] == "not done, and nothing is left behind"


def test_waiting_ends_when_it_is_done_and_tells_what_changes(bench: Bench) -> None:
    bench.under_way()
    bench.throttle()
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
    bench.throttle()
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
    assert (bench.now, bench.labels) == (6, [])


def test_waiting_ends_when_the_time_is_over(bench: Bench) -> None:
    bench.under_way()
    assert bench.verify("--wait", "90s").exit_code == 1
    assert bench.now == 90


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


def test_a_broker_that_is_down_is_named_and_its_lists_stay(
    tmp_path: Path, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rate was not looked at, and it was "nothing is left behind", exit status 0."""
    with running(tmp_path, [101, 102, 104]) as sidecars:
        _a_source_that_is_down(_bench(Bench(tmp_path, sidecar, sidecars), monkeypatch))


def _a_source_that_is_down(bench: Bench) -> None:
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
    bench.throttle()
    before = dict(bench.client.configs)
    result = bench.verify("--remove")
    assert (result.exit_code, bench.client.configs, bench.labels) == (1, before, [LABEL, LABEL])
    assert "in place, but not in sync, and its broker does not answer" in " ".join(result.stdout.split())
    result = bench.verify("--remove", "--force")
    assert (result.exit_code, bench.client.configs, bench.labels) == (3, {}, [])
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
    bench.throttle()
    report = json.loads(bench.verify("--json").stdout)
    assert (report["done"], report["clean"], report["removed"]) == (False, False, [])
    assert report["partitions"] == [
        {"topic": "orders", "partition": 0, "stage": "moving", "target": [101, 104], "replicas": [101, 104],
         "in_sync": [101], "left_bytes": 600}
    ]  # fmt: skip
    assert [each["label"] for each in report["left_behind"]["overrides"]] == [LABEL, LABEL]


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
        (["verify", "{fleet}", "--bootstrap", "a:9092"], 4, "fleet.toml: line 1: not JSON"),
        (["verify", "{move}", "--bootstrap", "a:9092", "--fleet", "{move}"], 4, "move.json: "),
    ],
)
def test_wrong_input_is_said(bench: Bench, sidecar: Sidecar, arguments: list[str], code: int, problem: str) -> None:
    typed = [argument.format(move=bench.move, fleet=bench.fleet) for argument in arguments]
    result = sidecar(*typed)
    assert (result.exit_code, problem in result.stderr) == (code, True), result.output
    if code != 2:
        as_json = sidecar(*typed, "--json")
        (said,) = json.loads(as_json.stdout)["problems"]
        assert (as_json.exit_code, as_json.stderr) == (code, f"Error: {said}\n") == (code, result.stderr)


def test_what_a_restart_would_bring_back_is_said_and_is_1(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk it was "done, and nothing is left behind", exit status 0."""

    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    bench.throttle()
    monkeypatch.setattr(os, "fsync", fsync)
    result = bench.verify("--remove")
    assert (result.exit_code, bench.labels) == (1, []), result.output
    lines = result.stdout.splitlines()
    assert sum("a restart may bring back what was undone, until this is stored: " in line for line in lines) == 2
    assert lines[-1] == "done; whether its removal holds: the same command again tells"

"""``move`` between real overrides of four sidecars and a cluster in memory, in time that a test lets pass."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from operating.client.kafka_python import IncompatibleBrokerVersion, KafkaError, KafkaTimeoutError, for_code
from operating.commands import move as move_command
from operating.fleet import members as members_module
from operating.moves import looking, moving
from operating.moves.cluster import Cluster
from tests.operating.fleet.sidecars import fleet_file, running
from tests.operating.moves.fake_client import FakeClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    from tests.operating.fleet.sidecars import OneSidecar
    from tests.proxy.fake_sidecar import FakeSidecar

    Sidecar = Callable[..., Result]

MIB = 1 << 20
BROKERS = (101, 102, 104)
LEADER_RATE = "leader.replication.throttled.rate"
ROW = '{{"topic":"orders","partition":{},"replicas":{}}}'
MOVE = f'{{"version":1,"partitions":[{ROW.format(0, [101, 104])},{ROW.format(1, [102, 104])}]}}'
LABEL = "move-b6b144"
"""As it is derived from MOVE."""
BEFORE = {("orders", 0): (101, [101, 102], [101, 102]), ("orders", 1): (102, [102, 101], [102, 101])}
SIZES = {(101, "orders", 0): 8 * MIB, (102, "orders", 1): 8 * MIB}


InvalidReplicationAssignmentError = for_code(39)


class Killed(BaseException):
    """As by SIGKILL: nothing that is to be done at the end is done."""


class Bench:
    """A reassignment that replaces a replica by 104 in two partitions, a cluster, three sidecars."""

    def __init__(self, folder: Path, sidecar: Sidecar, sidecars: dict[int, OneSidecar]) -> None:
        self.client = FakeClient(BEFORE, sizes=SIZES)
        self.sidecars = sidecars
        self.fleet = fleet_file(folder, {broker: each.url for broker, each in sidecars.items()})
        self.file = folder / "move.json"
        self.file.write_text(MOVE)
        self.now, self.ends = 100.0, 100_000.0
        self.events: dict[float, Callable[[], None]] = {}
        self.interrupts_at: float | None = None
        self.calls_left: float = float("inf")
        """How many questions it asks until it is killed."""
        self.throttled: list[set[tuple[int, str | None]]] = []
        """The overrides there were whenever something was started, or ended."""
        self._sidecar, self._lock = sidecar, threading.Lock()

    def ask(self) -> None:
        with self._lock:
            self.calls_left -= 1
            if self.calls_left < 0:
                raise Killed

    def reassign(self, targets: dict[tuple[str, int], list[int] | None]) -> object:
        if any(targets.values()):
            self.throttled.append(self.labels)
        return FakeClient.alter_partition_reassignments(self.client, targets)

    def complete(self) -> None:
        if self.client.ongoing:
            self.throttled.append(self.labels)
        self.client.complete()

    def pause(self, seconds: float) -> bool:
        self.now += seconds
        assert self.now < self.ends, "it does not end"
        for at in [at for at in self.events if at <= self.now]:
            self.events.pop(at)()
        return self.interrupts_at is not None and self.now >= self.interrupts_at

    def move(self, *arguments: object) -> Result:
        """From a new process that knows nothing of those before."""
        where = ("--bootstrap", "a:9092", "--fleet", self.fleet, "--yes")
        return self._sidecar("move", *where, *arguments)

    def begin(self, *arguments: object) -> Result:
        return self.move(self.file, "--rate", "4MiB/s", *arguments)

    def begin_and_leave(self) -> None:
        self.interrupts_at = 102.0
        assert self.begin().exit_code == 1
        self.interrupts_at = None

    @property
    def labels(self) -> set[tuple[int, str | None]]:
        return {(broker, each.label) for broker, one in self.sidecars.items() for each in one.keeper.current}

    @property
    def replicas(self) -> list[list[int]]:
        return [replicas for _, replicas, _ in self.client.partitions.values()]


@pytest.fixture
def bench(tmp_path: Path, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with running(tmp_path, BROKERS) as sidecars:
        made = Bench(tmp_path, sidecar, sidecars)

        @contextmanager
        def connected(**_: object) -> Iterator[Cluster]:
            yield Cluster(made.client)

        @contextmanager
        def held_interrupts() -> Iterator[Callable[[float], bool]]:
            yield made.pause

        def send(*args: Any, **named: Any) -> object:
            made.ask()
            return sent(*args, **named)

        sent, asked = members_module.send, made.client._ask
        monkeypatch.setattr(members_module, "send", send)
        monkeypatch.setattr(made.client, "_ask", lambda method: (made.ask(), asked(method)))
        monkeypatch.setattr(made.client, "alter_partition_reassignments", made.reassign)
        monkeypatch.setattr(move_command, "connected", connected)
        monkeypatch.setattr(move_command, "held_interrupts", held_interrupts)
        for module in (move_command, moving, looking):
            passing = SimpleNamespace(sleep=made.pause, monotonic=lambda: made.now)
            monkeypatch.setattr(module, "time", passing)
        yield made


def all_at(label: str = LABEL) -> set[tuple[int, str | None]]:
    return {(broker, label) for broker in BROKERS}


def test_a_move_from_plan_to_clean(bench: Bench) -> None:
    seen: list[object] = []
    bench.events = {102.0: lambda: seen.append((bench.labels, bench.client.ongoing)), 103.0: bench.client.complete}
    result = bench.begin()
    assert result.exit_code == 0, result.output
    ((labels, ongoing),) = seen
    assert (labels, [*ongoing]) == (all_at(), [("orders", 0), ("orders", 1)])
    assert (bench.replicas, bench.labels) == ([[101, 104], [102, 104]], set())
    lines = result.stdout.splitlines()
    assert lines[0] == "2 partitions to move, 16.00 MiB over the network, in about 4s"
    assert lines[-1] == "done, and nothing is left behind"
    assert sum(line.startswith("removed: ") for line in lines) == 3
    # The numbers are of one line per change, where there is no terminal.
    (line,) = result.stderr.splitlines()
    assert line.startswith("0 of 2 partitions are in place, 16.00 MiB left; the throttle ends 20")


def test_every_step_is_printed_with_the_command_that_does_it_alone(bench: Bench, sidecar: Sidecar) -> None:
    bench.events = {103.0: bench.client.complete}
    steps = [line for line in bench.begin().stdout.splitlines() if line.startswith("  ")]
    by_hand = {words[0]: " ".join(words[1:]) for line in steps if (words := line.split()) and len(words) > 3}
    where = f"{bench.file} --bootstrap a:9092"
    assert by_hand["plan"] == f"throttle-sidecar plan {where} --rate 4MiB/s"
    fleet = f"--fleet {bench.fleet} --label {LABEL}"
    assert by_hand["throttle"] == f"throttle-sidecar plan {where} --rate 4MiB/s --apply {fleet}"
    tool = f"kafka-reassign-partitions --bootstrap-server a:9092 --reassignment-json-file {bench.file} --execute"
    assert by_hand["execute"] == tool
    assert by_hand["watch"] == f"throttle-sidecar status --fleet {bench.fleet}"
    assert by_hand["remove"] == f"throttle-sidecar verify {where} {fleet} --remove"


@pytest.mark.parametrize("ending", ["--resume", "--cancel"])
def test_killed_at_any_moment_it_goes_on_or_is_taken_back_from_another_machine(bench: Bench, ending: str) -> None:
    """At every question that it asks of the cluster or a sidecar; the other machine has no file."""
    killed = finished = 0
    for calls in range(200):
        bench.client.partitions, bench.client.ongoing, bench.client.sizes = dict(BEFORE), {}, dict(SIZES)
        bench.events = {bench.now + 2: bench.complete}
        bench.calls_left = calls
        try:
            assert bench.begin().exit_code == 0
            break
        except Killed:
            killed += 1
        bench.calls_left = float("inf")
        bench.events = {bench.now + 2: bench.complete}
        if not bench.labels:
            # Before the first override, or after the last: then it is as if it had not been, or done.
            assert bench.replicas in ([[101, 102], [102, 101]], [[101, 104], [102, 104]]), calls
            assert bench.begin().exit_code == 0, calls
            continue
        was_done = bench.replicas == [[101, 104], [102, 104]]
        result = bench.move(ending, LABEL)
        assert (result.exit_code, bench.labels, bench.client.ongoing) == (0, set(), {}), (calls, result.output)
        finished += 1
        if ending == "--resume" or was_done:
            assert bench.replicas == [[101, 104], [102, 104]], (calls, result.output)
        else:
            assert bench.replicas == [[101, 102], [102, 101]], (calls, result.output)
    assert bench.calls_left >= 0
    # Nothing is started before all of them throttle it, and nothing is removed before it has ended.
    assert bench.throttled == [all_at()] * len(bench.throttled)
    assert (killed > 30, finished > 15) == (True, True), (killed, finished)


def test_ctrl_c_leaves_it_running_and_says_how_to_go_on_and_back(bench: Bench) -> None:
    bench.interrupts_at = 102.0
    result = bench.begin()
    assert (result.exit_code, bench.labels, len(bench.client.ongoing)) == (1, all_at(), 2)
    told = result.stdout.splitlines()[-3:]
    where = f"--bootstrap a:9092 --fleet {bench.fleet}"
    assert told == [
        "this command ends, the move goes on: 0 of 2 partitions are in place, 16.00 MiB left",
        f"go on with it: throttle-sidecar move --resume {LABEL} {where}",
        f"take it back:  throttle-sidecar move --cancel {LABEL} {where}",
    ]


def test_a_rate_of_a_move_under_way_is_changed(bench: Bench) -> None:
    bench.begin_and_leave()
    bench.interrupts_at = bench.now + 2
    result = bench.move("--resume", LABEL, "--rate", "9MiB/s")
    assert result.exit_code == 1, result.output
    assert bench.sidecars[101].rate == 9 * MIB
    bench.interrupts_at, bench.events = None, {bench.now + 2: bench.client.complete}
    result = bench.move("--resume", LABEL)
    assert (result.exit_code, bench.labels) == (0, set()), result.output


def test_within_a_time_sidecars_set_the_rate(bench: Bench) -> None:
    bench.interrupts_at = 102.0
    result = bench.move(bench.file, "--within", "2h")
    (rate,) = [
        each.value
        for each in bench.sidecars[104].keeper.current[0].changes
        if each.key == "follower.replication.throttled.rate"
    ]
    assert isinstance(rate, dict)
    assert rate.keys() == {"finish_by", "max"}
    assert "the sidecars find the least that will do" in result.stdout
    assert f"--rate {rate['max']} --finish-by {rate['finish_by']} --apply" in result.stdout
    ends = bench.sidecars[104].keeper.current[0].until
    # Not before the deadline, whatever the highest rate could do.
    assert f"{ends:%Y-%m-%dT%H:%M:%SZ}" > rate["finish_by"]


def test_a_rate_that_cannot_end_in_time_is_refused(bench: Bench) -> None:
    result = bench.move(bench.file, "--within", "1m", "--rate", "64KiB/s")
    assert (result.exit_code, bench.labels, bench.client.ongoing) == (4, set(), {})
    assert "--rate: expected enough for --within, found 64.00 KiB/s" in result.stderr


def test_a_second_move_is_refused_with_what_to_do(bench: Bench) -> None:
    bench.begin_and_leave()
    before = dict(bench.client.ongoing)
    result = bench.begin()
    assert (result.exit_code, bench.labels, bench.client.ongoing) == (4, all_at(), before)
    assert (
        f"{LABEL}: this move has been begun, its throttle is at brokers 101-102, 104: go on with it: " in result.stderr
    )
    result = bench.begin("--label", "other")
    assert (result.exit_code, bench.labels, bench.client.ongoing) == (4, all_at(), before)
    assert (
        "orders-0, orders-1: already moving to these replicas, without a throttle of the label other" in result.stderr
    )
    bench.file.write_text(MOVE.replace("[101, 104]", "[101, 103]"))
    result = bench.begin()
    assert (result.exit_code, bench.labels, bench.client.ongoing) == (4, all_at(), before)
    assert "orders-0: already moving to other replicas than these, by another reassignment" in result.stderr


def test_a_move_that_was_throttled_step_by_step_goes_on_with_its_file(bench: Bench, sidecar: Sidecar) -> None:
    assert sidecar("set", LEADER_RATE, "5MiB/s", "--label", LABEL, "--fleet", bench.fleet).exit_code == 0
    result = bench.move("--resume", LABEL)
    assert (result.exit_code, "do not keep its reassignment: name its file as well" in result.stderr) == (4, True)
    bench.events = {bench.now + 2: bench.complete}
    result = bench.move("--resume", LABEL, bench.file)
    assert (result.exit_code, bench.labels, bench.throttled) == (0, set(), [all_at()] * 2), result.output
    assert bench.replicas == [[101, 104], [102, 104]]


def test_an_unknown_label_says_which_there_are(bench: Bench) -> None:
    bench.begin_and_leave()
    for how in ("--resume", "--cancel"):
        result = bench.move(how, "no-such")
        assert (result.exit_code, bench.labels) == (4, all_at())
        assert f"labels there are: {LABEL} (brokers 101-102, 104)" in result.stderr


def test_of_one_partition_that_is_refused_nothing_is_left_half_applied(bench: Bench) -> None:
    bench.client.refused["orders", 1] = InvalidReplicationAssignmentError
    result = bench.begin()
    assert (result.exit_code, bench.labels, bench.client.ongoing) == (1, set(), {})
    assert bench.replicas == [[101, 102], [102, 101]]
    assert result.stdout.splitlines()[-2:] == [
        "refused: orders-1: InvalidReplicationAssignmentError",
        "the reassignment was refused: nothing of it is left",
    ]


def test_what_cannot_be_taken_back_is_named(bench: Bench) -> None:
    """orders-0 shall only lose a replica, which is done at once."""
    bench.file.write_text(MOVE.replace("[101, 104]", "[101]"))
    bench.client.refused["orders", 1] = InvalidReplicationAssignmentError
    result = bench.begin()
    assert (result.exit_code, bench.labels, bench.replicas) == (1, set(), [[101], [102, 101]])
    assert (
        "the reassignment was refused: what is left:\n  orders-0: in place already, where it stays\n" in result.stdout
    )


def test_what_became_of_a_request_without_an_answer_is_not_known(bench: Bench) -> None:
    bench.client.errors["alter_partition_reassignments"] = KafkaTimeoutError("15 s")
    result = bench.begin()
    assert (result.exit_code, bench.labels) == (3, all_at())
    assert f"what became of it is not known:\ngo on with it: throttle-sidecar move --resume {LABEL}" in result.stdout
    bench.client.errors.clear()
    bench.events = {bench.now + 2: bench.client.complete}
    assert bench.move("--resume", LABEL).exit_code == 0
    assert (bench.labels, bench.replicas) == (set(), [[101, 104], [102, 104]])


@pytest.mark.parametrize("method", ["alter_partition_reassignments", "list_partition_reassignments"])
def test_brokers_before_2_4_are_told_apart(bench: Bench, method: str) -> None:
    bench.client.errors[method] = IncompatibleBrokerVersion("v0")
    result = bench.begin()
    assert result.exit_code == 3
    assert "needs brokers of 2.4 or later (KIP-455)" in result.stderr


def test_a_dead_sidecar_keeps_the_move_from_beginning_and_is_named(bench: Bench, tmp_path: Path) -> None:
    urls = {broker: each.url for broker, each in bench.sidecars.items()} | {104: "http://127.0.0.1:1"}
    bench.fleet = fleet_file(tmp_path, urls)
    result = bench.begin()
    assert (result.exit_code, bench.labels, bench.client.ongoing) == (3, set(), {})
    assert "not every broker of the move has its throttle: nothing is started: what is left:\n" in result.stdout
    assert "  not known: broker 104: http://127.0.0.1:1: no answer" in result.stdout


def test_a_broker_without_a_sidecar_is_named_before_anybody_is_asked(bench: Bench, tmp_path: Path) -> None:
    bench.fleet = fleet_file(tmp_path, {101: bench.sidecars[101].url, 104: bench.sidecars[104].url})
    result = bench.begin()
    assert (result.exit_code, bench.labels, bench.client.ongoing) == (4, set(), {})
    assert "broker 102 of the move: no sidecar is named for it" in result.stderr


def test_a_sidecar_that_answers_nonsense_is_one_that_does_not_answer(
    bench: Bench, tmp_path: Path, fake: FakeSidecar
) -> None:
    bench.begin_and_leave()
    fake.content = b'{"broker": 104, "overrides": [{"label": 5}]}'
    bench.fleet = fleet_file(tmp_path, {101: bench.sidecars[101].url, 104: fake.url})
    result = bench.move("--resume", "no-such")
    assert (result.exit_code, "/overrides: the answer is not a sidecar's" in result.stderr) == (4, True)


def test_with_a_sidecar_that_died_meanwhile_it_is_not_called_clean(bench: Bench, tmp_path: Path) -> None:
    bench.begin_and_leave()
    urls = {broker: each.url for broker, each in bench.sidecars.items()}
    bench.fleet = fleet_file(tmp_path, urls | {104: "http://127.0.0.1:1"})
    bench.events = {bench.now + 2: bench.client.complete}
    result = bench.move("--resume", LABEL)
    assert (result.exit_code, bench.labels) == (3, {(104, LABEL)}), result.output
    assert "not known: broker 104: http://127.0.0.1:1: no answer" in result.stdout
    assert "nothing is left behind" not in result.stdout
    assert result.stdout.splitlines()[-1].startswith(f"again: throttle-sidecar move --resume {LABEL} ")
    result = bench.move("--cancel", LABEL)
    assert result.exit_code == 4  # nobody who answers knows the label
    assert "http://127.0.0.1:1: no answer" in result.stderr
    bench.fleet = fleet_file(tmp_path, urls)
    result = bench.move("--resume", LABEL)
    assert (result.exit_code, bench.labels) == (0, set()), result.output


def test_a_broker_that_is_away_for_a_while_does_not_end_the_watching(bench: Bench) -> None:
    away = KafkaError("broker 104 is not available")
    bench.events = {
        102.0: lambda: bench.client.errors.update(describe_topics=away),
        105.0: bench.client.complete,
        107.0: bench.client.errors.clear,
    }
    result = bench.begin()
    assert (result.exit_code, bench.labels) == (0, set()), result.output
    assert "describing topics: KafkaError: broker 104 is not available: asking again" in result.stderr


def test_a_broker_that_died_is_named_while_it_is_waited_for(bench: Bench) -> None:
    bench.events = {102.0: lambda: bench.client.brokers.remove(104), 105.0: bench.client.complete}
    result = bench.begin()
    # It is in place, and never came back to say what it is throttled by itself.
    assert (result.exit_code, bench.labels) == (3, set()), result.output
    assert "not known: broker 104 does not answer; throttles of the brokers' own may be left there" in result.stdout
    assert result.stdout.splitlines()[-1].startswith(f"again: throttle-sidecar verify {bench.file} ")
    assert "16.00 MiB left; broker 104: not in the cluster now; the throttle ends" in result.stderr


def test_a_throttle_that_somebody_undid_is_missed_and_set_again(bench: Bench, sidecar: Sidecar) -> None:
    def undo() -> None:
        assert sidecar("undo", "--label", LABEL, "--fleet", bench.fleet).exit_code == 0

    bench.events, bench.interrupts_at = {102.0: undo}, 104.0
    result = bench.begin()
    assert "brokers 101-102, 104: without the throttle of this move; set it again: " in result.stderr
    bench.interrupts_at = None
    result = bench.move("--resume", LABEL)
    assert (result.exit_code, "labels there are: none at all" in result.stderr) == (4, True)
    result = bench.move("--resume", LABEL, bench.file)
    assert (result.exit_code, "no sidecar has a rate of this move: name one" in result.stderr) == (4, True)
    bench.events = {bench.now + 2: lambda: None, bench.now + 3: bench.client.complete}
    result = bench.move("--resume", LABEL, bench.file, "--rate", "3MiB/s")
    assert (result.exit_code, bench.labels) == (0, set()), result.output


def test_a_move_that_somebody_cancelled_is_not_begun_again(bench: Bench) -> None:
    def cancel() -> None:
        Cluster(bench.client).reassign(dict.fromkeys(BEFORE))

    bench.events = {102.0: cancel}
    result = bench.begin()
    assert (result.exit_code, bench.labels, bench.client.ongoing) == (1, all_at(), {})
    assert "orders-0, orders-1: no longer under way, as after a cancellation by somebody else" in result.stdout
    assert bench.move("--cancel", LABEL).exit_code == 0
    assert bench.labels == set()


def test_what_is_in_place_stays_when_the_rest_is_cancelled(bench: Bench) -> None:
    bench.begin_and_leave()
    rest = bench.client.ongoing.pop(("orders", 1))
    bench.client.complete()
    bench.client.ongoing["orders", 1] = rest
    result = bench.move("--cancel", LABEL)
    assert (result.exit_code, bench.labels, bench.replicas) == (0, set(), [[101, 104], [102, 101]]), result.output
    assert result.stdout.splitlines()[-3:] == [
        "orders-1: with the replicas that they had",
        "  orders-0: in place already, where it stays",
        f"{LABEL}: taken back, and nothing of its throttle is left",
    ]


def test_kafkas_own_throttle_is_named_and_the_move_of_another_is_left_alone(bench: Bench) -> None:
    bench.client.configs["broker", "101", LEADER_RATE] = ("5000", "DYNAMIC_BROKER_CONFIG")
    bench.events = {103.0: bench.client.complete}
    result = bench.begin()
    assert result.exit_code == 0, result.output
    named = f"Kafka's own throttle is set, and the lower rate holds: broker 101: {LEADER_RATE} = 5000"
    assert named in result.stdout.splitlines()
    assert bench.client.configs  # by somebody else, as far as lists tell


def test_a_move_that_is_in_place_needs_nothing(bench: Bench) -> None:
    bench.file.write_text(MOVE.replace("[101, 104]", "[101, 102]").replace("[102, 104]", "[102, 101]"))
    result = bench.begin()
    assert (result.exit_code, bench.labels) == (0, set())
    assert result.stdout.splitlines()[-1] == "done, and nothing is left behind"


def test_without_consent_nothing_is_changed(bench: Bench, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    where = (bench.file, "--bootstrap", "a:9092", "--fleet", bench.fleet, "--rate", "4MiB/s")
    result = sidecar("move", *where)
    assert (result.exit_code, "--yes" in result.stderr) == (2, True)
    monkeypatch.setattr(move_command, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    monkeypatch.setattr(move_command.click, "confirm", lambda *_, **__: False)
    result = sidecar("move", *where)
    assert (result.exit_code, bench.labels, bench.client.ongoing) == (1, set(), {})
    assert result.stdout.splitlines()[-1] == "nothing is changed"


def test_what_is_asked_names_what_will_be_done(bench: Bench, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    """With names as they are: "Start orders-0" was asked of Orders-0."""
    asked: list[str] = []
    bench.client.partitions = {("Orders", n): found for (_, n), found in BEFORE.items()}
    bench.file.write_text(MOVE.replace("orders", "Orders"))
    monkeypatch.setattr(move_command, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    monkeypatch.setattr(move_command.click, "confirm", lambda text, **_: asked.append(text) or True)
    where = ("--bootstrap", "a:9092", "--fleet", bench.fleet)
    bench.interrupts_at = bench.now
    sidecar("move", *where, bench.file, "--rate", "4MiB/s", "--label", "m")
    Cluster(bench.client).reassign({("Orders", 1): None})
    sidecar("move", *where, "--resume", "m", "--rate", "5MiB/s")
    sidecar("move", *where, "--cancel", "m")
    assert asked == [
        "Throttle and start this move, as m?",
        "Throttle it at brokers 101-102, 104 and start Orders-1?",
        "Cancel the reassignment of Orders-0, Orders-1 and undo the throttle at brokers 101-102, 104?",
    ]
    assert (bench.labels, bench.client.ongoing) == (set(), {})


def test_json_has_the_plan_and_the_end_in_one_object(bench: Bench) -> None:
    bench.events = {103.0: bench.client.complete}
    found = json.loads(bench.begin("--json").stdout)
    assert (found["label"], found["outcome"], found["complete"]) == (LABEL, "finished", True)
    assert (found["plan"]["move_bytes"], found["verification"]["clean"]) == (16 * MIB, True)
    assert len(found["verification"]["removed"]) == 3
    assert found["resume"].startswith(f"throttle-sidecar move --resume {LABEL} ")


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["{file}"], 2, "expected --rate or --within"),
        ([], 2, "expected REASSIGNMENT.json, --resume or --cancel"),
        (["--resume", "a", "--cancel", "a"], 2, "expected --resume or --cancel, not both"),
        (["--cancel", "a", "--rate", "1MiB/s"], 2, "--cancel needs no rate"),
        (["--resume", "a", "--label", "b"], 2, "--label names a new move"),
        (["{file}", "--rate", "unlimited"], 2, "--rate: expected a limit"),
        (["{file}.gone", "--rate", "1MiB/s"], 4, "move.json.gone: cannot be read"),
        (["{file}", "--rate", "1MiB/s", "--fleet", "{file}"], 4, "move.json: "),
    ],
)
def test_wrong_input_is_said(bench: Bench, arguments: list[str], code: int, problem: str) -> None:
    result = bench.move(*[argument.format(file=bench.file) for argument in arguments])
    assert (result.exit_code, problem in result.stderr) == (code, True), result.output


def test_disks_and_files_of_another_move_are_refused(bench: Bench) -> None:
    bench.begin_and_leave()
    bench.file.write_text(MOVE.replace("[101, 104]", "[101, 103]"))
    result = bench.move("--resume", LABEL, bench.file)
    assert (result.exit_code, f"is not the reassignment of {LABEL}: leave it out" in result.stderr) == (4, True)
    bench.file.write_text(MOVE.replace("]}", '],"log_dirs":["any","/b"]}', 1))
    result = bench.begin()
    assert (result.exit_code, "log_dirs: move leaves disks alone" in result.stderr) == (4, True)

"""``move`` between real overrides of three sidecars and a cluster in memory, in time that a test lets pass."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from operating.client.kafka_python import KafkaError
from operating.commands import move as move_command
from operating.moves.cluster import Cluster
from tests.operating.commands.move_bench import (
    BEFORE,
    LABEL,
    LEADER_RATE,
    MIB,
    MOVE,
    SIZES,
    Bench,
    Killed,
    all_at,
    opened,
)
from tests.operating.fleet.sidecars import fleet_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    Sidecar = Callable[..., Result]


@pytest.fixture
def bench(tmp_path: Path, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with opened(tmp_path, sidecar, monkeypatch) as made:
        yield made


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


def test_a_move_that_was_throttled_step_by_step_goes_on_with_its_file(bench: Bench, sidecar: Sidecar) -> None:
    assert sidecar("set", LEADER_RATE, "5MiB/s", "--label", LABEL, "--fleet", bench.fleet).exit_code == 0
    result = bench.move("--resume", LABEL)
    assert (result.exit_code, "do not keep its reassignment: name its file as well" in result.stderr) == (4, True)
    bench.events = {bench.now + 2: bench.complete}
    result = bench.move("--resume", LABEL, bench.file)
    assert (result.exit_code, bench.labels, bench.throttled) == (0, set(), [all_at()] * 2), result.output
    assert bench.replicas == [[101, 104], [102, 104]]


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


def test_a_broker_that_does_not_know_the_topic_yet_does_not_end_the_watching(bench: Bench) -> None:
    """As one that has just started; ten seconds later it is believed."""
    known = dict(bench.client.partitions)
    bench.events = {
        102.0: lambda: (known.update(bench.client.partitions), bench.client.partitions.clear()),
        107.0: lambda: bench.client.partitions.update(known),
        109.0: bench.client.complete,
    }
    result = bench.begin()
    assert (result.exit_code, bench.labels) == (0, set()), result.output
    bench.client.partitions, bench.client.ongoing = dict(BEFORE), {}
    bench.events = {bench.now + 2: bench.client.partitions.clear}
    result = bench.begin()
    assert (result.exit_code, bench.labels) == (1, all_at()), result.output
    assert "orders-0, orders-1: no such partition\nthis command ends: what is left:\n" in result.stdout


def test_what_is_in_place_stays_when_the_rest_is_cancelled(bench: Bench) -> None:
    bench.begin_and_leave()
    rest = bench.client.ongoing.pop(("orders", 1))
    bench.client.complete()
    bench.client.ongoing["orders", 1] = rest
    result = bench.move("--cancel", LABEL)
    assert (result.exit_code, bench.labels, bench.replicas) == (0, set(), [[101, 104], [102, 101]]), result.output
    assert f"  undo     throttle-sidecar undo --label {LABEL} --fleet {bench.fleet}" in result.stdout.splitlines()
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

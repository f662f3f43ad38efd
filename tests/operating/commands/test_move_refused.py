"""What ``move`` refuses, and what is left of what the cluster or a sidecar refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from operating.client.kafka_python import IncompatibleBrokerVersion, KafkaTimeoutError, for_code
from operating.commands import move as move_command
from tests.operating.commands.move_bench import (
    LABEL,
    MOVE,
    Bench,
    all_at,
    opened,
)
from tests.operating.fleet.sidecars import fleet_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    from tests.proxy.fake_sidecar import FakeSidecar

    Sidecar = Callable[..., Result]


InvalidReplicationAssignmentError = for_code(39)


@pytest.fixture
def bench(tmp_path: Path, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with opened(tmp_path, sidecar, monkeypatch) as made:
        yield made


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


def test_without_consent_nothing_is_changed(bench: Bench, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> None:
    where = (bench.file, "--bootstrap", "a:9092", "--fleet", bench.fleet, "--rate", "4MiB/s")
    result = sidecar("move", *where)
    assert (result.exit_code, "--yes" in result.stderr) == (2, True)
    monkeypatch.setattr(move_command, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    monkeypatch.setattr(move_command.click, "confirm", lambda *_, **__: False)
    result = sidecar("move", *where)
    assert (result.exit_code, bench.labels, bench.client.ongoing) == (1, set(), {})
    assert result.stdout.splitlines()[-1] == "nothing is changed"


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

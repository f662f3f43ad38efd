"""What ``move --cancel`` says of a throttle that is still of use, or that may come back."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from tests.operating.commands.move_bench import LABEL, Bench, all_at, opened
from tests.operating.fleet.sidecars import fleet_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    Sidecar = Callable[..., Result]


@pytest.fixture
def bench(tmp_path: Path, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with opened(tmp_path, sidecar, monkeypatch) as made:
        made.begin_and_leave()
        yield made


def leave_behind(bench: Bench) -> None:
    """Let orders-0 be on its new replicas, with 104 out of sync."""
    rest = bench.client.ongoing.pop(("orders", 1))
    bench.client.complete()
    bench.client.ongoing["orders", 1] = rest
    bench.client.partitions["orders", 0] = (101, [101, 104], [101])


@pytest.mark.parametrize(
    ("is_away", "stage"),
    [
        (False, "in place, but not in sync"),
        (True, "in place, but not in sync, and its broker does not answer"),
    ],
)
def test_a_replica_that_catches_up_keeps_its_throttle(bench: Bench, is_away: bool, stage: str) -> None:
    """It was "taken back, and nothing of its throttle is left", and caught up unthrottled."""
    leave_behind(bench)
    if is_away:
        bench.client.brokers.remove(104)
    result = bench.move("--cancel", LABEL)
    assert (result.exit_code, bench.labels, bench.client.ongoing) == (1, all_at(), {}), result.output
    lines = result.stdout.splitlines()
    assert f"  orders-0: {stage}" in lines
    undo = f"throttle-sidecar undo --label {LABEL} --fleet {bench.fleet}"
    cancel = f"throttle-sidecar move --cancel {LABEL} --bootstrap a:9092 --fleet {bench.fleet}"
    assert lines[-2:] == [
        f"the throttle stays while it is of use; to end it all the same: {undo}",
        f"not taken back as a whole; again: {cancel}",
    ]


def test_it_is_taken_back_once_all_are_in_sync(bench: Bench) -> None:
    leave_behind(bench)
    assert bench.move("--cancel", LABEL).exit_code == 1
    bench.client.partitions["orders", 0] = (101, [101, 104], [101, 104])
    result = bench.move("--cancel", LABEL)
    assert (result.exit_code, bench.labels) == (0, set()), result.output
    assert "  orders-0: in place already, where it stays" in result.stdout.splitlines()


def test_a_throttle_that_a_restart_may_bring_back_is_not_taken_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    result = bench.move("--cancel", LABEL)
    assert (result.exit_code, bench.labels) == (1, set()), result.output
    lines = result.stdout.splitlines()
    assert sum("a restart may bring back what was undone, until this is stored: " in line for line in lines) == 3
    assert lines[-1].startswith("not taken back as a whole; again: throttle-sidecar verify ")
    assert not lines[-1].endswith(("--remove", " "))


def test_where_a_sidecar_was_not_asked_it_is_not_taken_back(bench: Bench, tmp_path: Path) -> None:
    bench.fleet = fleet_file(tmp_path, {broker: bench.sidecars[broker].url for broker in (101, 102)})
    result = bench.move("--cancel", LABEL)
    assert (result.exit_code, bench.labels) == (3, {(104, LABEL)}), result.output
    assert "  not known: broker 104: no sidecar that was asked answers for it" in result.stdout.splitlines()
    assert "nothing of its throttle is left" not in result.stdout

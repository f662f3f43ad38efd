"""Reading is real (files are small); watching is real where the test is about watching."""

from __future__ import annotations

import math
import statistics
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from proxy.errors import ConfigurationError
from proxy.quotas import load_quotas_file
from proxy.reload import QuotaWatch, ReloadResult
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from pathlib import Path

    from trio.testing import MockClock

EFFECT_SECONDS = 0.25
"""The promise: a change takes effect within this time of the file's."""


def file_of(bytes_per_second: int, *more: str) -> str:
    return "\n".join(["[brokers.1]", f"leader.replication.throttled.rate = {bytes_per_second}", *more])


def write(path: Path, content: str) -> None:
    path.write_text(content)


def remove(path: Path) -> None:
    path.unlink()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "quotas.toml"
    path.write_text(file_of(10))
    return path


@pytest.fixture
def log() -> RecordedLog:
    return RecordedLog()


def open_watch(path: Path, log: RecordedLog) -> QuotaWatch:
    return QuotaWatch.open(path, broker_id=1, log=log)


def test_a_bad_file_at_start_is_an_error(path: Path, log: RecordedLog) -> None:
    path.write_text("x")
    with pytest.raises(ConfigurationError):
        open_watch(path, log)


async def test_the_file_is_in_effect_from_the_start(path: Path, log: RecordedLog) -> None:
    watch = open_watch(path, log)
    assert watch.current.leader.bytes_per_second == 10
    assert watch.statistics.last_reload_successful
    assert watch.statistics.last_success_timestamp_seconds > 0


async def test_a_new_file_replaces_the_quotas_and_wakes_who_waits(path: Path, log: RecordedLog) -> None:
    watch = open_watch(path, log)
    seen = watch.current
    write(path, file_of(20))
    async with trio.open_nursery() as nursery:
        woken: list[float] = []

        async def wait() -> None:
            woken.append((await watch.wait_changed(seen)).leader.bytes_per_second)

        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        outcome = await watch.reload("test")
    assert outcome.result is ReloadResult.CHANGED
    assert outcome.changes["leader_bytes_per_second"] == (10.0, 20.0)
    assert woken == [20.0, 20.0]
    assert log.lines == [
        {
            "level": "info",
            "event": "quotas_reloaded",
            "path": str(path),
            "reason": "test",
            "hash": watch.current.hash,
            "changed": ["hash", "leader_bytes_per_second"],
            "leader_bytes_per_second_before": 10.0,
            "follower_bytes_per_second_before": math.inf,
            "leader_bytes_per_second": 20.0,
            "follower_bytes_per_second": math.inf,
        }
    ]


async def test_a_change_between_two_waits_is_not_missed(path: Path, log: RecordedLog) -> None:
    watch = open_watch(path, log)
    seen = watch.current
    write(path, file_of(20))
    await watch.reload("test")
    assert (await watch.wait_changed(seen)).leader.bytes_per_second == 20


async def test_the_same_content_changes_nothing(path: Path, log: RecordedLog) -> None:
    watch = open_watch(path, log)
    seen = watch.current
    outcome = await watch.reload("test")
    assert outcome.result is ReloadResult.UNCHANGED
    assert watch.current is seen
    assert log.events == []


async def test_lists_and_enforce_are_changes_too(path: Path, log: RecordedLog) -> None:
    watch = open_watch(path, log)
    write(path, file_of(10, 'leader.replication.throttled.replicas = "*"', "[mode]", "enforce = false"))
    outcome = await watch.reload("test")
    assert outcome.changes["leader_replicas"] == ({}, {"*": "*"})
    assert outcome.changes["enforce"] == (True, False)


async def test_a_bad_file_keeps_the_last_good_one_and_is_logged_once(path: Path, log: RecordedLog) -> None:
    watch = open_watch(path, log)
    seen = watch.current
    write(path, file_of(-1))
    first, second = await watch.reload("test"), await watch.reload("test")
    assert first.result is second.result is ReloadResult.FAILED
    assert first.error is not None
    assert first.error.startswith(f"{path}: brokers.1.leader.replication.throttled.rate: expected")
    assert watch.current is seen
    assert not watch.statistics.last_reload_successful
    assert watch.statistics.last_error == first.error
    assert log.events == ["quotas_reload_failed"]

    write(path, file_of(10))
    assert (await watch.reload("test")).result is ReloadResult.UNCHANGED
    assert watch.statistics.last_reload_successful
    assert watch.statistics.last_error is None
    assert log.events == ["quotas_reload_failed", "quotas_reloaded"]
    assert watch.statistics.outcomes == {ReloadResult.FAILED: 2, ReloadResult.UNCHANGED: 1}


async def test_a_file_that_is_gone_keeps_the_last_good_one(path: Path, log: RecordedLog) -> None:
    watch = open_watch(path, log)
    remove(path)
    assert (await watch.reload("test")).result is ReloadResult.FAILED
    assert watch.current.leader.bytes_per_second == 10


async def test_a_change_of_the_file_is_in_effect_in_time(path: Path, log: RecordedLog) -> None:
    watch = open_watch(path, log)
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.run)
            took = []
            # The first change may be seen by the look that opens the watch; it is not measured.
            for rate in (20, 30, 40, 50):
                seen, started = watch.current, trio.current_time()
                write(path, file_of(rate))
                await watch.wait_changed(seen)
                took.append(trio.current_time() - started)
                assert watch.current.leader.bytes_per_second == rate
            nursery.cancel_scope.cancel()
    assert statistics.median(took[1:]) < EFFECT_SECONDS


async def test_a_swapped_configmap_is_in_effect(tmp_path: Path, log: RecordedLog) -> None:
    for version, rate in (("one", 10), ("two", 20)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "quotas.toml").write_text(file_of(rate))
    (tmp_path / "..data").symlink_to("one")
    path = tmp_path / "quotas.toml"
    path.symlink_to("..data/quotas.toml")
    watch = open_watch(path, log)
    seen = watch.current
    with trio.fail_after(5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.run)
            (tmp_path / "..data_tmp").symlink_to("two")
            (tmp_path / "..data_tmp").rename(tmp_path / "..data")
            await watch.wait_changed(seen)
            nursery.cancel_scope.cancel()
    assert watch.current.leader.bytes_per_second == 20


async def test_a_directory_that_is_gone_is_logged_once_and_watched_again(
    tmp_path: Path, log: RecordedLog, autojump_clock: MockClock
) -> None:
    directory = tmp_path / "conf"
    directory.mkdir()
    path = directory / "quotas.toml"
    path.write_text(file_of(10))
    watch = open_watch(path, log)
    path.unlink()
    directory.rmdir()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        await trio.sleep(10)
        nursery.cancel_scope.cancel()
    assert log.events == ["quotas_watch_failed"]
    assert watch.current.leader.bytes_per_second == 10


async def test_an_until_that_passes_changes_the_quotas(
    tmp_path: Path, log: RecordedLog, autojump_clock: MockClock
) -> None:
    start = datetime(2026, 11, 1, tzinfo=UTC)

    def clock() -> datetime:
        return start + timedelta(seconds=trio.current_time() - began)

    began = trio.current_time()
    path = tmp_path / "conf" / "quotas.toml"
    path.parent.mkdir()
    until = (start + timedelta(hours=1)).isoformat()
    path.write_text(f"[brokers.default]\nleader.replication.throttled.rate = 5\n{file_of(10, f'until = {until}')}")
    watch = QuotaWatch(path, load_quotas_file(path), broker_id=1, log=log, clock=clock)
    # Without its directory the file is not watched: the clock does not jump while a thread waits for inotify.
    path.unlink()
    path.parent.rmdir()
    seen = watch.current
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run)
        after = await watch.wait_changed(seen)
        nursery.cancel_scope.cancel()
    assert trio.current_time() - began == pytest.approx(3600, abs=0.1)
    assert (seen.leader.bytes_per_second, after.leader.bytes_per_second) == (10, 5)
    assert after.next_change is None
    assert "quotas_reloaded" in log.events

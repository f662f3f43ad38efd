"""Reading is real (files are small); watching is real where the test is about watching."""

from __future__ import annotations

import errno
import gc
import math
import shutil
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from proxy.errors import ConfigurationError
from proxy.files import watching
from proxy.quota_files import reload
from proxy.quota_files.effective_quotas import WorkedOut, work_out
from proxy.quota_files.quota_file import WrittenQuotas, load_quotas_file, read_quotas_file
from proxy.quota_files.reload import QuotaWatch, ReloadResult
from proxy.quotas import parse_quotas
from tests.proxy.recorded_log import RecordedLog
from tests.uncollected import uncollected

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trio.testing import MockClock

LIMIT_SECONDS = 30


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


async def test_a_change_of_the_file_is_in_effect(path: Path, log: RecordedLog, notified_within: float) -> None:
    watch = open_watch(path, log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.follow_file)
        # The first change may be seen by the look that opens the watch.
        for rate in (20, 30, 40, 50):
            seen = watch.current
            write(path, file_of(rate))
            with trio.fail_after(notified_within):
                await watch.wait_changed(seen)
            assert watch.current.leader.bytes_per_second == rate
        nursery.cancel_scope.cancel()


async def test_what_the_machine_had_no_descriptor_to_read_is_read_soon_again(
    path: Path, log: RecordedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file changed once, while a crowd held all descriptors: nothing tells of it a second time."""
    watch = open_watch(path, log)
    seen, refused = watch.current, []

    def read(file: Path) -> WrittenQuotas:
        if len(refused) < 3:
            refused.append(file)
            unread = ConfigurationError(f"{file}: cannot be read: Too many open files")
            raise unread from OSError(errno.EMFILE, "Too many open files")
        return read_quotas_file(file)

    monkeypatch.setattr(reload, "read_quotas_file", read)
    monkeypatch.setattr(watching, "_RETRY_SECONDS", 0.01)
    write(path, file_of(20))
    with trio.fail_after(LIMIT_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.follow_file)
            await watch.wait_changed(seen)
            nursery.cancel_scope.cancel()
    assert watch.current.leader.bytes_per_second == 20
    assert log.events == ["quotas_reload_failed", "quotas_reloaded"]


async def test_a_bad_file_is_not_read_again_until_it_changes(
    path: Path, log: RecordedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = open_watch(path, log)
    monkeypatch.setattr(watching, "_RETRY_SECONDS", 0.01)
    write(path, "[brokers")
    with trio.fail_after(LIMIT_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.follow_file)
            while not watch.statistics.outcomes[ReloadResult.FAILED]:  # noqa: ASYNC110 - it counts, and tells nobody
                await trio.sleep(0.01)
            await trio.sleep(0.3)
            nursery.cancel_scope.cancel()
    assert watch.statistics.outcomes[ReloadResult.FAILED] == 1


async def test_a_swapped_configmap_is_in_effect(tmp_path: Path, log: RecordedLog) -> None:
    for version, rate in (("one", 10), ("two", 20)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "quotas.toml").write_text(file_of(rate))
    (tmp_path / "..data").symlink_to("one")
    path = tmp_path / "quotas.toml"
    path.symlink_to("..data/quotas.toml")
    watch = open_watch(path, log)
    seen = watch.current
    with trio.fail_after(LIMIT_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.follow_file)
            (tmp_path / "..data_tmp").symlink_to("two")
            (tmp_path / "..data_tmp").rename(tmp_path / "..data")
            await watch.wait_changed(seen)
            nursery.cancel_scope.cancel()
    assert watch.current.leader.bytes_per_second == 20


START = datetime(2026, 11, 1, tzinfo=UTC)
BY_THE_CLOCK = f"""
[brokers.default]
leader.replication.throttled.rate = 5
until = {(START + timedelta(hours=3.5)).isoformat()}
[brokers.1]
leader.replication.throttled.rate = 10
until = {(START + timedelta(hours=1)).isoformat()}
[mode]                       # says what holds anyway: no transition, no line
enforce = true
until = {(START + timedelta(hours=2.5)).isoformat()}
"""


def by_the_clock(tmp_path: Path, log: RecordedLog, clock: Callable[[], datetime]) -> QuotaWatch:
    """Its file is gone with its directory: so it is not watched, and Trio's clock jumps."""
    path = tmp_path / "conf" / "quotas.toml"
    path.parent.mkdir()
    path.write_text(BY_THE_CLOCK)
    quota_file = load_quotas_file(path)
    shutil.rmtree(path.parent)
    return QuotaWatch(path, quota_file, broker_id=1, log=log, clock=clock)


async def test_the_clock_changes_the_quotas_without_a_reload(
    tmp_path: Path, log: RecordedLog, autojump_clock: MockClock
) -> None:
    began = trio.current_time()

    def clock() -> datetime:
        return START + timedelta(seconds=trio.current_time() - began)

    seen: list[tuple[float, float]] = []
    watch = by_the_clock(tmp_path, log, clock)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.follow_clock)
        with trio.move_on_after(4 * 3600):
            quotas = watch.current
            while True:
                rate = quotas.leader.bytes_per_second
                if not seen or seen[-1][1] != rate:
                    seen.append((trio.current_time() - began, rate))
                quotas = await watch.wait_changed(quotas)
        nursery.cancel_scope.cancel()
    assert [rate for _, rate in seen] == [10, 5, math.inf]
    assert [at / 3600 for at, _ in seen] == pytest.approx([0, 1, 3.5], abs=0.001)
    lines = [line for line in log.lines if line["event"] == "quotas_reloaded"]
    assert [(line["reason"], line["leader_bytes_per_second"]) for line in lines] == [
        ("clock", 5),
        ("clock", math.inf),
    ]


async def test_a_clock_that_is_set_back_brings_back_what_held(
    tmp_path: Path, log: RecordedLog, autojump_clock: MockClock
) -> None:
    now = START + timedelta(hours=1, minutes=30)
    watch = by_the_clock(tmp_path, log, lambda: now)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.follow_clock)
        await trio.sleep(1)
        assert watch.current.leader.bytes_per_second == 5
        now = START
        await trio.sleep(31)
        assert watch.current.leader.bytes_per_second == 10
        nursery.cancel_scope.cancel()


def test_what_will_change_is_known_ahead(tmp_path: Path, log: RecordedLog) -> None:
    def upcoming_after(hours: float) -> tuple[datetime, float] | None:
        now = START + timedelta(hours=hours)
        change = by_the_clock(tmp_path, log, lambda: now).upcoming
        return None if change is None else (change.at, change.after.leader.bytes_per_second)

    assert upcoming_after(0) == (START + timedelta(hours=1), 5)
    assert upcoming_after(2) == (START + timedelta(hours=3.5), math.inf)  # not at 02:30, when nothing changes


def test_a_file_without_times_has_nothing_ahead(path: Path, log: RecordedLog) -> None:
    assert open_watch(path, log).upcoming is None


async def test_what_a_long_file_means_is_worked_out_beside_the_loop(path: Path, log: RecordedLog) -> None:
    """50 000 topics took 0.6 s, and nobody was relayed meanwhile. What is pushed in between is not undone by it."""
    threads: list[str] = []

    def noted(*arguments: Any) -> WorkedOut:
        threads.append(threading.current_thread().name)
        return work_out(*arguments)

    topics = "".join(f'[topics.t{n}]\nleader.replication.throttled.replicas = "*"\n' for n in range(2000))
    watch = open_watch(path, log)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reload, "work_out", noted)
        write(path, file_of(20, topics))
        assert (await watch.reload("test")).result is ReloadResult.CHANGED
        for rate in (30, 40):
            write(path, file_of(rate))
            assert (await watch.reload("test")).result is ReloadResult.CHANGED
    assert watch.current.leader.bytes_per_second == 40
    # The second is short, and differs from the long one by 2000 topics.
    assert [name == threading.main_thread().name for name in threads] == [False, False, True]


async def test_quotas_that_change_while_others_are_worked_out_are_compared_anew(path: Path, log: RecordedLog) -> None:
    watch = open_watch(path, log)
    other = parse_quotas(file_of(70).encode())
    done = 0

    def slow(*arguments: Any) -> WorkedOut:
        nonlocal done
        done += 1
        if done == 1:
            trio.from_thread.run_sync(watch._swap, other, work_out(other, 1, watch.current, watch.now()), "test")
        return work_out(*arguments)

    write(path, file_of(20, "#" * 2 * reload.SHORT_BYTES))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reload, "work_out", slow)
        outcome = await watch.reload("test")
    assert outcome.changes["leader_bytes_per_second"] == (70, 20)
    assert done == 2


async def test_a_bad_file_leaves_nothing_in_memory(path: Path, log: RecordedLog) -> None:
    """The whole run of the fuzzer ended at 401 MiB, where a bad file of 50 000 topics left 80 to 190 MB behind."""
    watch = open_watch(path, log)
    topics = [f"topics.t{number}.leader.replication.throttled.replicas = 7" for number in range(1000)]
    with uncollected():
        before = len(gc.get_objects())
        for number in range(3):
            write(path, "\n".join([*topics, f"none.{number} = 1"]))
            assert (await watch.reload("test")).result is ReloadResult.FAILED
        assert len(gc.get_objects()) - before < 500


async def test_an_until_passes_while_the_disk_of_the_file_hangs(
    tmp_path: Path, log: RecordedLog, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reload that waited for the disk kept the clock's changes waiting with it: a quota outlived its `until`."""
    answers = threading.Event()
    monkeypatch.setattr(reload, "read_quotas_file", lambda _: answers.wait(20.0))
    began = trio.current_time()
    watch = by_the_clock(tmp_path, log, lambda: START + timedelta(seconds=trio.current_time() - began))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.reload, "SIGHUP")
        nursery.start_soon(watch.reload, "SIGHUP")
        nursery.start_soon(watch.follow_clock)
        await trio.sleep(3600 + 1)
        rate = watch.current.leader.bytes_per_second
        nursery.cancel_scope.cancel()
    answers.set()
    assert rate == 5


async def test_a_disk_that_hangs_is_said_and_the_file_is_read_once_it_answers(
    path: Path, log: RecordedLog, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looked saw that the last reload had been good, while no edit took effect."""
    answers = threading.Event()

    def hang(found: Path) -> WrittenQuotas:
        answers.wait(20.0)
        return read_quotas_file(found)

    monkeypatch.setattr(reload, "read_quotas_file", hang)
    watch = open_watch(path, log)
    write(path, file_of(20))
    outcomes = [await watch.reload("watch") for _ in range(3)]
    assert {(outcome.result, outcome.may_pass) for outcome in outcomes} == {(ReloadResult.FAILED, True)}
    assert not watch.statistics.last_reload_successful
    assert [line["error"] for line in log.lines] == [f"{path}: cannot be read: no answer within 60 s"]
    answers.set()
    autojump_clock.autojump_threshold = math.inf
    autojump_clock.rate = 1.0
    while (await watch.reload("watch")).result is ReloadResult.FAILED:
        pass
    assert watch.current.leader.bytes_per_second == 20

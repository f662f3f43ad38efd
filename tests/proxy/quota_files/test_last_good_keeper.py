from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from proxy.quota_files.last_good_keeper import LastGoodKeeper
from proxy.quota_files.quota_file import keep_last_good, load_last_good
from proxy.quota_files.reload import QuotaWatch
from tests.proxy.recorded_log import RecordedLog

real_sleep = trio.sleep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "quotas.toml"
    path.write_bytes(b"# first")
    return path


@pytest.fixture
def log() -> RecordedLog:
    return RecordedLog()


def kept(state: Path) -> bytes | None:
    found = load_last_good(state)
    return None if found is None else found.content


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def remove(path: Path) -> None:
    path.unlink()


def make(folder: Path) -> None:
    folder.mkdir()


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(30):
        while not condition():
            await real_sleep(0.01)


async def until_kept(state: Path, content: bytes) -> None:
    await until(lambda: kept(state) == content)


async def test_good_quotas_are_kept_and_bad_ones_are_not(
    path: Path, log: RecordedLog, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.quota_files.last_good_keeper.MIN_PAUSE_SECONDS", 0.0)
    state = path.with_name("state")
    watch = QuotaWatch.open(path, broker_id=1, log=log, state=state)
    keeper = LastGoodKeeper(state, watch, log)
    nursery.start_soon(keeper.run)
    await until(lambda: kept(state) == b"# first")
    write(path, b"# second")
    await watch.reload("test")
    await until(lambda: kept(state) == b"# second")
    await until(lambda: keeper.writes["written"] == 2)  # the file is there a moment before the thread is back
    write(path, b"not good")
    await watch.reload("test")
    await trio.sleep(0.05)
    assert kept(state) == b"# second"
    assert keeper.writes == {"written": 2}
    assert keeper.error is None


async def test_a_place_that_cannot_be_written_costs_a_line_and_never_the_reload(
    path: Path, log: RecordedLog, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.quota_files.last_good_keeper.MIN_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("proxy.quota_files.last_good_keeper.RETRY_SECONDS", 0.01)
    folder = path.with_name("folder")
    state = folder / "state"
    watch = QuotaWatch.open(path, broker_id=1, log=log, state=state)
    keeper = LastGoodKeeper(state, watch, log)
    nursery.start_soon(keeper.run)
    await until(lambda: keeper.writes["failed"] >= 3)
    write(path, b"# second")
    assert (await watch.reload("test")).error is None
    assert [line["event"] for line in log.lines if line["level"] == "warning"] == ["quotas_save_failed"]
    assert keeper.error is not None
    assert str(state) in keeper.error
    make(folder)
    # A try with the first content may still be under way in its thread.
    await until(lambda: keeper.error is None and kept(state) == b"# second")


async def test_a_file_that_never_rests_is_kept_once_in_a_while_and_its_last_content_at_last(
    path: Path, log: RecordedLog, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = path.with_name("state")
    watch = QuotaWatch.open(path, broker_id=1, log=log, state=state)
    keeper = LastGoodKeeper(state, watch, log)
    rest = trio.Event()
    monkeypatch.setattr("proxy.quota_files.last_good_keeper.trio.sleep", lambda _: rest.wait())
    nursery.start_soon(keeper.run)
    await until_kept(state, b"# first")
    for number in range(20):
        write(path, b"# %d" % number)
        await watch.reload("test")
    assert keeper.writes == {"written": 1}
    rest.set()
    await until_kept(state, b"# 19")
    await until(lambda: keeper.writes["written"] > 1)  # as above
    assert keeper.writes["written"] == 2


async def test_with_no_quotas_at_all_nothing_is_kept(path: Path, log: RecordedLog, nursery: trio.Nursery) -> None:
    remove(path)
    state = path.with_name("state")
    watch = QuotaWatch.open(path, broker_id=1, log=log, state=state)
    keeper = LastGoodKeeper(state, watch, log)
    nursery.start_soon(keeper.run)
    await trio.testing.wait_all_tasks_blocked()
    assert keeper.writes == {}
    assert kept(state) is None


async def test_a_disk_that_hangs_is_said_and_written_to_once_it_answers(
    path: Path, log: RecordedLog, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing told that the next start might have no quotas."""
    answers = threading.Event()

    def hang(*arguments: Any) -> bool:
        answers.wait(20.0)
        return keep_last_good(*arguments)

    monkeypatch.setattr("proxy.quota_files.last_good_keeper.keep_last_good", hang)
    monkeypatch.setattr("proxy.quota_files.last_good_keeper.MIN_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr("proxy.quota_files.last_good_keeper.RETRY_SECONDS", 0.01)
    monkeypatch.setattr("proxy.quota_files.last_good_keeper.WRITE_SECONDS", 0.05)
    state = path.with_name("state")
    keeper = LastGoodKeeper(state, QuotaWatch.open(path, broker_id=1, log=log, state=state), log)
    nursery.start_soon(keeper.run)
    await until(lambda: keeper.writes["failed"] >= 3)
    assert keeper.error == f"{state}: cannot be written: no answer within 0.05 s"
    assert log.events == ["quotas_save_failed"]
    answers.set()
    await until(lambda: keeper.error is None)
    assert kept(state) == b"# first"

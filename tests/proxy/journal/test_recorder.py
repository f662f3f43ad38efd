"""The recorder on a clock of its own; its writer's thread and directory are real."""

from __future__ import annotations

import errno
import gzip
import json
import threading
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import trio
import trio.testing

from journal_schema import Kind
from proxy.config.settings import JournalSettings
from proxy.errors import ConfigurationError
from proxy.files import reading
from proxy.journal import recorder
from proxy.journal.recorder import Journal, prepare
from proxy.journal.segments import Segment
from proxy.journal.writer import QUEUED_BATCHES
from proxy.ledger.blocks import Position, TrafficKey
from proxy.threads import NoThreadError
from tests.proxy.recorded_log import RecordedLog

if TYPE_CHECKING:
    from pathlib import Path

    from proxy.journal.writer import Batch

KEY = TrafficKey("follower", "102", "orders", 0, throttled=True, in_sync=False)
WALL = 1_700_000_000.25


def refused(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


class Stage:
    """A journal, the wall clock it sees, and Trio's clock, moved by hand."""

    def __init__(self, folder: Path, clock: trio.testing.MockClock) -> None:
        self.log = RecordedLog()
        self.folder = folder
        self.clock = clock
        self.wall = WALL
        self.journal = Journal(JournalSettings(folder, 600, 1 << 20, 1 << 30), broker=101, log=self.log, wall=self.now)

    def now(self) -> float:
        return self.wall

    async def wait(self, seconds: float) -> None:
        self.wall += seconds
        self.clock.jump(seconds)
        await trio.testing.wait_all_tasks_blocked()

    async def record(self, nursery: trio.Nursery) -> trio.CancelScope:
        """Have the journal record until this scope is cancelled, and then finish."""
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await self.journal.run()
            await self.journal.finish()

        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        return scope

    def fetched(self, size: int) -> None:
        self.journal.ledger.fetched(KEY, Position(1, 9, 0), record_bytes=size, wire_bytes=size, now=trio.current_time())

    def lines(self) -> list[dict[str, Any]]:
        # Ends with what was offered: the thread has been told to, and Trio did not wait for it.
        thread = self.journal._writer._thread
        assert thread is not None
        thread.join(10.0)
        paths = sorted(self.folder.glob("*.ndjson.gz"))
        return [json.loads(line) for path in paths for line in gzip.decompress(path.read_bytes()).splitlines()]


@pytest.fixture
async def stage(tmp_path: Path, mock_clock: trio.testing.MockClock) -> Stage:
    return Stage(tmp_path, mock_clock)


async def test_seconds_are_those_of_the_wall_clock(
    stage: Stage, mock_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    scope = await stage.record(nursery)
    stage.fetched(1)
    await stage.wait(0.5)
    stage.fetched(2)
    await stage.wait(0.5)  # 1_700_000_001.25
    stage.fetched(4)
    stage.journal.event(Kind.RELOAD, outcome="changed")
    await stage.wait(0.75)
    stage.fetched(8)
    scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    traffic = [line for line in stage.lines() if line["kind"] == "traffic"]
    assert [(line["time"], line["tick"], line["second_record_bytes"]) for line in traffic] == [
        (1_700_000_000, 0, [3, 4, 8])
    ]
    (reload,) = [line for line in stage.lines() if line["kind"] == "reload"]
    assert (reload["time"], reload["tick"], reload["outcome"]) == (1_700_000_001, 1, "changed")


async def test_totals_are_reported_with_each_block_and_at_the_end(
    stage: Stage, mock_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    stage.journal.report_totals = lambda: stage.journal.event(Kind.RELOAD, outcome="changed")
    scope = await stage.record(nursery)
    for _ in range(40):
        await stage.wait(1)
    scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    ticks = [line["tick"] for line in stage.lines() if line["kind"] == "reload"]
    assert ticks == [15, 30, 40]


async def test_a_clock_that_is_set_back_is_said_and_ticks_go_on(
    stage: Stage, mock_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    scope = await stage.record(nursery)
    stage.fetched(1)
    stage.wall -= 3600
    await stage.wait(1.0)
    stage.fetched(2)
    await stage.wait(1.0)
    scope.cancel()
    await trio.testing.wait_all_tasks_blocked()
    lines = stage.lines()
    traffic = [(line["time"], line["tick"]) for line in lines if line["kind"] == "traffic"]
    assert traffic == [(1_700_000_000, 0), (1_700_000_001 - 3600, 1)]
    assert [line["seconds"] for line in lines if line["kind"] == "clock"] == [-3600.0]


async def test_a_clock_that_is_set_in_the_second_in_which_a_block_begins_gives_no_tick_two_lines(
    stage: Stage, mock_clock: trio.testing.MockClock
) -> None:
    """They had one identity, by which readers know a line that they read twice, and 14 seconds of traffic were gone."""
    stage.journal._writer.start()
    stage.fetched(1)
    await stage.wait(14.75)  # tick 15 begins
    stage.fetched(2)
    stage.wall -= 3600
    stage.journal._hand_on(trio.current_time())
    stage.fetched(4)
    await stage.wait(5.0)
    stage.fetched(8)
    await stage.journal.finish()
    traffic = [
        (line["time"], line["tick"], sum(line["record_bytes"])) for line in stage.lines() if line["kind"] == "traffic"
    ]
    assert traffic == [(1_700_000_000, 0, 1), (1_700_000_015 - 3600, 15, 14)]


async def test_what_was_dropped_is_said_once_there_is_room(stage: Stage, mock_clock: trio.testing.MockClock) -> None:
    stage.journal.statistics.dropped_by_queue = 5
    stage.journal._writer.start()
    stage.journal.event(Kind.STOP)
    stage.journal._hand_on(trio.current_time() + 1)
    stage.journal.event(Kind.STOP)
    stage.journal._hand_on(trio.current_time() + 2)
    stage.journal._writer.finish(10.0)
    dropped = [line["lines"] for line in stage.lines() if line["kind"] == "dropped"]
    assert dropped == [5]


async def test_what_was_dropped_is_said_in_full_after_a_disk_that_refused_for_long(
    stage: Stage, mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that says so is no news while it is lost itself."""
    writer = stage.journal._writer

    def take(batch: Batch) -> bool:
        writer._take(batch)
        return True

    monkeypatch.setattr(writer, "offer", take)
    with monkeypatch.context() as broken:
        broken.setattr(Segment, "_put", refused)
        for second in range(3):
            stage.journal.event(Kind.STOP)
            stage.journal._hand_on(trio.current_time() + second)
    stage.journal.event(Kind.STOP)
    stage.journal._hand_on(trio.current_time() + 3)
    writer.start()
    writer.finish(10.0)
    said = [line["lines"] for line in stage.lines() if line["kind"] == "dropped"]
    assert said == [stage.journal.statistics.dropped]


async def test_a_disk_that_refuses_is_logged_when_it_begins_and_when_it_ends(
    stage: Stage, mock_clock: trio.testing.MockClock
) -> None:
    for problem in ("disk full", "disk full", None, None):
        stage.journal._writer.problem = problem
        stage.journal._hand_on(trio.current_time())
    assert stage.log.events == ["journal_failed", "journal_resumed"]


async def test_a_disk_that_hangs_is_logged_when_it_begins_and_when_it_ends(
    stage: Stage, mock_clock: trio.testing.MockClock
) -> None:
    """Its error never comes: lines were dropped, and nothing but a counter told of it."""
    for _ in range(QUEUED_BATCHES + 3):  # nobody takes them
        stage.journal.event(Kind.STOP)
        stage.journal._hand_on(trio.current_time())
    assert (stage.log.events, stage.journal.statistics.dropped) == (["journal_failed"], 3)
    assert stage.journal.problem == f"the disk takes nothing: {QUEUED_BATCHES} batches of lines wait for it"
    stage.journal._hand_on(trio.current_time())
    stage.journal._writer.start()
    while stage.journal.problem is not None:
        await trio.lowlevel.checkpoint()
        stage.journal.event(Kind.STOP)
        stage.journal._hand_on(trio.current_time())
    assert stage.log.events == ["journal_failed", "journal_resumed"]
    stage.journal._writer.finish(10.0)


async def test_where_no_thread_is_to_be_had_the_end_is_written_all_the_same(
    stage: Stage, mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_thread(*_: object, **__: object) -> None:
        raise NoThreadError("can't start new thread")

    stage.journal._writer.start()
    monkeypatch.setattr(recorder, "in_thread", no_thread)
    stage.journal.event(Kind.STOP)
    await stage.journal.finish()
    assert [line["kind"] for line in stage.lines()] == ["file_opened", "stop", "file_closed"]


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        (refused, "No space left on device"),
        (lambda *_: 1 / 0, "ZeroDivisionError"),
        (lambda *_: threading.Event().wait(1.0), "the disk has not taken the last lines within 0.1 s"),
    ],
    ids=["full", "a defect", "hangs"],
)
async def test_what_the_disk_does_not_take_at_the_end_is_told(
    stage: Stage, mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch, fails: Any, said: str
) -> None:
    """The end of a process had nobody who looked: the log said stopped, and the file lacked its last seconds."""
    monkeypatch.setattr(recorder, "FINISH_SECONDS", 0.1)
    monkeypatch.setattr(Segment, "_put", fails)
    stage.journal._writer.start()
    stage.journal.event(Kind.STOP)
    await stage.journal.finish()
    (line,) = [line for line in stage.log.lines if line["event"] == "journal_failed"]
    assert said in line["error"]


async def test_a_directory_that_is_removed_is_told_once(stage: Stage, mock_clock: trio.testing.MockClock) -> None:
    stage.journal.statistics.lost_files, stage.journal.statistics.dropped_by_disk = 1, 7
    stage.journal._hand_on(trio.current_time())
    stage.journal._hand_on(trio.current_time())
    assert stage.log.events == ["journal_file_lost"]


def test_a_directory_that_cannot_be_is_an_error_at_start(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("a file")
    with pytest.raises(ConfigurationError, match=r"journal\.directory: cannot write to .*journal: File exists"):
        prepare(JournalSettings(tmp_path / "journal", 1, 1, 1), broker=101)


def test_a_directory_whose_disk_hangs_is_an_error_at_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start waited for as long as it hung, and said nothing."""
    over = threading.Event()
    monkeypatch.setattr(reading, "MAX_SECONDS", 0.05)
    monkeypatch.setattr(reading, "_touch", lambda _: over.wait(20.0))
    with pytest.raises(ConfigurationError, match=r"journal\.directory: .*: cannot be read: no answer within 0\.05 s"):
        prepare(JournalSettings(tmp_path / "journal", 1, 1, 1), broker=101)
    over.set()

"""The writer's thread on a real directory: what is offered is on disk, or counted as dropped."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import time
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from journal_schema import Kind
from proxy.config.settings import JournalSettings
from proxy.journal.encoding import Event, Origin, event
from proxy.journal.segments import Segment, SegmentDirectory
from proxy.journal.writer import QUEUED_BATCHES, Batch, Place, Writer
from proxy.ledger.blocks import Position, TrafficKey
from proxy.ledger.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TIME = 1_700_000_000
AT = Position(1, 9, 0)
RUN = "20261121T082503Z"


def writer(folder: Path, *, every: float = 600.0, at: int = 1 << 20, keep: int = 1 << 30) -> Writer:
    settings = JournalSettings(folder, every, at, keep)
    return Writer(SegmentDirectory(folder, broker=101, run=RUN), Origin(101, RUN), settings)


def batch(tick: int, *, traffic: int = 1, events: list[Event] | None = None) -> Batch:
    ledger = Ledger(0.0)
    ledger.cut(tick)
    for n in range(traffic):
        key = TrafficKey("leader", str(102 + n), "orders", 0, throttled=True, in_sync=False)
        ledger.fetched(key, AT, record_bytes=1000 + tick, wire_bytes=1018 + tick, now=tick + 0.5)
    return Batch(tick, TIME, ledger.cut(tick + 0.9), events or [])


def quota(tick: int, bytes_per_second: float) -> Event:
    return event(
        Kind.QUOTA,
        tick,
        role="leader",
        bytes_per_second=bytes_per_second,
        policy="strict",
        enforce=True,
        selection="*",
        reason="change",
    )


def told(folder: Path) -> list[list[tuple[int, float, str]]]:
    """By file, also where its end is missing: the second, the quota and the reason of each quota line."""
    texts = [zlib.decompressobj(31).decompress(path.read_bytes()) for path in sorted(folder.glob("*.ndjson.gz"))]
    return [
        [(line["tick"], line["bytes_per_second"], line["reason"]) for line in lines if line["kind"] == "quota"]
        for lines in ([json.loads(line) for line in text.splitlines()] for text in texts)
    ]


def write(wanted: Writer, *batches: Batch) -> None:
    wanted.start()
    for one in batches:
        assert wanted.offer(one)
    wanted.finish(10.0)


def files(folder: Path) -> list[list[dict[str, Any]]]:
    paths = sorted(folder.glob("*.ndjson.gz"))
    return [[json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()] for path in paths]


def test_a_file_begins_with_its_name_and_ends_with_the_number_of_its_lines(tmp_path: Path) -> None:
    one = writer(tmp_path)
    write(one, batch(0), batch(1, traffic=3))
    (lines,) = files(tmp_path)
    name = f"journal-101-{RUN}-000001.ndjson.gz"
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert [line["kind"] for line in lines] == ["file_opened", *["traffic"] * 4, "file_closed"]
    assert (lines[0]["file"], lines[-1]["file"], lines[-1]["lines"]) == (name, name, 5)
    assert [line["time"] - TIME for line in lines] == [0, 0, 1, 1, 1, 1]
    assert (one.statistics.lines, one.statistics.dropped) == (4, 0)


def test_files_are_rotated_by_time_and_each_can_be_read_alone(tmp_path: Path) -> None:
    write(writer(tmp_path, every=10), batch(0, events=[quota(0, 5.0)]), batch(9), batch(10), batch(25))
    found = files(tmp_path)
    assert [[line["kind"] for line in lines] for lines in found] == [
        ["file_opened", "traffic", "quota", "traffic", "file_closed"],
        ["file_opened", "quota", "traffic", "file_closed"],
        ["file_opened", "quota", "traffic", "file_closed"],
    ]
    again = found[2][1]
    assert (again["tick"], again["bytes_per_second"], again["reason"]) == (25, 5.0, "file")


def test_a_file_that_does_not_name_cluster_and_rack_ends_once_they_are_known(tmp_path: Path) -> None:
    one = writer(tmp_path)
    one.start()
    assert one.offer(batch(0))
    while one.statistics.lines == 0:
        time.sleep(0.001)
    one.place = Place("Kx2", "b")
    write(one, batch(1), batch(2))
    found = files(tmp_path)
    said = [(lines[0]["cluster"], lines[0]["rack"], lines[-1]["lines"]) for lines in found]
    assert said == [(None, None, 2), ("Kx2", "b", 3)]


def test_a_quota_that_changes_in_the_batch_that_rotates_is_the_last_word_on_it(tmp_path: Path) -> None:
    """The file began with the old quota as of the batch's own second, which is after the change: readers, who order by
    time, took the change back until the next file."""
    changed = [quota(600, 20.0), quota(600, 30.0)]
    write(writer(tmp_path), batch(1, events=[quota(0, 10.0)]), batch(601, events=changed), batch(1300))
    assert told(tmp_path) == [
        [(0, 10.0, "change")],
        [(599, 10.0, "file"), (600, 20.0, "change"), (600, 30.0, "change")],
        [(1300, 30.0, "file")],
    ]


def test_a_quota_that_changes_while_the_queue_is_full_is_told_with_the_next_batch(tmp_path: Path) -> None:
    """Until it changed again, every file said the old one."""
    one = writer(tmp_path)  # not started: a disk that hangs
    one.offer(batch(1, events=[quota(0, 10.0)]))
    assert all(one.offer(batch(tick)) for tick in range(2, QUEUED_BATCHES + 1))
    assert not one.offer(batch(50, traffic=7, events=[quota(48, 4.0), quota(49, 5.0)]))
    assert one.statistics.dropped == 8
    one.start()
    wait_until(lambda: one.statistics.lines == QUEUED_BATCHES + 1)
    write(one, batch(60), batch(700))
    assert told(tmp_path) == [[(0, 10.0, "change"), (49, 5.0, "change")], [(700, 5.0, "file")]]
    assert (one.statistics.dropped, one.statistics.lines) == (8, QUEUED_BATCHES + 4)


def test_a_quota_that_changes_while_the_disk_refuses_is_told_once_it_takes_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = writer(tmp_path)
    one.start()
    one.offer(batch(1, events=[quota(0, 10.0)]))
    wait_until(lambda: one.statistics.lines == 2)
    with monkeypatch.context() as full:
        full.setattr(Segment, "_put", refused(errno.ENOSPC))
        one.offer(batch(50, events=[quota(48, 4.0), quota(49, 5.0)]))
        wait_until(lambda: one.statistics.dropped == 2)
        one.offer(batch(65))
        wait_until(lambda: one.statistics.dropped == 3)
    write(one, batch(80), batch(800))
    assert told(tmp_path) == [
        [(0, 10.0, "change")],
        [(48, 10.0, "file"), (49, 5.0, "change")],
        [(800, 5.0, "file")],
    ]
    assert (one.statistics.dropped, one.statistics.lines) == (3, 5)


def test_files_are_rotated_by_size_and_the_oldest_removed(tmp_path: Path) -> None:
    one = writer(tmp_path, at=500, keep=2000)
    write(one, *(batch(tick, traffic=20) for tick in range(QUEUED_BATCHES)))
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert sum(sizes) <= 2000 + max(sizes)
    assert one.statistics.removed_files > 0
    assert files(tmp_path)[-1][-2]["tick"] == QUEUED_BATCHES - 1


def test_a_queue_that_is_full_drops_and_counts(tmp_path: Path) -> None:
    one = writer(tmp_path)  # not started: a disk that hangs
    assert all(one.offer(batch(tick)) for tick in range(QUEUED_BATCHES))
    assert not one.offer(batch(99, traffic=7))
    assert one.statistics.dropped == 7


def test_a_disk_that_refuses_costs_what_was_offered_meanwhile(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    folder.write_text("not a directory")
    one = writer(folder)
    one.start()
    one.offer(batch(0, traffic=3))
    while one.statistics.dropped < 3:
        time.sleep(0.01)
    assert one.problem is not None
    folder.unlink()
    one.offer(batch(1))
    one.finish(10.0)
    assert (one.problem, one.statistics.dropped, one.statistics.lines) == (None, 3, 1)
    assert [line["kind"] for line in files(folder)[0]] == ["file_opened", "dropped", "traffic", "file_closed"]


def test_lines_of_a_directory_that_is_removed_are_dropped_and_a_new_one_is_begun(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    one = writer(folder)
    one.start()
    one.offer(batch(0, traffic=3, events=[quota(0, 5.0)]))
    while one.statistics.lines < 4:
        time.sleep(0.01)
    shutil.rmtree(folder)
    write(one, batch(1, traffic=2))
    assert (one.statistics.lost_files, one.statistics.dropped, one.statistics.lines) == (1, 4, 6)
    (lines,) = files(folder)
    assert [line["kind"] for line in lines] == ["file_opened", "quota", "dropped", "traffic", "traffic", "file_closed"]


def test_a_file_that_another_sidecar_closes_or_that_is_moved_is_not_lost(tmp_path: Path) -> None:
    one = writer(tmp_path / "journal")
    one.start()
    one.offer(batch(0))
    while one.statistics.lines < 1:
        time.sleep(0.01)
    SegmentDirectory(tmp_path / "journal", broker=101, run="later").prepare()
    (tmp_path / "journal").rename(tmp_path / "moved")
    write(one, batch(1))
    assert (one.statistics.lost_files, one.statistics.dropped) == (0, 0)
    assert [line["kind"] for line in files(tmp_path / "moved")[0]] == ["file_opened", *["traffic"] * 2, "file_closed"]


def test_what_was_offered_is_readable_before_the_file_is_closed(tmp_path: Path) -> None:
    one = writer(tmp_path)
    one.start()
    one.offer(batch(0, traffic=5))
    while one.statistics.lines < 5:
        time.sleep(0.01)
    (path,) = tmp_path.iterdir()
    assert path.name.endswith(".open.ndjson.gz")
    assert zlib.decompressobj(31).decompress(path.read_bytes()).count(b"\n") == 6
    one.finish(10.0)


def test_a_defect_ends_the_thread_and_is_raised_where_it_is_seen(tmp_path: Path) -> None:
    """What no disk refuses: a line without a value. It costs its batch; the next thread goes on in a new file."""
    one = writer(tmp_path)
    one.start()
    one.offer(batch(0)._replace(events=[Event(Kind.QUOTA, 0, ())]))
    assert one._thread is not None
    one._thread.join(10.0)
    with pytest.raises(IndexError):
        one.raise_what_ended_it()
    one.raise_what_ended_it()
    assert (one.problem, one.statistics.dropped) == ("IndexError('tuple index out of range')", 2)
    write(one, batch(1))
    assert (one.problem, one.statistics.lines) == (None, 1)
    *_, last = sorted(tmp_path.iterdir())
    lines = gzip.decompress(last.read_bytes()).splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["file_opened", "dropped", "traffic", "file_closed"]


def test_a_disk_that_becomes_read_only_ends_nothing_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither bytes nor names are taken meanwhile, as when ext4 is remounted after an error of the disk."""
    one = writer(tmp_path)
    one.start()
    one.offer(batch(0))
    wait_until(lambda: one.statistics.lines == 1)
    with monkeypatch.context() as read_only:
        read_only.setattr(Segment, "_put", refused(errno.EROFS))
        read_only.setattr(SegmentDirectory, "close", refused(errno.EROFS))
        one.offer(batch(15))
        wait_until(lambda: one.statistics.dropped == 1)
        one.offer(batch(30))
        wait_until(lambda: one.statistics.dropped == 2)
    one.offer(batch(45))
    one.finish(10.0)
    assert (one.problem, one.statistics.dropped, one.statistics.lines) == (None, 2, 2)
    assert not [path.name for path in tmp_path.iterdir() if ".open." in path.name]


@pytest.mark.parametrize("refuses", ["write", "close"])
def test_a_file_that_is_to_be_closed_on_a_full_disk_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: str
) -> None:
    """By the name of a file that is still written to, readers would take it for one, and `keep` leave it there."""
    one = writer(tmp_path, every=10)
    one.start()
    one.offer(batch(0))
    wait_until(lambda: one.statistics.lines == 1)
    with monkeypatch.context() as full:
        full.setattr(Segment, refuses, refused(errno.ENOSPC))
        one.offer(batch(15))
        wait_until(lambda: one.statistics.dropped == 1)
        # A batch is counted before its file has its name.
        wait_until(lambda: [path.name for path in tmp_path.iterdir()] == [f"journal-101-{RUN}-000001.ndjson.gz"])
    one.offer(batch(30))
    one.finish(10.0)
    assert sorted(path.name[-12:] for path in tmp_path.iterdir()) == ["01.ndjson.gz", "02.ndjson.gz"]


def test_a_full_disk_is_not_filled_with_empty_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = writer(tmp_path)
    one.start()
    with monkeypatch.context() as full:
        full.setattr(Segment, "_put", refused(errno.ENOSPC))
        for tick in range(0, 75, 15):
            one.offer(batch(tick))
        one.finish(10.0)  # a batch is counted before its empty file is gone
        assert one.statistics.dropped == 5
        assert not list(tmp_path.iterdir())
    write(one, batch(75))
    (lines,) = files(tmp_path)
    assert [line["kind"] for line in lines] == ["file_opened", "dropped", "traffic", "file_closed"]


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def refused(number: int) -> Callable[..., None]:
    """What a disk that refuses does, whatever it is asked for."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse

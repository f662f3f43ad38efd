"""The files of a history: whole lines, bounded, and whatever lies there instead is an OSError and no more."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from proxy.history import files
from proxy.history.files import HistoryFile, files_in, read
from proxy.history.records import KEPT, Record, encode

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def line(text: str, at: datetime = NOW) -> bytes:
    return encode([Record(time=at, event="stopped", text=text)])


def texts(folder: Path, since: datetime = NOW - KEPT) -> list[str]:
    return [json.loads(each)["text"] for each in read(folder, 101, since, 10**7).found.lines]


def test_a_torn_line_ends_before_the_next_begins(tmp_path: Path) -> None:
    file = files_in(tmp_path, 101)[0]
    file.append(line("a"), NOW)
    file.path.write_bytes(file.path.read_bytes() + line("b")[:-20])
    file.append(line("c"), NOW)
    assert texts(tmp_path) == ["a", "c"]
    assert read(tmp_path, 101, NOW, 10**6).found.unreadable == 1


def test_both_files_together_keep_to_the_bound_and_the_newest_is_kept(tmp_path: Path) -> None:
    file = HistoryFile(tmp_path / "history-101.jsonl", 10_000)
    for number in range(1000):
        file.append(line(str(number)), NOW + timedelta(seconds=number))
        assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= 10_000
    kept = texts(tmp_path)
    assert kept == [str(number) for number in range(int(kept[0]), 1000)]
    assert len(kept) > 50


def test_what_is_older_than_thirty_days_goes(tmp_path: Path) -> None:
    file = files_in(tmp_path, 101)[0]
    file.append(line("a"), NOW)
    later = NOW + KEPT + timedelta(days=1)
    file.append(line("b", later), later)
    assert (file.old.exists(), texts(tmp_path, later - KEPT)) == (True, ["b"])
    os.utime(file.old, (NOW.timestamp(), NOW.timestamp()))
    file.append(line("c", later), later)
    assert (file.old.exists(), texts(tmp_path, later - KEPT)) == (False, ["b", "c"])


def test_a_disk_that_takes_a_part_keeps_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = files_in(tmp_path, 101)[0]
    file.append(line("a"), NOW)
    write, room = os.write, [30]

    def full(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        taken = write(descriptor, bytes(data[: room[0]]))
        room[0] = 0
        return taken

    monkeypatch.setattr(files.os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        file.append(line("b"), NOW)
    monkeypatch.undo()
    assert file.path.read_bytes() == line("a")


@pytest.mark.parametrize("kind", ["directory", "pipe", "link", "missing directory"])
def test_whatever_lies_there_is_an_error_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    file = files_in(tmp_path / ("none" if kind == "missing directory" else "."), 101)[0]
    if kind == "directory":
        file.path.mkdir()
    elif kind == "pipe":
        os.mkfifo(file.path)
    elif kind == "link":
        file.path.symlink_to("/etc/hostname")
    with pytest.raises(OSError, match=r"directory|expected a file|Too many levels"):
        file.append(line("a"), NOW)
    found = read(tmp_path, 101, NOW, 10**6)
    assert found.found.lines == []
    if kind in ("directory", "pipe"):
        assert "expected a file" in found.problems[0]


def test_a_directory_that_cannot_be_looked_into_is_a_problem_and_not_empty(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    problems = read(tmp_path / "loop", 101, NOW, 10**6).problems
    assert f"{tmp_path}/loop/history-101.jsonl: cannot be read: Too many levels of symbolic links" in problems
    assert read(tmp_path / "none", 101, NOW, 10**6).problems == []


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    for broker in (101, 102):
        files_in(tmp_path, broker)[0].append(line(str(broker)), NOW)
    assert texts(tmp_path) == ["101"]


def test_a_file_is_of_the_directorys_owner(tmp_path: Path) -> None:
    os.chown(tmp_path, 1234, 1235)
    file = files_in(tmp_path, 101)[0]
    file.append(line("a"), NOW)
    found = file.path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1234, 1235, 0o600)

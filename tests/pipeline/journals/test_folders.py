"""Folders of live journals: each file once, and no folder listed in which nothing has changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pipeline.journals.folders import Folders
from pipeline.journals.ingest import CLOSED_FILES


class Disk:
    """As much of `Storage` as lists folders, and how often it did; a clock as coarse as the test wants it."""

    def __init__(self, *, tells: bool = True) -> None:
        self.listed: list[str] = []
        self.clock: dict[str, int] = {}
        self._tells = tells

    def folder_modified(self, path: str) -> int | None:
        return self.clock.get(path, Path(path).stat().st_mtime_ns) if self._tells else None

    def entries(self, path: str) -> tuple[list[str], list[str]]:
        self.listed.append(path)
        found = sorted(Path(path).iterdir()) if Path(path).is_dir() else []
        return [str(one) for one in found if one.is_file()], [str(one) for one in found if one.is_dir()]


def file(folder: Path, name: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.touch()
    return str(path)


def test_each_file_comes_once_however_deep_and_hidden_ones_do_not(tmp_path: Path) -> None:
    disk = Disk()
    folders = Folders(disk, CLOSED_FILES)
    first = [file(tmp_path / "101", "journal-101-1.ndjson.gz"), file(tmp_path / "a" / "b", "journal-102-1.txt.gz")]
    for name in ("journal-101-2.open.ndjson.gz", ".journal-101-3.ndjson.gz.x7", "readme"):
        file(tmp_path / "101", name)
    file(tmp_path / "101" / ".partial", "journal-101-9.ndjson.gz")
    assert folders.fresh([str(tmp_path)]) == sorted(first)
    assert folders.fresh([str(tmp_path)]) == []
    later = [file(tmp_path / "101", "journal-101-2.ndjson.gz"), file(tmp_path / "new", "journal-103-1.ndjson.gz")]
    assert folders.fresh([str(tmp_path)]) == sorted(later)


def test_a_folder_in_which_nothing_changes_is_not_listed_again(tmp_path: Path) -> None:
    disk = Disk()
    folders = Folders(disk, CLOSED_FILES)
    for broker in range(101, 104):
        file(tmp_path / str(broker), "journal-101-1.ndjson.gz")
    for _ in range(2):  # the second finds what came in the same tick of a coarse clock
        folders.fresh([str(tmp_path)])
    disk.listed.clear()
    assert folders.fresh([str(tmp_path)]) == []
    assert disk.listed == []
    new = file(tmp_path / "102", "journal-101-2.ndjson.gz")
    assert folders.fresh([str(tmp_path)]) == [new]
    assert disk.listed == [str(tmp_path / "102")]


def test_one_that_came_in_the_same_tick_after_the_listing_is_found(tmp_path: Path) -> None:
    """As of a file system whose times are seconds."""
    disk = Disk()
    disk.clock[str(tmp_path)] = 7
    folders = Folders(disk, CLOSED_FILES)
    assert folders.fresh([str(tmp_path)]) == []
    late = file(tmp_path, "journal-101-1.ndjson.gz")
    assert folders.fresh([str(tmp_path)]) == [late]


def test_of_a_store_that_does_not_tell_each_folder_is_listed(tmp_path: Path) -> None:
    disk = Disk(tells=False)
    folders = Folders(disk, CLOSED_FILES)
    file(tmp_path, "journal-101-1.ndjson.gz")
    assert [len(folders.fresh([str(tmp_path)])) for _ in range(3)] == [1, 0, 0]
    assert len(disk.listed) == 3


@pytest.mark.parametrize("again", [True, False])
def test_a_folder_that_goes_is_forgotten(tmp_path: Path, *, again: bool) -> None:
    disk = Disk(tells=False)
    folders = Folders(disk, CLOSED_FILES)
    path = file(tmp_path / "101", "journal-101-1.ndjson.gz")
    folders.fresh([str(tmp_path)])
    shutil.rmtree(tmp_path / "101")
    assert folders.fresh([str(tmp_path)]) == []
    if again:
        file(tmp_path / "101", "journal-101-1.ndjson.gz")
    assert folders.fresh([str(tmp_path)]) == ([path] if again else [])

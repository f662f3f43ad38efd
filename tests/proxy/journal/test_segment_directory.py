from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.journal.segments import SegmentDirectory, run_name

if TYPE_CHECKING:
    from pathlib import Path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def shelf(folder: Path, *, broker: int = 101, run: str = "20261121T082503Z") -> SegmentDirectory:
    return SegmentDirectory(folder, broker=broker, run=run)


def test_a_run_is_called_by_its_start() -> None:
    assert run_name(1763713503.7) == "20251121T082503Z"


def test_files_are_numbered_and_never_written_over(tmp_path: Path) -> None:
    one = shelf(tmp_path)
    first = one.next_open()
    assert first.name == "journal-101-20261121T082503Z-000001.open.ndjson.gz"
    first.touch()
    one.close(first)
    assert names(tmp_path) == ["journal-101-20261121T082503Z-000001.ndjson.gz"]
    assert shelf(tmp_path).next_open().name == "journal-101-20261121T082503Z-000002.open.ndjson.gz"


def test_what_a_killed_run_left_is_closed_and_others_are_left_alone(tmp_path: Path) -> None:
    for name in ("journal-101-a-000001.open.ndjson.gz", "journal-1010-a-000001.open.ndjson.gz", "notes.txt"):
        (tmp_path / name).touch()
    shelf(tmp_path).prepare()
    assert names(tmp_path) == [
        "journal-101-a-000001.ndjson.gz",
        "journal-1010-a-000001.open.ndjson.gz",
        "notes.txt",
    ]


def test_the_directory_is_made(tmp_path: Path) -> None:
    shelf(tmp_path / "a" / "b").prepare()
    assert names(tmp_path / "a" / "b") == []


def test_closing_what_somebody_else_closed_changes_nothing(tmp_path: Path) -> None:
    """A sidecar that took over while this one drains."""
    path = tmp_path / "journal-101-a-000001.open.ndjson.gz"
    closed = shelf(tmp_path).closed(path)
    closed.write_bytes(b"whole")
    shelf(tmp_path).close(path)
    assert (names(tmp_path), closed.read_bytes()) == ([closed.name], b"whole")


@pytest.mark.parametrize(
    ("keep_bytes", "left"),
    [
        (400, ["a-000001", "a-000002", "b-000001", "b-000002.open"]),
        (399, ["a-000002", "b-000001", "b-000002.open"]),
        (250, ["b-000001", "b-000002.open"]),
        (0, ["b-000002.open"]),
    ],
)
def test_the_oldest_go_first_and_the_open_one_stays(tmp_path: Path, keep_bytes: int, left: list[str]) -> None:
    for name in ("a-000001", "a-000002", "b-000001", "b-000002.open"):
        (tmp_path / f"journal-101-{name}.ndjson.gz").write_bytes(bytes(100))
    (tmp_path / "journal-102-a-000001.ndjson.gz").write_bytes(bytes(1000))
    removed = shelf(tmp_path).prune(keep_bytes)
    assert names(tmp_path) == [*(f"journal-101-{name}.ndjson.gz" for name in left), "journal-102-a-000001.ndjson.gz"]
    assert removed == 4 - len(left)


def test_a_run_whose_clock_is_set_back_goes_on_with_the_names_of_the_last_one(tmp_path: Path) -> None:
    """By its own start its files were the oldest: the newest ones were removed first."""
    for name in ("20261121T082503Z-000009", "20261121T100000Z-000041", "20261121T100000Z-000042.open", "zoo-000001"):
        (tmp_path / f"journal-101-{name}.ndjson.gz").write_bytes(bytes(100))
    set_back = shelf(tmp_path, run="20200101T000000Z")
    first = set_back.next_open()
    assert first.name == "journal-101-20261121T100000Z-000043.open.ndjson.gz"
    first.write_bytes(bytes(100))
    set_back.close(first)
    set_back.next_open().write_bytes(bytes(100))
    assert set_back.prune(400) == 2
    assert names(tmp_path) == [
        "journal-101-20261121T100000Z-000042.open.ndjson.gz",
        "journal-101-20261121T100000Z-000043.ndjson.gz",
        "journal-101-20261121T100000Z-000044.open.ndjson.gz",
        "journal-101-zoo-000001.ndjson.gz",
    ]


def test_a_number_that_was_removed_is_not_given_again(tmp_path: Path) -> None:
    """A run of the same second began at 1 again, and was the first to be removed."""
    (tmp_path / "journal-101-20261121T082503Z-000007.ndjson.gz").touch()
    assert shelf(tmp_path).next_open().name == "journal-101-20261121T082503Z-000008.open.ndjson.gz"


def test_numbers_of_seven_digits_are_later_than_those_of_six(tmp_path: Path) -> None:
    for name in ("20261121T082503Z-999999", "20261121T082503Z-1000000"):
        (tmp_path / f"journal-101-{name}.ndjson.gz").write_bytes(bytes(100))
    assert shelf(tmp_path).prune(100) == 1
    assert names(tmp_path) == ["journal-101-20261121T082503Z-1000000.ndjson.gz"]
    assert shelf(tmp_path).next_open().name == "journal-101-20261121T082503Z-1000001.open.ndjson.gz"


def test_a_folder_with_the_name_of_a_file_is_no_file(tmp_path: Path) -> None:
    """To remove it failed, and with it every file that was to be begun."""
    (tmp_path / "journal-101-20261121T082503Z-000001.ndjson.gz").mkdir()
    assert shelf(tmp_path).prune(0) == 0

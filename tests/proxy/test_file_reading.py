from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.errors import ConfigurationError
from proxy.file_reading import read_bytes, read_text

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "move.json"
    path.write_bytes(b"\xc3\xa9\r\n")
    assert (read_bytes(path), read_text(path)) == (b"\xc3\xa9\r\n", "\u00e9\r\n")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml: cannot be read: No such file or directory"):
        read_bytes(tmp_path / "nowhere.toml")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: Is a directory"):
        read_text(tmp_path)


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "quotas.toml"
    with path.open("wb") as stream:
        stream.truncate(64 * 2**20 + 1)
    with pytest.raises(ConfigurationError, match="found a larger file"):
        read_bytes(path)


def test_what_is_no_text_is_said(tmp_path: Path) -> None:
    path = tmp_path / "move.json"
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigurationError, match=r"move\.json: cannot be read: .*can't decode byte 0xff"):
        read_text(path)

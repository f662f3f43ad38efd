from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from proxy.errors import ConfigurationError
from proxy.files.reading import read_bytes, read_text


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "move.json"
    path.write_bytes(b"\xc3\xa9\r\n")
    assert (read_bytes(path), read_text(path)) == (b"\xc3\xa9\r\n", "\u00e9\r\n")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml: cannot be read: No such file or directory"):
        read_bytes(tmp_path / "nowhere.toml")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: expected a file, found a directory"):
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


def test_a_pipe_is_not_waited_for_unless_somebody_named_it_on_a_command_line(tmp_path: Path) -> None:
    path = tmp_path / "quotas.toml"
    os.mkfifo(path)
    with pytest.raises(ConfigurationError, match="expected a file, found a named pipe"):
        read_bytes(path)
    writer = threading.Thread(target=path.write_text, args=("[]",))
    writer.start()
    assert read_text(path) == "[]"
    writer.join()


def test_a_device_is_not_read() -> None:
    with pytest.raises(ConfigurationError, match="expected a file, found a device"):
        read_bytes(Path("/dev/zero"))

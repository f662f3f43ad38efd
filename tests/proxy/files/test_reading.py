from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proxy.errors import ConfigurationError
from proxy.files.reading import is_directory, is_there, read_bytes

if TYPE_CHECKING:
    from collections.abc import Callable


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "move.json"
    path.write_bytes(b"\xc3\xa9\r\n")
    assert read_bytes(path) == b"\xc3\xa9\r\n"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml: cannot be read: No such file or directory"):
        read_bytes(tmp_path / "nowhere.toml")


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read: expected a file, found a directory"):
        read_bytes(tmp_path)


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "quotas.toml"
    with path.open("wb") as stream:
        stream.truncate(64 * 2**20 + 1)
    with pytest.raises(ConfigurationError, match="found a larger file"):
        read_bytes(path)


def test_a_pipe_is_not_waited_for_unless_somebody_named_it_on_a_command_line(tmp_path: Path) -> None:
    path = tmp_path / "quotas.toml"
    os.mkfifo(path)
    with pytest.raises(ConfigurationError, match="expected a file, found a named pipe"):
        read_bytes(path)
    writer = threading.Thread(target=path.write_text, args=("[]",))
    writer.start()
    assert read_bytes(path, takes_pipes=True) == b"[]"
    writer.join()


def test_a_device_is_not_read() -> None:
    with pytest.raises(ConfigurationError, match="expected a file, found a device"):
        read_bytes(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("name", "there", "directory"),
    [
        ("file", True, False),
        ("directory", True, True),
        ("to-directory", True, True),
        ("to-nothing", False, False),
        ("none", False, False),
        ("file/none", False, False),
    ],
)
def test_what_is_there_is_told(tmp_path: Path, name: str, there: bool, directory: bool) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    (tmp_path / "to-directory").symlink_to("directory")
    (tmp_path / "to-nothing").symlink_to("none")
    assert (is_there(tmp_path / name), is_directory(tmp_path / name)) == (there, directory)


class OfAnotherUser(type(Path())):
    """As in a directory that another user keeps to themselves; root may look everywhere."""

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))


@pytest.mark.parametrize("ask", [is_there, is_directory])
@pytest.mark.parametrize(
    ("path", "error"),
    [
        (OfAnotherUser("priv/quotas.toml"), "priv/quotas.toml: cannot be read: Permission denied"),
        (Path("q" * 300), "q" * 300 + ": cannot be read: File name too long"),
        (Path("q\0"), r"'q\\x00': cannot be read: .*embedded null"),  # Pythons differ in the rest
    ],
)
def test_where_that_cannot_be_told_it_is_an_error(ask: Callable[[Path], bool], path: Path, error: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{error}"):
        ask(path)

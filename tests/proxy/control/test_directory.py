"""The private directory: created, made private, refused where it is another user's."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from proxy.control.directory import default_directory, prepare_directory, short_path
from proxy.errors import ConfigurationError


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "/run/kafka-throttle-sidecar/101"),
        ({"RUNTIME_DIRECTORY": "/run/throttle"}, "/run/throttle/101"),
        ({"RUNTIME_DIRECTORY": "/run/a:/run/b"}, "/run/a/101"),
        ({"RUNTIME_DIRECTORY": ""}, "/run/kafka-throttle-sidecar/101"),
    ],
)
def test_systemd_names_the_folder(environ: dict[str, str], expected: str) -> None:
    assert default_directory(101, environ) == Path(expected)


def test_it_is_created_private(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "101"
    prepare_directory(directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_an_open_one_of_ours_is_made_private(tmp_path: Path) -> None:
    directory = tmp_path / "101"
    directory.mkdir(mode=0o755)
    prepare_directory(directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_another_users_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "101"
    directory.mkdir()
    os.chown(directory, 65532, 65532)
    with pytest.raises(ConfigurationError, match="found one of user 65532"):
        prepare_directory(directory)


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "101").symlink_to(tmp_path)
    with pytest.raises(ConfigurationError, match="expected a directory, found something else"):
        prepare_directory(tmp_path / "101")


def test_a_long_path_fits_into_an_address(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 200)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener, short_path(folder / "control.sock") as path:
        listener.bind(path)
    assert (folder / "control.sock").is_socket()

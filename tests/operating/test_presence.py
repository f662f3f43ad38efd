"""That no sidecar runs is known only where the kernel refuses both of its addresses."""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from operating.configuration import load_configuration
from operating.presence import why_it_may_run
from proxy.control.directory import control_path

from .another_user import closed, open_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from proxy.config.settings import Settings


def settings(folder: Path, *, directory: Path, http: str = "127.0.0.1:0") -> Settings:
    path = folder / "proxy.toml"
    path.write_text(
        '[broker]\nid = 101\n[ingress]\nlisten = "127.0.0.1:0"\nupstream = "127.0.0.1:1"\n'
        f'[http]\nlisten = "{http}"\n[control]\ndirectory = "{directory}"\n'
    )
    return load_configuration(path)


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    """A socket at control.sock that accepts, and never answers, as of a process that stands still."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(control_path(tmp_path)))
        listener.listen()
        yield listener


@pytest.mark.parametrize("name", ["none", "proxy.toml"], ids=["no directory", "a file in its place"])
def test_where_nothing_has_the_name_none_runs(tmp_path: Path, name: str) -> None:
    assert why_it_may_run(settings(tmp_path, directory=tmp_path / name)) is None


def test_a_socket_that_was_left_behind_is_nobodys(tmp_path: Path, listening: socket.socket) -> None:
    listening.close()
    assert why_it_may_run(settings(tmp_path, directory=tmp_path)) is None


def test_a_sidecar_that_stands_still_may_run(tmp_path: Path, listening: socket.socket) -> None:
    found = why_it_may_run(settings(tmp_path, directory=tmp_path))
    assert found == f"unix:{tmp_path} accepts connections"
    with ExitStack() as waiting:
        for _ in range(200):  # more than the kernel keeps for it
            client = waiting.enter_context(closing(socket.socket(socket.AF_UNIX)))
            client.setblocking(False)
            try:
                client.connect(str(control_path(tmp_path)))
            except BlockingIOError:
                break
        found = why_it_may_run(settings(tmp_path, directory=tmp_path))
    assert found == f"unix:{tmp_path}: Resource temporarily unavailable"


def test_who_listens_for_its_pages_may_be_a_sidecar_without_its_socket(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        found = why_it_may_run(settings(tmp_path, directory=tmp_path / "none", http=address))
    assert found == f"http://{address} accepts connections"
    assert why_it_may_run(settings(tmp_path, directory=tmp_path / "none", http=address)) is None


def test_a_directory_that_this_user_may_not_enter_says_nothing() -> None:
    with open_folder() as folder:
        of = settings(folder, directory=folder / "control")
        (folder / "control").mkdir()
        with closed(folder / "control"):
            assert why_it_may_run(of) == f"unix:{folder}/control: Permission denied"

"""Real files and real inotify: what is waited for comes from the kernel, so time is real and bounded."""

from __future__ import annotations

import errno
import os
import sys
import threading
from typing import TYPE_CHECKING

import pytest
import trio

from proxy.files import watching
from proxy.files.watching import FileWatch, follow
from tests.open_files import open_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIMIT_SECONDS = 30.0
"""Against a test that hangs."""
MAX_SECONDS = 15.0
"""Less than what hangs for 20 s would take, and more than a machine that is busy with other tests adds."""


def edit_in_place(path: Path) -> None:
    path.write_text("new")


def replace_by_rename(path: Path) -> None:
    other = path.with_suffix(".tmp")
    other.write_text("new")
    other.rename(path)


def remove(path: Path) -> None:
    path.unlink()


def remove_and_write_again(path: Path) -> None:
    path.unlink()
    path.write_text("new")


@pytest.mark.parametrize("change", [edit_in_place, replace_by_rename, remove, remove_and_write_again])
async def test_a_change_is_seen(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with trio.fail_after(LIMIT_SECONDS):
        async with FileWatch.open(path) as watch:
            change(path)
            assert await watch.wait_changed()


async def test_a_notifier_that_no_descriptor_is_left_to_load_is_an_error_of_the_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`follow` tries an OSError again every second; an ImportError ended the task, with a traceback in the log."""
    monkeypatch.setitem(sys.modules, "watchfiles._rust_notify", None)
    with pytest.raises(OSError, match="watchfiles"):
        async with FileWatch.open(tmp_path / "file"):
            pass


async def test_a_file_that_appears_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with trio.fail_after(LIMIT_SECONDS):
        async with FileWatch.open(path) as watch:
            path.write_text("new")
            assert await watch.wait_changed()


async def test_neighbours_are_not_our_business(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    woken = False
    with trio.fail_after(LIMIT_SECONDS):
        async with FileWatch.open(path) as watch:
            (tmp_path / "neighbour").write_text("new")
            with trio.move_on_after(0.2):
                await watch.wait_changed()
                woken = True
    assert not woken


async def test_a_configmap_swap_ends_the_watch(tmp_path: Path) -> None:
    """Kubernetes: file -> ..data/file, ..data -> a directory by date; an update renames a new ..data into
    place."""
    mount = tmp_path / "mount"
    for version in ("one", "two"):
        (mount / version).mkdir(parents=True)
        (mount / version / "file").write_text(version)
    (mount / "..data").symlink_to("one")
    (mount / "file").symlink_to("..data/file")
    with trio.fail_after(LIMIT_SECONDS):
        async with FileWatch.open(mount / "file") as watch:
            (mount / "..data_tmp").symlink_to("two")
            (mount / "..data_tmp").rename(mount / "..data")
            assert not await watch.wait_changed()
        async with FileWatch.open(mount / "file") as watch:
            (mount / "two" / "file").write_text("edited")
            assert await watch.wait_changed()


async def test_a_target_elsewhere_is_watched(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "target"
    target.parent.mkdir()
    target.write_text("old")
    (tmp_path / "conf").mkdir()
    link = tmp_path / "conf" / "file"
    link.symlink_to(tmp_path / "conf" / ".." / "elsewhere" / "target")
    with trio.fail_after(LIMIT_SECONDS):
        async with FileWatch.open(link) as watch:
            target.write_text("new")
            assert await watch.wait_changed()


async def test_a_replaced_directory_ends_the_watch(tmp_path: Path) -> None:
    directory = tmp_path / "conf"
    directory.mkdir()
    (directory / "file").write_text("old")
    with trio.fail_after(LIMIT_SECONDS):
        async with FileWatch.open(directory / "file") as watch:
            directory.rename(tmp_path / "aside")
            directory.mkdir()
            assert not await watch.wait_changed()


async def test_a_directory_made_anew_ends_the_watch_although_it_might_have_the_same_inode(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with trio.fail_after(LIMIT_SECONDS):
        async with FileWatch.open(folder / "file") as watch:
            # ext4 gives the number that has just become free to the next file, and that file's to the directory.
            folder.rmdir()
            folder.touch()
            folder.unlink()
            folder.mkdir()
            assert not await watch.wait_changed()
    assert open_directories(folder) == 0


def open_directories(folder: Path) -> int:
    return sum(name == str(folder) for _, name in open_files())


async def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with FileWatch.open(tmp_path / "nowhere" / "file"):
            pass


async def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        async with FileWatch.open(tmp_path / "a"):
            pass


async def test_cancelling_ends_the_thread_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It neither goes on until its next look, nor is it left to itself."""
    monkeypatch.setattr(watching, "_LOOK_AGAIN_MS", 20_000)
    monkeypatch.setattr(watching, "PATIENCE_SECONDS", 20.0)
    async with FileWatch.open(tmp_path / "file") as watch:
        started = trio.current_time()
        with trio.move_on_after(0.05):
            await watch.wait_changed()
    assert trio.current_time() - started < MAX_SECONDS


async def test_a_disk_that_hangs_keeps_nobody_from_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trio waits for a thread that it does not leave to itself: a drain was over, and the process never ended."""
    hangs, answers = threading.Event(), threading.Event()

    def hang(path: Path) -> object:
        hangs.set()
        answers.wait(20.0)
        return route_to(path)

    route_to = watching._route_to
    monkeypatch.setattr(watching, "_LOOK_AGAIN_MS", 20)
    monkeypatch.setattr(watching, "PATIENCE_SECONDS", 0.2)
    path = tmp_path / "file"
    started = trio.current_time()
    async with FileWatch.open(path) as watch, trio.open_nursery() as nursery:
        monkeypatch.setattr(watching, "_route_to", hang)
        nursery.start_soon(watch.wait_changed)
        while not hangs.is_set():  # noqa: ASYNC110 - a thread sets it
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    answers.set()
    assert trio.current_time() - started < MAX_SECONDS


async def test_a_disk_that_hangs_while_the_watch_begins_keeps_nobody_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = threading.Event()
    monkeypatch.setattr(watching, "_route_to", lambda _: answers.wait(20.0))
    started = trio.current_time()
    with trio.move_on_after(0.1):
        async with FileWatch.open(tmp_path / "file"):
            pass
    answers.set()
    assert trio.current_time() - started < MAX_SECONDS


async def test_a_change_of_which_the_kernel_says_nothing_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's edit on NFS, a bind mount of another machine's: inotify tells of neither."""

    class Silent:
        def __enter__(self) -> Silent:
            return self

        def __exit__(self, *_: object) -> None: ...

        def watch(self, _debounce: int, _step: int, _timeout: int, stop: threading.Event) -> str:
            return "stop" if stop.wait(0.02) else "timeout"

    monkeypatch.setattr(watching, "_notify_about", lambda _: Silent())
    path = tmp_path / "file"
    path.write_text("old")
    with trio.fail_after(LIMIT_SECONDS):
        async with FileWatch.open(path) as watch:
            with trio.move_on_after(0.2) as slept:
                await watch.wait_changed()
            assert slept.cancelled_caught
            path.write_text("newer")
            assert await watch.wait_changed()


async def test_what_cannot_be_watched_is_looked_at_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the user's inotify instances are spent the file can be read all the same; it was not read."""

    def no_notifier(_: object) -> object:
        raise OSError("Too many open files (os error 24)")

    monkeypatch.setattr(watching, "_notify_about", no_notifier)
    monkeypatch.setattr(watching, "_RETRY_SECONDS", 0.05)
    path = tmp_path / "file"
    path.write_text("old")
    looked: list[str] = []
    failed: list[OSError] = []

    async def look() -> bool:
        await trio.lowlevel.checkpoint()
        looked.append(path.read_text())
        return False

    with trio.fail_after(LIMIT_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, path, look, failed.append)
            await trio.sleep(0.5)
            before = list(looked)
            path.write_text("newer")
            os.utime(path, ns=(1, 1))
            while looked[-1] != "newer":  # noqa: ASYNC110 - what is waited for is a file
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
    assert before == ["old"]
    assert len(failed) == 1


async def test_a_disk_that_hangs_is_told_and_the_file_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that watches hung with it, and nobody tried to read the file, which would have told."""
    answers = threading.Event()
    hanging = False

    def hang(path: Path) -> object:
        if hanging:
            answers.wait(20.0)
        return route_to(path)

    route_to = watching._route_to
    monkeypatch.setattr(watching, "_LOOK_AGAIN_MS", 20)
    monkeypatch.setattr(watching, "_CHECK_SECONDS", 0.05)
    monkeypatch.setattr(watching, "_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(watching, "_route_to", hang)
    looked: list[bool] = []
    failed: list[OSError] = []

    async def look() -> bool:
        await trio.lowlevel.checkpoint()
        looked.append(hanging)
        return False

    with trio.fail_after(LIMIT_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow, tmp_path / "file", look, failed.append)
            await trio.sleep(0.3)
            hanging = True
            while looked != [False, True]:  # noqa: ASYNC110 - a thread hangs
                await trio.sleep(0.01)
            hanging = False
            answers.set()
            while len(looked) < 3:  # noqa: ASYNC110 - a thread goes on
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
    assert [error.errno for error in failed] == [errno.ETIMEDOUT]

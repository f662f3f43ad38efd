"""What happens to quotas.toml, and to the disk that journals are on."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import trio

from lab.moves.scenes import until

from .scene import QUOTA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .scene import Scene


async def quota_flipped(scene: Scene) -> None:
    """Twenty times a second, between the quota and an eighth of it."""
    for flip in range(100):
        scene.move.write_quota(QUOTA if flip % 2 else QUOTA // 8)
        await trio.sleep(0.05)
    await scene.move.set_quota(QUOTA)


async def quota_zero(scene: Scene) -> None:
    await scene.move.set_quota(0)
    await trio.sleep(12)
    await scene.move.set_quota(QUOTA)


async def quotas_file_spoilt(scene: Scene) -> None:
    """Deleted, cut off, a directory, a named pipe, a gigabyte: the last good quotas stay."""
    for spoil in (_delete, _cut_off, _directory, _named_pipe, _gigabyte):
        for sidecar in (scene.leader, scene.follower):
            spoil(sidecar.quotas_file)
        try:
            await trio.sleep(1.0)
        finally:  # a directory could not be replaced by a rename
            for sidecar in (scene.leader, scene.follower):
                if sidecar.quotas_file.is_dir():
                    sidecar.quotas_file.rmdir()
        await scene.move.set_quota(QUOTA)


def _delete(file: Path) -> None:
    file.unlink()


def _cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def _directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _named_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def _gigabyte(file: Path) -> None:
    file.unlink()
    with file.open("wb") as sparse:
        sparse.truncate(1 << 30)


async def journals_disk_full(scene: Scene) -> None:
    """Until the disk has room again, journals lose lines, and say so."""
    ballast = scene.journals / "ballast"
    before = await trio.to_thread.run_sync(dropped, scene)  # lines may have been lost since the sidecar started
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass

    try:
        await until(lambda: dropped(scene) > before, what="a journal's line is lost", timeout_seconds=60)
    finally:
        ballast.unlink()


def dropped(scene: Scene) -> float:
    """The lines that the journal of the leader's sidecar has lost so far."""
    return sum(scene.leader.metrics()["replication_throttle_journal_dropped_total"].values())


@contextlib.contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[Path]:
    """A file system of its own, which anybody may write to."""
    folder.mkdir()
    mount = shutil.which("mount")
    assert mount is not None
    options = f"size={size_bytes},mode=1777"
    subprocess.run([mount, "-t", "tmpfs", "-o", options, "lab", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)

"""Changes to watched files: directories go, links loop, a FIFO stands where a file stood."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

import trio

from .quota_files import RELOAD_SECONDS, recovered, reload
from .scene import Scene

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..stage.stage import Stage

NOTICED_SECONDS = 1.3
"""A watch looks at the way to the file each second."""
GIBIBYTE = 2**30
TRIES = 20
"""The attempts to remove a directory in which the sidecar may be writing."""


class FileSystem(Scene):
    """Each of the things below, then everything as it was, which must be taken."""

    name: ClassVar[str] = "file-system"
    goes_on: ClassVar[bool] = True
    left_out: ClassVar[frozenset[str]] = frozenset()

    modes: ClassVar[tuple[str, ...]] = ("quotas", "journal")

    async def run(self, stage: Stage) -> None:
        """Run the scene. Raises NotRecoveredError."""
        changes = [one for one in CHANGES if one not in self.left_out] * self.scaled(1)
        for said in changes[self.things :]:
            self.doing = said
            self.things += 1
            CHANGES[said](stage.sidecar.quotas)
            await trio.sleep(NOTICED_SECONDS)
            await reload(stage.sidecar)
            self.doing += ", and then as it was"
            _as_it_was(stage.sidecar.quotas)
            await recovered(stage.sidecar)
        if stage.sidecar.mode.journal:
            self.doing = "the journal's directory is removed"
            shutil.rmtree(stage.sidecar.home / "journal", ignore_errors=True)
            await trio.sleep(RELOAD_SECONDS)


def _clear(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path)


def _as_it_was(quotas: Path) -> None:
    folder = quotas.parent
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    _clear(quotas)


def _replaced(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(quotas: Path) -> None:
        _clear(quotas)
        make(quotas)

    return change


def _folder_replaced(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(quotas: Path) -> None:
        _remove(quotas.parent)
        make(quotas.parent)

    return change


def _remove(folder: Path) -> None:
    """Remove the folder with all that is in it. The sidecar may be writing its last good quotas there; a file that has
    been renamed since it was listed, or has come since, fails one try. Raises OSError if it cannot be removed."""
    for _ in range(TRIES):
        with suppress(OSError):
            shutil.rmtree(folder)
            return
    shutil.rmtree(folder)


def _folder_renamed(name: str) -> Callable[[Path], None]:
    def change(quotas: Path) -> None:
        shutil.rmtree(quotas.parent.with_name(name), ignore_errors=True)
        quotas.parent.rename(quotas.parent.with_name(name))

    return change


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, GIBIBYTE)


def _swapped(quotas: Path) -> None:
    """Rename the directory away, and put another one there at once."""
    quotas.parent.rename(quotas.parent.with_suffix(".old"))
    quotas.parent.mkdir()
    _remove(quotas.parent.with_suffix(".old"))


CHANGES: dict[str, Callable[[Path], None]] = {
    "the file is removed": _clear,
    "the file is a FIFO": _replaced(os.mkfifo),
    "the file is a directory": _replaced(lambda path: path.mkdir()),
    "the file is a dangling link": _replaced(lambda path: path.symlink_to("nowhere")),
    "the file is a link to itself": _replaced(lambda path: path.symlink_to(path.name)),
    "the file is /dev/zero": _replaced(lambda path: path.symlink_to("/dev/zero")),
    "the file is a link to a file below a file": _replaced(lambda path: path.symlink_to("/etc/passwd/x")),
    "the file has a gibibyte": _replaced(_huge),
    "the file may not be read": lambda path: path.chmod(0),
    "the directory is removed": lambda path: _remove(path.parent),
    "the directory is renamed away": _folder_renamed("away"),
    "the directory may not be read": lambda path: path.parent.chmod(0),
    "the directory is another": _swapped,
    "the directory is a file": _folder_replaced(lambda path: path.touch()),
    "the directory is a dangling link": _folder_replaced(lambda path: path.symlink_to("nowhere")),
    "the directory is a link to itself": _folder_replaced(lambda path: path.symlink_to(path.name)),
    "the directory has a name of 255 bytes now": _folder_renamed("n" * 255),
}

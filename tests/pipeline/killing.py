"""A writer of tables that is killed at a moment of one's choice."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pipeline.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator


class KilledError(BaseException):
    """Nothing of ours catches it."""


@contextmanager
def killed_at(moment: str | int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever writes in the block is killed: "stage" is before its moves are listed, a number after so many of them."""
    moved: list[str] = []
    move = Storage.move

    def killed_before_rename(self: Storage, source: str, target: str) -> None:
        if len(moved) == moment:
            self.remove(target)  # the worst moment: the old one is gone, the new one not yet there
            raise KilledError
        moved.append(source)
        move(self, source, target)

    def killed_before_seal(*_: object) -> None:
        raise KilledError

    name, kill = ("write_text", killed_before_seal) if moment == "stage" else ("move", killed_before_rename)
    with monkeypatch.context() as killed:
        killed.setattr(Storage, name, kill)
        with pytest.raises(KilledError):
            yield

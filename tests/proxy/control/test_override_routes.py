"""The page of overrides says whether the present ones would outlast a restart."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import trio

from proxy.control import override_keeper
from proxy.quotas.override import Selector

from .test_override_keeper import Disk, Stage, disk, kept, override, stage, until

if TYPE_CHECKING:
    import pytest

__all__ = ["disk", "kept", "stage"]


async def test_an_undo_that_a_full_disk_does_not_take_is_not_stored(
    kept: Stage, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(override_keeper, "CHECK_SECONDS", 0.02)
    await kept.keeper.add(override("aaaa", "5MiB/s"))
    disk.refuses = True
    applied = await kept.keeper.undo(Selector(id="aaaa"))
    _, page = await kept.ask("GET", "/overrides")
    assert (page["overrides"], page["in_force"], page["not_stored"]) == ([], True, applied.not_stored)
    assert "No space left on device" in page["not_stored"]
    disk.refuses = False
    await until(lambda: kept.keeper.behind is None)
    _, page = await kept.ask("GET", "/overrides")
    assert page["not_stored"] is None


async def test_an_undo_that_is_being_stored_is_not_stored_yet(kept: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    await kept.keeper.add(override("aaaa", "5MiB/s"))
    answers, quick = threading.Event(), os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (answers.wait(10), quick(descriptor)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kept.keeper.undo, Selector(id="aaaa"))
        await until(lambda: not kept.keeper.current)
        _, page = await kept.ask("GET", "/overrides")
        answers.set()
    assert (page["overrides"], page["not_stored"]) == ([], "it is being stored")
    assert kept.keeper.behind is None

"""Overrides at a hand-over: what the disk did not take goes over, and nothing is told twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import trio

from proxy.handover.messages import Begin
from proxy.quota_files.override_store import load, write
from proxy.quotas.override import Selector

from .test_override_keeper import OTHER_RATE, Disk, Stage, disk, kept, override, stage, until

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["disk", "kept", "stage"]


async def test_an_undo_that_could_not_be_stored_goes_over_to_the_next_process(
    kept: Stage, disk: Disk, tmp_path: Path
) -> None:
    """The next process read the store, and put in force again what had been undone."""
    await kept.keeper.add(override("aaaa", "5MiB/s"))
    await kept.keeper.add(override("bbbb", "6MiB/s", key=OTHER_RATE))
    assert kept.keeper.unstored is None
    next_process = Stage(tmp_path)
    disk.full = True
    await kept.keeper.undo(Selector(id="aaaa"))
    begin = Begin({}, unstored=kept.keeper.unstored)
    told = msgspec.msgpack.decode(msgspec.msgpack.encode(begin), type=Begin).unstored
    assert told is not None
    assert next_process.rate == 5 * 2**20, "as the store has it"
    next_process.keeper.inherit(told)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(next_process.keeper.run)
        await until(lambda: next_process.keeper.not_stored is not None)
        assert (next_process.rate, [each.id for each in next_process.keeper.current]) == (20 * 2**20, ["bbbb"])
        disk.full = False
        await until(lambda: [each.id for each in load(kept.store, 101).overrides] == ["bbbb"])
        nursery.cancel_scope.cancel()


async def test_a_process_that_serves_again_keeps_an_undo_that_could_not_be_stored(stage: Stage, disk: Disk) -> None:
    await stage.keeper.add(override("aaaa", "5MiB/s"))
    disk.full = True
    for _ in range(2):  # it serves, and after a hand-over that failed it does so again
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stage.keeper.run)
            if stage.keeper.current:
                await stage.keeper.undo(Selector(id="aaaa"))
            await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        assert stage.rate == 20 * 2**20


async def test_an_end_that_the_next_process_tells_is_told_once(stage: Stage) -> None:
    """The process before has recorded what it stored; the history need not have it twice."""
    told = list[object]()
    stage.keeper._record = lambda _, action, __, effects: told.append((action, effects is None))
    write(stage.store, [override("ffff", 1)])
    await stage.keeper._follow_store()
    assert told == [("set", True)]

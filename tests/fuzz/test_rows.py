"""What has ended or stopped a running sidecar once, sent to one again, a victim beside it: nobody notices.

By the command line and over sockets, as whoever sends it would. Bounds of time are generous: other tests run beside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fuzz.campaign import Campaign, replayed
from fuzz.invariant import MIB, Bounds
from fuzz.rows import http_cases, kafka_cases, quota_cases
from fuzz.scenes import FileSystem, Signals
from fuzz.scenes.file_system import CHANGES
from fuzz.scenes.logs import DeadLog, FullLog
from fuzz.scenes.quota_files import recovered
from fuzz.stage.modes import MODES
from fuzz.stage.stage import Program, open_stage
from lab.sidecars.sidecars import throttle_sidecar_script

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from fuzz.cases.case import Case
    from fuzz.scenes import Scene
from fuzz.stage.stage import Stage

PATIENT = Bounds(stall_seconds=8.0, memory_bytes=300 * MIB)
SIDECAR = Program(throttle_sidecar_script())


async def broken_by_cases(stage: Stage, cases: Iterable[Case]) -> dict[str, str]:
    """What each of them broke, if anything; the sidecar is started anew after that."""
    broken = {}
    for case in cases:
        breach = await replayed(stage, [case], PATIENT, settle_seconds=0.05)
        if breach is not None:
            broken[f"{case.family} {case.number}"] = f"{breach.signature}: {breach.detail[-300:]}"
            await stage.restart()
    return broken


async def broken_by_scene(stage: Stage, scene: Scene, tmp_path: Path) -> list[str]:
    campaign = Campaign(seed=1, bounds=PATIENT, corpus=tmp_path / "corpus", at_once=8, say=print)
    result = await campaign.scene(stage, scene)
    assert result.things > 0
    return [f"{one.breach.signature}, {one.doing}: {one.breach.detail[-300:]}" for one in result.findings]


async def test_fourteen_bytes(tmp_path: Path) -> None:
    """They made an endless loop."""
    async with open_stage(MODES["none"], SIDECAR, tmp_path, control=False) as stage:
        assert await broken_by_cases(stage, kafka_cases()) == {}


async def test_http_requests_that_ended_the_relay(tmp_path: Path) -> None:
    async with open_stage(MODES["none"], SIDECAR, tmp_path, control=False) as stage:
        assert await broken_by_cases(stage, http_cases()) == {}


async def test_quota_files_that_ended_it(tmp_path: Path) -> None:
    """Numbers of thousands of digits, keys of thousands of parts."""
    slow = {"50 000 topics", "200 000 problems", "8 MB of a comment", "100 000 partitions"}
    cases = [case for case in quota_cases() if case.family not in slow]
    async with open_stage(MODES["quotas"], SIDECAR, tmp_path, control=False) as stage:
        assert await broken_by_cases(stage, cases) == {}
        await recovered(stage.sidecar)


class SomeFileSystem(FileSystem):
    """Those that ended a sidecar, or held its reloads for ever, and one that never did."""

    left_out = frozenset(CHANGES) - {
        "the file is a FIFO", "the file is a link to itself", "the directory is removed",
        "the directory is renamed away", "the directory is a dangling link", "the directory is another",
    }  # fmt: skip


async def test_directories_that_go_links_that_loop_and_a_fifo(tmp_path: Path) -> None:
    async with open_stage(MODES["quotas"], SIDECAR, tmp_path, control=False) as stage:
        assert await broken_by_scene(stage, SomeFileSystem(seed=1), tmp_path) == []


@pytest.mark.parametrize("scene", [FullLog, DeadLog, Signals])
async def test_a_log_that_nobody_reads_and_signals(scene: type[Scene], tmp_path: Path) -> None:
    async with open_stage(MODES["none"], SIDECAR, tmp_path, control=False) as stage:
        assert await broken_by_scene(stage, scene(seed=1, size=0.3), tmp_path) == []

"""What has ended or stopped a running sidecar once, sent to one again, a victim beside it: nobody notices.

By the command line and over sockets, as whoever sends it would. Bounds of time are generous: other tests run beside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz.campaign import replayed
from fuzz.invariant import MIB, Bounds
from fuzz.modes import MODES
from fuzz.rows import http_cases, kafka_cases
from fuzz.stage import Program, open_stage
from lab.sidecars import throttle_sidecar_script

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from fuzz.cases import Case
    from fuzz.stage import Stage

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


async def test_fourteen_bytes(tmp_path: Path) -> None:
    """They made an endless loop."""
    async with open_stage(MODES["none"], SIDECAR, tmp_path, control=False) as stage:
        assert await broken_by_cases(stage, kafka_cases()) == {}


async def test_http_requests_that_ended_the_relay(tmp_path: Path) -> None:
    async with open_stage(MODES["none"], SIDECAR, tmp_path, control=False) as stage:
        assert await broken_by_cases(stage, http_cases()) == {}

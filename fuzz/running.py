"""One run: for each mode a stage, on it every family and every scene that was asked for.

Invariant: what was asked for over all modes is what is sent over all modes, as evenly as it divides.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from .campaign import Campaign, Result, replayed
from .cases.http import http_case
from .cases.kafka import answer_case, request_case
from .findings import Finding
from .invariant import Bounds
from .scenes import SCENES, QuotaFiles
from .stage.modes import MODES
from .stage.stage import open_stage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .cases.case import Case
    from .findings import Kept
    from .stage.modes import Mode
    from .stage.stage import Program, Stage

FAMILIES: dict[str, Callable[[int, int], Case]] = {
    "requests": request_case,
    "answers": answer_case,
    "http": http_case,
}
WHOLE = {"requests": 1_000_000, "answers": 1_000_000, "http": 100_000}
WHOLE_QUOTA_FILES = 1000
WHOLE_AT_ONCE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The order of a run: families, scenes, modes and amounts.

    Args:
        seed: everything that is sent follows from it.
        frames: how many of each family, over all modes.
        quota_files: how many, over all modes.
        modes: which.
        scenes: which, in each mode that they are for.
        scene_size: of how long or how many a scene is; 1 is the usual.
        at_once: attackers.
        control: whether another victim is relayed by an idle sidecar; without one nothing can be called slow.
    """

    seed: int
    program: Program
    frames: dict[str, int]
    quota_files: int
    modes: Sequence[str]
    scenes: Sequence[str]
    corpus: Path
    scene_size: float = 1.0
    at_once: int = 24
    control: bool = True
    bounds: Bounds = field(default_factory=Bounds)

    def as_whole(self) -> Order:
        """Return the same with a million requests, a million answers and so on over all modes: of some modes their
        share."""
        share = len(self.modes) / len(MODES)
        frames = {family: round(count * share) for family, count in WHOLE.items()}
        files = round(WHOLE_QUOTA_FILES * share)
        return replace(self, frames=frames, quota_files=files, scenes=(), at_once=WHOLE_AT_ONCE)


async def run(order: Order, say: Callable[[str], None], results: list[Result]) -> None:
    """Carry it out; `say` gets a line of progress now and then, `results` what each family and scene came to, as soon
    as it is over: who is stopped half-way has those."""
    for name in order.modes:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as home:
            async with open_stage(MODES[name], order.program, Path(home), control=order.control) as stage:
                campaign = Campaign(order.seed, order.bounds, order.corpus, order.at_once, say)
                await _on_stage(order, campaign, stage, results)


async def _on_stage(order: Order, campaign: Campaign, stage: Stage, results: list[Result]) -> None:
    mode: Mode = stage.sidecar.mode
    for family, make in FAMILIES.items():
        if frames := -(-order.frames.get(family, 0) // len(order.modes)):
            results.append(await campaign.cases(stage, family, make, frames=frames))
            _progress(campaign, results[-1])
    if count := -(-order.quota_files // len(order.modes)):
        scene = QuotaFiles(order.seed + sum(mode.name.encode()), count=count)
        results.append(await campaign.scene(stage, scene))
        _progress(campaign, results[-1])
    for name in order.scenes:
        if mode.name in SCENES[name].modes:
            results.append(await campaign.scene(stage, SCENES[name](order.seed, order.scene_size)))
            _progress(campaign, results[-1])


def _progress(campaign: Campaign, result: Result) -> None:
    campaign.say(
        f"{result.family} in mode {result.mode}: {result.things} in {result.seconds:.1f} s; the victim's worst fetch "
        f"{result.victim_worst_ms:.0f} ms, the control's {result.control_worst_ms:.0f} ms; "
        f"broken {sum(one.times for one in result.findings)} times"
    )


async def replay(kept: Mapping[Path, Kept], order: Order, say: Callable[[str], None], results: list[Result]) -> None:
    """Send what corpus files hold, each to a sidecar of its own; `results` gets what each came to."""
    for path, (mode, cases) in kept.items():
        with tempfile.TemporaryDirectory(prefix="fuzz-") as home:
            async with open_stage(MODES[mode], order.program, Path(home)) as stage:
                breach = await replayed(stage, cases, order.bounds, settle_seconds=1.0)
        result = Result(path.name, mode, things=len(cases))
        if breach is not None:
            found = Finding(
                path.name, mode, order.seed, breach, tuple(cases), shown_again=True, after_frames=0, after_seconds=0
            )
            result.findings.append(found)
        say(f"{path}: {'nothing is broken' if breach is None else breach.signature}")
        results.append(result)
        await trio.lowlevel.checkpoint()

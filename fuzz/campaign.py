"""Runs attacks on a stage, one family after the other, watches the victim meanwhile, and narrows down what broke it.

After a breach the sidecar is started anew and the attack goes on, so that one run finds more than one thing.
Invariant: the number of cases that were sent, and their order of making, depends on the seed and the sizes alone.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import trio

from lab.errors import LabError

from .cases.case import Door
from .cases.delivery import Attack
from .errors import NotRecoveredError
from .findings import Finding
from .invariant import Bounds, Breach, Broken, Watch
from .scenes.quota_files import reload

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

    from .cases.case import Case
    from .scenes import Scene
    from .stage.stage import Stage

LOOK_SECONDS = 0.1
SETTLE_SECONDS = 0.6
MAX_BREACHES = 6
MAX_TRIED = 60
TRY_STALL_SECONDS = 1.0
NARROWED = (Broken.DIED, Broken.STALLED, Broken.CUT_OFF, Broken.WRONG_BYTES, Broken.DEFECT, Broken.HEALTHZ)
"""The breaches that one case may cause by itself; memory and slowness are the work of many."""


@dataclass(slots=True)
class Result:
    """The result of one family in one mode."""

    family: str
    mode: str
    things: int = 0
    """Hostile requests, answers, files, signals: whatever the family counts."""
    connections: int = 0
    sent_bytes: int = 0
    seconds: float = 0.0
    victim_fetches: int = 0
    victim_p50_ms: float = 0.0
    victim_p99_ms: float = 0.0
    victim_worst_ms: float = 0.0
    control_p99_ms: float = 0.0
    control_worst_ms: float = 0.0
    healthz_worst_ms: float = 0.0
    first_bytes: int = 0
    peak_bytes: int = 0
    last_bytes: int = 0
    sidecar_cpu_seconds: float = 0.0
    ended: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    given_up: bool = False


class _Slowness:
    """The worst of it, and what was going on when it was first seen to be the worst."""

    def __init__(self, watch: Watch, going_on: Callable[[], tuple[tuple[Case, ...], str]]) -> None:
        self.breach: Breach | None = None
        self.cases: tuple[Case, ...] = ()
        self.doing = ""
        self.at = 0.0
        self._watch, self._going_on = watch, going_on

    def look(self) -> None:
        """Note it if it is worse than before."""
        slowest = self._watch.slowest()
        if slowest is not None and (self.breach is None or slowest.detail[:12] != self.breach.detail[:12]):
            self.at = self.at or time.monotonic()
            self.breach = slowest
            self.cases, self.doing = self._going_on()


@dataclass(slots=True)
class Campaign:
    """The state that all families of a run share."""

    seed: int
    bounds: Bounds
    corpus: Path
    at_once: int
    say: Callable[[str], None]

    async def cases(self, stage: Stage, family: str, make: Callable[[int, int], Case], *, frames: int) -> Result:
        """Send cases until so many hostile frames are through."""
        result = Result(family, stage.sidecar.mode.name)
        numbers = _Numbers(self.seed, make, _first_number(stage.sidecar.mode.name), frames)
        began = time.monotonic()
        while not numbers.over:
            attack = Attack(stage.sidecar.ports)
            breach = await self._attacked(stage, attack, numbers, result)
            if breach is not None:
                suspects = attack.suspects(trio.current_time() - breach.seconds_ago)
                await self._found(stage, result, breach, suspects, numbers.frames, time.monotonic() - began)
                if result.given_up:
                    break
        result.seconds = time.monotonic() - began
        return result

    async def scene(self, stage: Stage, scene: Scene) -> Result:
        """Run a scene to its end; one that goes on does so after it broke something."""
        result = Result(scene.name, stage.sidecar.mode.name)
        began = time.monotonic()
        goes_on = True
        while goes_on:
            goes_on = await self._played(stage, scene, result, began) and scene.goes_on and not result.given_up
        result.seconds = time.monotonic() - began
        return result

    async def _played(self, stage: Stage, scene: Scene, result: Result, began: float) -> bool:
        """Play a scene; return whether it broke something."""
        watch, over = Watch(stage, self.bounds), trio.Event()
        failures: list[Breach] = []

        async def act() -> None:
            try:
                await scene.run(stage)
            except (NotRecoveredError, LabError) as error:
                failures.append(Breach(Broken.NOT_RECOVERED, str(error)))
            over.set()

        slow = _Slowness(watch, lambda: ((), scene.doing))
        breach = await self._watched(stage, watch, act, over, slow)
        breach = breach or next(iter(failures), None)
        result.things = scene.things
        _sum_up(result, stage, watch)
        if slow.breach is not None:
            result.findings.append(self._slow_finding(scene.name, result.mode, slow, scene.things, began))
        if breach is None:
            return False
        cases = () if scene.case is None else (scene.case,)
        found = Finding(
            scene.name, result.mode, self.seed, breach, cases, shown_again=False, after_frames=scene.things,
            after_seconds=time.monotonic() - began, doing=scene.doing,
        )  # fmt: skip
        self._keep(result, found)
        await stage.restart()
        return True

    def _keep(self, result: Result, found: Finding) -> None:
        """Keep a finding, once for each signature."""
        known = next((one for one in result.findings if one.breach.signature == found.breach.signature), None)
        if known is None:
            result.findings.append(found)
            self._tell(found, found.save(self.corpus))
        else:
            known.times += 1
        result.given_up = sum(one.times for one in result.findings) >= MAX_BREACHES

    async def _attacked(self, stage: Stage, attack: Attack, numbers: _Numbers, result: Result) -> Breach | None:
        watch, began = Watch(stage, self.bounds), time.monotonic()

        async def act() -> None:
            await attack.run(iter(numbers), at_once=self.at_once, taken=stage.leader.expect)

        slow = _Slowness(watch, lambda: (tuple(attack.suspects(trio.current_time() - LOOK_SECONDS)[:20]), ""))
        breach = await self._watched(stage, watch, act, attack.finished, slow)
        if slow.breach is not None:
            found = self._slow_finding(result.family, result.mode, slow, numbers.frames, began)
            result.findings.append(found)
        result.things += attack.frames
        result.connections += attack.connections
        result.sent_bytes += attack.sent_bytes
        _sum_up(result, stage, watch)
        return breach

    async def _watched(
        self, stage: Stage, watch: Watch, act: Callable[[], Awaitable[None]], over: trio.Event, slow: _Slowness
    ) -> Breach | None:
        """Look at the stage until what is done is over, and a moment more. Returns the first breach, which ends it;
        slowness does not."""
        breach: Breach | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(act)
            left = SETTLE_SECONDS
            while breach is None and (left > 0 or _hesitates(stage)):
                await trio.sleep(LOOK_SECONDS)
                breach = watch.look()
                slow.look()
                left -= LOOK_SECONDS if over.is_set() else 0
            nursery.cancel_scope.cancel()
        return breach

    def _slow_finding(self, family: str, mode: str, slow: _Slowness, things: int, began: float) -> Finding:
        if slow.breach is None:
            raise ValueError("nothing was slow")
        found = Finding(
            family, mode, self.seed, slow.breach, slow.cases, shown_again=False, after_frames=things,
            after_seconds=slow.at - began, doing=slow.doing,
        )  # fmt: skip
        self._tell(found, found.save(self.corpus))
        return found

    async def _found(
        self, stage: Stage, result: Result, breach: Breach, suspects: Sequence[Case], frames: int, seconds: float
    ) -> None:
        known = next((one for one in result.findings if one.breach.signature == breach.signature), None)
        result.given_up = sum(one.times for one in result.findings) + 1 >= MAX_BREACHES
        await stage.restart()
        if known is not None:
            known.times += 1
            return
        culprit = await self._narrowed(stage, suspects) if breach.how in NARROWED else None
        found = Finding(
            result.family, result.mode, self.seed, breach, tuple(suspects[:20]) if culprit is None else (culprit,),
            shown_again=culprit is not None, after_frames=frames, after_seconds=seconds,
        )  # fmt: skip
        result.findings.append(found)
        self._tell(found, found.save(self.corpus))

    async def _narrowed(self, stage: Stage, suspects: Sequence[Case]) -> Case | None:
        """Return the case that by itself breaks the invariant again, and leave a fresh sidecar behind."""
        bounds = replace(self.bounds, stall_seconds=TRY_STALL_SECONDS)
        for case in suspects[:MAX_TRIED]:
            if await replayed(stage, [case], bounds) is not None:
                await stage.restart()
                return case
        return None

    def _tell(self, found: Finding, path: Path) -> None:
        cases = ", ".join(f"{case.family} {case.number}" for case in found.cases[:3])
        self.say(
            f"BROKEN: {found.family} in mode {found.mode}: {found.breach.signature} after {found.after_frames} frames, "
            f"{found.after_seconds:.1f} s; seed {found.seed}, case {cases or found.doing}"
            f"{'' if found.shown_again or not found.cases else ' and others, none of them alone'}; {path}"
        )


async def replayed(
    stage: Stage, cases: Sequence[Case], bounds: Bounds, *, settle_seconds: float = 0.3
) -> Breach | None:
    """Send these cases, one after the other; the first breach they make."""
    watch, attack = Watch(stage, bounds), Attack(stage.sidecar.ports)
    for case in cases:
        if case.door is Door.QUOTAS:
            await stage.sidecar.replace_quotas(case.chunks[0])
            await reload(stage.sidecar)
            continue
        stage.leader.expect(case)
        await attack.deliver(case)
    until = trio.current_time() + settle_seconds
    breach = watch.look()
    while breach is None and (trio.current_time() < until or _hesitates(stage)):
        await trio.sleep(LOOK_SECONDS / 2)
        breach = watch.look()
    return breach


def _hesitates(stage: Stage) -> bool:
    """True if the victim waits longer than it ever should: the outcome is not known yet."""
    return any(observed.pending_us > 300_000 for observed in stage.victim.observed.values())


class _Numbers:
    """Cases in the order of their numbers, until so many frames are in them; goes on where it was left."""

    def __init__(self, seed: int, make: Callable[[int, int], Case], first: int, frames: int) -> None:
        self._seed, self._make, self._next, self._wanted = seed, make, first, frames
        self.frames = 0

    @property
    def over(self) -> bool:
        return self.frames >= self._wanted

    def __iter__(self) -> Iterator[Case]:
        while not self.over:
            case = self._make(self._seed, self._next)
            self._next += 1
            self.frames += case.frames
            yield case


def _first_number(mode: str) -> int:
    """Return the first case number of a mode: each has numbers of its own, so that it meets other cases."""
    return sum(mode.encode()) * 10**6


def _sum_up(result: Result, stage: Stage, watch: Watch) -> None:
    fetches = [stage.victim.observed[name] for name in ("ingress", "egress")]
    others = [stage.control.observed[name] for name in ("ingress", "egress")]
    result.victim_fetches += sum(one.fetches for one in fetches)
    result.victim_p50_ms = max(one.quantile_ms(0.50) for one in fetches)
    result.victim_p99_ms = max(one.quantile_ms(0.99) for one in fetches)
    result.control_p99_ms = max(one.quantile_ms(0.99) for one in others)
    result.victim_worst_ms = max(result.victim_worst_ms, stage.victim.worst_ms())
    result.control_worst_ms = max(result.control_worst_ms, stage.control.worst_ms())
    health = stage.victim.observed["healthz"].worst_by_bucket.values()
    result.healthz_worst_ms = max(result.healthz_worst_ms, *(us / 1000 for us in health), 0.0)
    result.first_bytes = result.first_bytes or watch.first_bytes
    result.peak_bytes = max(result.peak_bytes, watch.peak_bytes)
    result.last_bytes = watch.last_bytes
    for cause, count in watch.ended.items():
        result.ended[cause] = result.ended.get(cause, 0) + count
    for party in (stage.victim, stage.control):
        party.forget()

"""Scenes by the thousand: each drawn from a number, run, judged, and made smaller while it still fails.

Three kinds: `tree` (a tree of rates, nothing goes wrong), `fault` (the same and what can go wrong), `mesh` (brokers
that all fetch from each other, both roles throttled).
"""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from ..proxy.conversation import MIB
from .drawn import Rates, tree
from .faults import ENDS, drawn_faults
from .judges import budget_checks, figures, leaks, waits
from .scene import Fetch, Scene
from .shares import Entity, entities
from .sidecar import SidecarSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KINDS = ("tree", "fault", "mesh")
SECONDS = {"tree": 35.0, "fault": 30.0, "mesh": 20.0}
SETTLED = {"tree": 5.0, "fault": ENDS + 3, "mesh": 5.0}
"""From when on shares count."""
FAIR = 0.85
"""The part of its share that everybody is to have. `__main__` counts those who have less; some are known to."""
LEAST_SHARE = 0.15
"""The part below which a scene fails: who has less starves."""
LONGEST_WAIT = {"tree": 4.0, "fault": 8.0, "mesh": 4.0}
"""Seconds of one answer: held and awaited for 500 ms each, a slow line; the longest fault, twice."""
LATE = 2.0
"""What a window may have beyond the rate, in bursts and batches, where answers are late: the grant of a leader that
stood still, whose own sidecar held it, or whose line is slow comes beside what others were granted meanwhile."""


class Report(NamedTuple):
    kind: str
    seed: int
    complaints: list[str]
    shares: list[Entity]
    faults: Counter[str]
    seconds: float
    trace: str
    excess: float
    """The most that a budget had beyond its rate, in parts of what it may have."""


def drawn(kind: str, seed: int) -> Scene:
    if kind == "mesh":
        return mesh(seed)
    return drawn_faults(tree(seed), seed) if kind == "fault" else tree(seed)


def mesh(seed: int) -> Scene:
    """Draw brokers that fetch from each other, each with quotas of both roles."""
    draw = random.Random(f"mesh {seed}")
    brokers, rate = range(1, draw.randint(3, 6) + 1), draw.choice([0.5, 1, 2]) * MIB
    spec = SidecarSpec(Rates(leader=rate, follower=rate * draw.choice([0.5, 1, 1, 2])).toml)
    fetches = [
        Fetch(
            follower,
            leader,
            topics={"t": draw.randint(1, 6)},
            first=100 * follower,
            one_way_ms=draw.choice([0.5, 0.5, 5, 40]),
            version=draw.choice([3, 12, 17]),
        )
        for follower in brokers
        for leader in brokers
        if follower != leader and draw.random() < 0.7
    ]
    return Scene(dict.fromkeys(brokers, spec), tuple(fetches), seed=seed, cuts=draw.choice([0, 0.3]))


def judged(kind: str, seed: int, scene: Scene, *, least_share: float = LEAST_SHARE) -> Report:
    """Run a scene and have all judges look at it. An error of the world's own is a complaint as well."""
    outcome = scene.run(SECONDS[kind])
    checks = list(budget_checks(outcome))
    is_late = scene.acts or len(scene.sidecars) > 1 or any(fetch.line_rate < math.inf for fetch in scene.fetches)
    late = LATE if is_late else 1.0
    shares = entities(outcome, SETTLED[kind])
    complaints = [
        *outcome.wrong,
        *leaks(outcome),
        *figures(outcome),
        *waits(outcome, LONGEST_WAIT[kind]),
        *(
            f"budget: {each.name} had {each.excess:.0f} bytes beyond its rate in a window, {each.allowed:.0f} allowed"
            for each in checks
            if each.excess > late * each.allowed
        ),
        *(
            f"share: {each.reader} {each.topic} had {each.had:.0f} B/s of {each.share:.0f}, {each.ratio:.2f}"
            for each in shares
            if each.ratio < least_share
        ),
    ]
    excess = max((each.excess / each.allowed for each in checks), default=0.0)
    return Report(kind, seed, complaints, shares, Counter(outcome.ledger.faults), SECONDS[kind], outcome.trace, excess)


def smallest(
    report: Report, scene: Scene, tries: int = 40, *, least_share: float = LEAST_SHARE
) -> tuple[Scene, Report]:
    """Leave out of a scene what can be left out while it fails in the same way: of the same judge."""
    of_judge = report.complaints[0].split(":")[0].split(" of ")[0]

    def fails(smaller: Scene) -> Report | None:
        found = judged(report.kind, report.seed, smaller, least_share=least_share)
        same = [each for each in found.complaints if each.split(":")[0].split(" of ")[0] == of_judge]
        return found._replace(complaints=same) if same else None

    again = True
    while again and tries > 0:
        again = False
        for smaller in _smaller(scene):
            tries -= 1
            found = fails(smaller)
            if found is not None:
                scene, report, again = smaller, found, True
                break
            if tries <= 0:
                break
    return scene, report


def _smaller(scene: Scene) -> Iterator[Scene]:
    if scene.cuts or scene.busy:
        yield scene._replace(cuts=0.0, busy=0.0)
    for place in range(len(scene.acts)):
        yield scene._replace(acts=scene.acts[:place] + scene.acts[place + 1 :])
    if len(scene.fetches) > 1:
        for place in range(len(scene.fetches)):
            yield scene._replace(fetches=scene.fetches[:place] + scene.fetches[place + 1 :])
    if len(scene.sidecars) > 1:
        for left_out in scene.sidecars:
            kept = {each: spec for each, spec in scene.sidecars.items() if each != left_out}
            if all(_is_bounded(fetch, kept) for fetch in scene.fetches):
                yield scene._replace(sidecars=kept)
    yield from _plainer(scene)


def _plainer(scene: Scene) -> Iterator[Scene]:
    for place, fetch in enumerate(scene.fetches):
        for plainer in (
            fetch._replace(jitter_ms=0.0), fetch._replace(one_way_ms=0.5), fetch._replace(version=12),
            fetch._replace(sizes=(16_000,)),
        ):  # fmt: skip
            if plainer != fetch:
                yield scene._replace(fetches=(*scene.fetches[:place], plainer, *scene.fetches[place + 1 :]))


def _is_bounded(fetch: Fetch, sidecars: Mapping[int, SidecarSpec]) -> bool:
    """Tell whether a fetch passes a sidecar; without one, all of its log comes at once."""
    leader, follower = sidecars.get(fetch.leader), sidecars.get(fetch.follower)
    return (leader is not None and leader.ingress) or (follower is not None and follower.egress)

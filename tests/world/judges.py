"""What must hold of every scene, by arithmetic of the world's own; each judge returns what it has to complain of.

bytes     what a reader was sent is the leader's (the fetchers complain themselves, as they read)
budgets   a strict budget's bytes in any window of 100 ms and more: rate * window + burst + a batch of each connection
waits     no answer and no partition waits beyond its bound; nobody starves
leaks     when everybody has left, nothing is held, claimed, reserved or remembered
figures   counters say what the ledger says
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from proxy.roles import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from proxy.quotas.rules import RoleQuota

    from .ledger import Passed
    from .scene import Outcome
    from .sidecar import WorldSidecar

MIN_WINDOW_SECONDS = 0.1
BURST_SECONDS = 0.25
MIN_BURST_BYTES = 2 * 64 * 1024
"""However low the rate, a grant of 64 KiB need not wait for the answer to the last."""
ENTRY_BYTES = 70
"""The most that a partition's entry takes beside its records."""


class Allowance:
    """What a budget allows altogether until a time, where its rate changes now and then."""

    def __init__(self, steps: Sequence[tuple[float, float]]) -> None:
        """`steps`: from when on which rate, the first from 0."""
        self._times = [at for at, _ in steps]
        self._rates = [rate for _, rate in steps]
        self._sums = [0.0]
        for (begin, rate), (end, _) in itertools.pairwise(steps):
            self._sums.append(self._sums[-1] + (0.0 if math.isinf(rate) else rate * (end - begin)))

    def until(self, at: float) -> float:
        place = max(bisect_right(self._times, at) - 1, 0)
        return self._sums[place] + self._rates[place] * (at - self._times[place])

    @property
    def most(self) -> float:
        return max(self._rates)

    def spans(self) -> Iterator[tuple[float, float]]:
        """Return the spans in which there is a bound, without the moments after there was none."""
        begin: float | None = None
        for place, (at, rate) in enumerate(zip(self._times, self._rates, strict=True)):
            if math.isinf(rate):
                if begin is not None:
                    yield begin, at
                begin = None
            elif begin is None:
                begin = at + (UNBOUNDED_SECONDS if place else 0.0)
        if begin is not None:
            yield begin, math.inf


UNBOUNDED_SECONDS = 2.0
"""What was asked for while nothing was bounded has come by then."""


def worst_excess(passed: Sequence[Passed], allowance: Allowance, seconds: float = MIN_WINDOW_SECONDS) -> float:
    """Return what the fullest window has beyond what it may; a shorter one counts as one of so many seconds."""
    total = worst = 0.0
    lowest = math.inf
    before: list[tuple[float, float]] = []  # the time of each, and the bytes before it
    released = 0
    for each in passed:
        before.append((each.at, total))
        total += each.size
        while before[released][0] <= each.at - seconds:
            at, sum_before = before[released]
            lowest = min(lowest, sum_before - allowance.until(at))
            released += 1
        allowed = allowance.until(each.at)
        short = allowed - allowance.until(max(each.at - seconds, 0.0))
        worst = max(worst, total - allowed - lowest, total - before[released][1] - short)
    return worst


class BudgetCheck(NamedTuple):
    name: str
    excess: float
    allowed: float
    """Burst and one batch of each connection."""


def budget_checks(outcome: Outcome) -> Iterator[BudgetCheck]:
    for broker_id, sidecar in outcome.world.sidecars.items():
        if sidecar.spec.policy != "strict":
            continue
        for role in Role:
            if role is Role.LEADER and sidecar.spec.ingress:
                passed = [each for each in outcome.ledger.departures if each.leader == broker_id]
            elif role is Role.FOLLOWER and sidecar.spec.egress:
                passed = [each for each in outcome.ledger.arrivals if each.follower == broker_id]
            else:
                continue
            passed = sorted(each for each in passed if not each.in_sync and each.follower >= 0)
            yield from _checks_of_role(outcome, sidecar, role, passed)


def _checks_of_role(outcome: Outcome, sidecar: WorldSidecar, role: Role, passed: list[Passed]) -> Iterator[BudgetCheck]:
    racks, broker_id = outcome.world.scene.racks, sidecar.broker_id

    def peer(each: Passed) -> int:
        return each.follower if role is Role.LEADER else each.leader

    finer = sidecar.history[0][1].of(role).finer
    checks: list[tuple[str, Callable[[RoleQuota], float], Callable[[Passed], bool]]] = [
        ("", lambda quota: quota.bytes_per_second, lambda _: True),
        *(
            (
                f" rack {n}",
                lambda quota, n=n: quota.finer.racks.get(n, math.inf),
                lambda p, n=n: racks.get(peer(p)) == n,
            )
            for n in finer.racks
        ),
        *(
            (f" peer {n}", lambda quota, n=n: quota.finer.peers.get(n, math.inf), lambda p, n=n: peer(p) == n)
            for n in finer.peers
        ),
        *(
            (f" topic {n}", lambda quota, n=n: quota.finer.topics.get(n, math.inf), lambda p, n=n: p.topic == n)
            for n in finer.topics
        ),
    ]
    for name, rate_of, is_in in checks:
        steps = [
            (at, rate_of(quotas.of(role)) if quotas.enforce and not quotas.of(role).selects_nothing else math.inf)
            for at, quotas in sidecar.history
        ]
        allowance = Allowance(steps)
        own = [each for each in passed if is_in(each)]
        batches = max((max(fetch.sizes) for fetch in outcome.world.scene.fetches), default=0)
        connections = len({each.reader for each in own})
        rates = [rate for _, rate in steps if not math.isinf(rate)]
        allowed = max([BURST_SECONDS * max(rates, default=0.0), MIN_BURST_BYTES]) + connections * batches
        for begin, end in allowance.spans():
            within = [each for each in own if begin <= each.at < end]
            yield BudgetCheck(f"{role.value} of {broker_id}{name}", worst_excess(within, allowance), allowed)


def leaks(outcome: Outcome) -> list[str]:
    return outcome.world.left


def figures(outcome: Outcome) -> list[str]:
    """Compare counters, journal and replicas with the ledger, to the byte where no connection ended in an answer."""
    return [
        f"figures: {role.value} of {sidecar.broker_id} {complaint}"
        for sidecar in outcome.world.sidecars.values()
        for role, passed in _passed_by(outcome, sidecar)
        for complaint in (*_counters(outcome, sidecar, role, passed), *_journal(outcome, sidecar, role, passed))
    ] + [complaint for sidecar in outcome.world.sidecars.values() for complaint in _replicas(outcome, sidecar)]


def _passed_by(outcome: Outcome, sidecar: WorldSidecar) -> Iterator[tuple[Role, list[Passed]]]:
    if sidecar.spec.ingress:
        of_leader = (each for each in outcome.ledger.departures if each.leader == sidecar.broker_id)
        yield Role.LEADER, [each for each in of_leader if each.follower >= 0]
    if sidecar.spec.egress:
        yield Role.FOLLOWER, [each for each in outcome.ledger.arrivals if each.follower == sidecar.broker_id]


def _lost_answers(outcome: Outcome) -> bool:
    return any(fetcher.reconnects for fetcher in outcome.fetchers.values())


def _counters(outcome: Outcome, sidecar: WorldSidecar, role: Role, passed: list[Passed]) -> Iterator[str]:
    if any(quotas.of(role).selects_nothing for _, quotas in sidecar.history):
        return  # what no list selects is not counted
    every = [each.statistics.of(role) for each in (*sidecar.before, sidecar)]
    said = sum(each.throttled_bytes_in_sync + each.throttled_bytes_catching_up for each in every)
    seen = sum(each.size for each in passed)
    most = math.inf if _lost_answers(outcome) else seen + len(passed) * ENTRY_BYTES
    if not seen <= said <= most:
        yield f"counted {said} bytes, {seen} passed in {len(passed)}"
    in_sync = sum(each.throttled_bytes_in_sync for each in every)
    seen_in_sync = sum(each.size for each in passed if each.in_sync)
    # Until its high watermark is known a replica counts as in sync, with what it is granted at first.
    rate = sidecar.quotas.of(role).bytes_per_second
    first = max(BURST_SECONDS * (0.0 if math.isinf(rate) else rate), MIN_BURST_BYTES)
    most = 1.05 * seen_in_sync + len(passed) * ENTRY_BYTES + first * len({each.reader for each in passed})
    if not outcome.world.scene.acts and not 0.95 * seen_in_sync <= in_sync <= most:
        yield f"counted {in_sync} bytes in sync, {seen_in_sync} passed"


def _journal(outcome: Outcome, sidecar: WorldSidecar, role: Role, passed: list[Passed]) -> Iterator[str]:
    written: Counter[tuple[str, int]] = Counter()
    for each in (*sidecar.before, sidecar):
        for line in each.journal_lines:
            if line.link.role == role.value:
                for replica in line.replicas:
                    written[replica.topic, replica.partition] += sum(replica.second_bytes)
    seen: Counter[tuple[str, int]] = Counter()
    for one in passed:
        seen[one.topic, one.key[1]] += one.size
    lost = _lost_answers(outcome)
    wrong = [key for key in seen if written[key] < seen[key] or (written[key] > seen[key] and not lost)]
    if wrong:
        yield f"wrote {written[wrong[0]]} bytes of {wrong[0]} into the journal, {seen[wrong[0]]} passed"


def _replicas(outcome: Outcome, sidecar: WorldSidecar) -> Iterator[str]:
    """Where nothing goes wrong, who is behind for ever is shown as behind, and nobody else."""
    scene = outcome.world.scene
    if scene.acts or sidecar.before:
        return
    for role, stats in sidecar.replica_stats.items():
        is_served = sidecar.spec.ingress if role is Role.LEADER else sidecar.spec.egress
        own = [
            fetch
            for fetch in scene.fetches
            if is_served and (fetch.leader if role is Role.LEADER else fetch.follower) == sidecar.broker_id
        ]
        if all(math.isinf(fetch.backlog) and not fetch.live for fetch in own):
            behind = sum(sum(fetch.topics.values()) * fetch.connections for fetch in own)
            if (stats.behind, stats.in_sync) != (behind, 0):
                told = f"{stats.behind} behind and {stats.in_sync} in sync"
                yield f"figures: {role.value} of {sidecar.broker_id} shows {told} of {behind} behind"


def waits(outcome: Outcome, longest: float) -> list[str]:
    """Return the fetchers of which an answer took longer."""
    return [
        f"{name} waited {fetcher.longest_wait:.1f} s for an answer"
        for name, fetcher in outcome.fetchers.items()
        if fetcher.longest_wait > longest
    ]

"""The exact model: flows between brokers under other quotas, decided by the sidecar's own admission code.

Pure, plain Python. Links that share a budget must be simulated together. Links that share none may be simulated apart
(`components`), and so may scenarios. A *flow* is one follower's connection to one leader with all it has to fetch.

    the follower asks ─▶ follower's budget ─▶ leader's budget ─▶ bytes travel ─▶ leader's, follower's: still within?
    ─▶ both settle ─▶ it asks again

Invariant: bytes are granted, and kept, only by `admission.budget`; here is only who asks when. Nothing is random.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from admission.budget import Kip73Budget, StrictBudget
from admission.budget_path import BudgetPath
from admission.simple_rate import QUOTA_WINDOW_NUM, QUOTA_WINDOW_SIZE_SECONDS
from admission.wishes import Wish

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from admission.turns import BudgetNode

    from ..jobs.inner_rates import Bound

PARTITION_FETCH_BYTES = 1 << 20
"""replica.fetch.max.bytes, Kafka's default."""
RESPONSE_BYTES = 10 << 20
"""replica.fetch.response.max.bytes, Kafka's default."""
WAIT_SECONDS = 0.5
"""replica.fetch.wait.max.ms, Kafka's default."""
NEED_BYTES = 64 * 1024
"""The least that a grant is worth; the sidecar's own beginning."""
ROUND_TRIP_SECONDS = 0.001
MIN_WAIT_SECONDS = 0.002
CLOCK_DIGITS = 6
"""Moments are rounded to so many digits, so that two flows that wait for the same moment really have the same one."""
POLICIES = ("strict", "kip73")

Quotas = dict[tuple[str, str], float]
"""(broker, role) to bytes per second; who is not in it is not throttled."""


class Flow(NamedTuple):
    source: str
    destination: str
    backlog_bytes: float
    partitions: int = 1
    starts: float = 0.0
    arrivals: tuple[float, ...] = ()
    """Bytes written per second meanwhile, from the second in which it starts on; none after its end."""
    batch_bytes: int = 1
    """The size of batches, in which what is stored comes whole: as many as fit, one at least (KIP-74)."""


class Scenario(NamedTuple):
    name: str
    policy: str
    quotas: Quotas
    line_bytes_per_second: float = 125_000_000.0
    """The speed of one link."""
    gate_seconds: float = 0.1
    burst_seconds: float = 0.25
    most_seconds: float = 86_400.0
    """The longest simulated time of each flow, from when it starts."""
    bounds: tuple[Bound, ...] = ()
    """Rates of peers and racks inside the quotas, or without them."""


@dataclass(slots=True)
class Outcome:
    """`finished` per flow: when it first had caught up (None: not within `most_seconds`); `moved` per broker, role and
    second."""

    finished: list[float | None]
    moved: dict[tuple[str, str, int], float] = field(default_factory=lambda: defaultdict(float))


@dataclass(slots=True)
class _Running:
    flow: Flow
    paths: dict[str, BudgetPath]
    """By role the flow's ends that have a quota: the way through the broker's budget and those inside it that concern
    the flow. The follower's end comes first, since a request meets it first."""
    moved: float = 0.0
    grants: dict[str, int] = field(default_factory=dict)
    carries: float = 0.0
    asked: float = 0.0
    """The time at which it asked for what it carries."""
    takes_all: bool = False
    """True if it carries all that there was when it asked: by KIP-73's rule it is in sync."""
    deadline: float = math.inf
    arrived: list[float] = field(default_factory=list)
    """Bytes written before second n."""

    def __post_init__(self) -> None:
        self.arrived = list(accumulate(self.flow.arrivals, initial=0.0))

    def waiting_bytes(self, now: float) -> float:
        arrivals, since = self.flow.arrivals, now - self.flow.starts
        whole = min(int(since), len(arrivals))
        begun = arrivals[whole] * (since - whole) if whole < len(arrivals) else 0.0
        return self.flow.backlog_bytes + self.arrived[whole] + begun - self.moved

    @property
    def limit_bytes(self) -> int:
        return min(self.flow.partitions * PARTITION_FETCH_BYTES, RESPONSE_BYTES)


def simulate(flows: Sequence[Flow], scenario: Scenario) -> Outcome:
    """Run until every flow has caught up and no more is written, or `most_seconds` are over."""
    budgets = {key: _budget(scenario, rate) for key, rate in scenario.quotas.items()}
    for bound in scenario.bounds:
        if (bound.broker, bound.role) not in budgets:
            budgets[bound.broker, bound.role] = _budget(scenario, math.inf)
    inside = [(bound, _budget(scenario, bound.bytes_per_second)) for bound in scenario.bounds]
    running = [_Running(flow, _paths(flow, budgets, inside)) for flow in flows]
    outcome = Outcome([None] * len(flows))
    # If several flows wake at the same moment, the one that has moved least goes first, not always the same one.
    moments = [(flow.starts, 0.0, index) for index, flow in enumerate(flows)]
    heapq.heapify(moments)
    while moments:
        now, _, index = heapq.heappop(moments)
        one = running[index]
        if one.carries:
            _arrive(one, outcome, now)
        if now - one.flow.starts > scenario.most_seconds:
            _stop(one)
            continue
        left = one.waiting_bytes(now)
        if (left < 1 or one.takes_all) and outcome.finished[index] is None:
            outcome.finished[index] = now
        if left < 1 and now - one.flow.starts >= len(one.flow.arrivals):
            continue
        pause = _ask(one, left, scenario, now)
        if not math.isinf(pause):  # a quota of 0: it would ask for ever
            heapq.heappush(moments, (round(now + pause, CLOCK_DIGITS), one.moved, index))
    return outcome


def _budget(scenario: Scenario, rate: float) -> BudgetNode:
    if scenario.policy == "kip73":
        return Kip73Budget(bytes_per_second=rate, samples=QUOTA_WINDOW_NUM, sample_seconds=QUOTA_WINDOW_SIZE_SECONDS)
    return StrictBudget(
        bytes_per_second=rate, gate_seconds=scenario.gate_seconds, burst_seconds=scenario.burst_seconds, now=0.0
    )


def _paths(
    flow: Flow, budgets: Mapping[tuple[str, str], BudgetNode], inside: Sequence[tuple[Bound, BudgetNode]]
) -> dict[str, BudgetPath]:
    paths = {}
    for key in ((flow.destination, "follower"), (flow.source, "leader")):
        if key in budgets:
            own = [
                budget
                for bound, budget in inside
                if (bound.broker, bound.role) == key and bound.holds_for(flow.source, flow.destination)
            ]
            paths[key[1]] = BudgetPath(budgets[key], *own)
    return paths


def _stop(one: _Running) -> None:
    for path in one.paths.values():
        path.want_nothing()


def _ask(one: _Running, left: float, scenario: Scenario, now: float) -> float:
    """Ask both sides; return in how many seconds there is something to see: bytes, or another try."""
    if left < 1:
        _stop(one)
        return WAIT_SECONDS
    if one.deadline < now:
        one.deadline = math.inf
    limit = one.limit_bytes
    for role, path in one.paths.items():
        granted = path.grant([Wish(limit, NEED_BYTES)], now)
        if not granted:
            return _wait(one, path, now)
        one.grants[role] = limit = granted[0]
    one.deadline = math.inf
    batch = one.flow.batch_bytes
    whole = max(limit // batch, 1) * batch
    one.carries, one.takes_all, one.asked = min(whole, left), left <= whole, now
    return ROUND_TRIP_SECONDS + one.carries / scenario.line_bytes_per_second


def _wait(one: _Running, refuses: BudgetPath, now: float) -> float:
    """Hold the fetch until it is its turn, at most as long as a follower waits, and give back what the other side
    granted."""
    if math.isinf(one.deadline):
        one.deadline = now + WAIT_SECONDS
    until_turn = refuses.seconds_until_turn(now)
    turn = now + max(until_turn, MIN_WAIT_SECONDS)
    due = max(min(turn, one.deadline), now + MIN_WAIT_SECONDS)
    refuses.fetcher.wait(due)
    for role, granted in one.grants.items():
        one.paths[role].settle(reserved=granted, used=0, now=now)
    one.grants.clear()
    return math.inf if math.isinf(until_turn) else due - now


def _arrive(one: _Running, outcome: Outcome, now: float) -> None:
    """Bring an answer back, through the leader's side first. If a side is over quota by now it takes the records out,
    and the side behind it never sees them. So of two fetches that were admitted at once under `kip73`, the second one
    brings nothing."""
    size = round(one.carries)
    for role, broker in (("leader", one.flow.source), ("follower", one.flow.destination)):
        if role in one.grants:
            if one.paths[role].must_discard(one.asked, now):
                size, one.takes_all = 0, False
            one.paths[role].settle(reserved=one.grants[role], used=size, now=now)
        if size:
            outcome.moved[broker, role, int(now)] += size
    one.grants.clear()
    one.moved += size
    one.carries = 0.0

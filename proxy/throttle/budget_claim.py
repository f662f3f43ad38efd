"""One connection's place in line for its role's budgets, and what its replicas are granted.

Pure. Knows what replicas wish for and what budgets give, nothing of requests.

Invariant: each grant is settled once, with the bytes of the answer or by being given back.
"""

from __future__ import annotations

import math
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from admission.budget_path import BudgetPath
from admission.wishes import LIMIT
from protocol import work_in_steps

from .peer_latencies import tolerated_rise
from .priority_order import PriorityOrder
from .replica import MIN_NEED_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from admission.shares import Claim
    from admission.wishes import Wish
    from protocol.session.requests import PartitionKey
    from protocol.work_in_steps import Steps

    from .replica import Replica
    from .replicas import Replicas
    from .role_throttle import RoleThrottle


_KEY, _WISH = attrgetter("key"), attrgetter("wish")
MIN_HOLD_SECONDS = 0.002
"""The shortest hold, so that a wait that rounds to nothing cannot become a loop of decisions."""
MIN_FORWARDED_WAIT_MS = 10
"""The shortest max_wait_ms that a leader is asked for, so that an idle link makes at most 100 fetches a second."""
Turn: TypeAlias = "tuple[Iterable[PartitionKey], Iterable[Wish], float | None]"
"""The replicas whose turn it is, in order, what each of them wishes for, and all together
(see `BudgetPath.grant`)."""
NOBODY: Turn = ((), (), 0.0)
MIN_FIXED_BYTES = 160 * 1024
"""The smallest piece under a fixed rate: ten batches of the default size. Each piece costs brokers and sidecars some
work, however small it is. On two cores with nothing to spare, pieces of 64 KiB made followers slower, which called for
small pieces: at 4 MiB/s producers waited 6.6 to 7.0 ms (median), and 9.7 to 10.0 while another process started. With
this they wait 6.2 and 7.3, as with half gates. In the simulated cluster that depends most on it, a leader beside three
that bring little has 0.46 of the quota; 0.28 to 0.34 with 112 to 144 KiB."""
MIN_BYTES = MIN_NEED_BYTES // 4
"""A batch of the default size: 3.3 ms of 5 MB/s. With two, producers' p99 on such a link was up to 17 ms more than
it was to be (simulated, benchmarks/chosen_rates/simulated.py)."""
AIM = 0.4
"""The share of the tolerated rise (`tolerated_rise`: 2 ms, or two fifths of the best pause) by which what was granted
may lengthen the follower's pause before `most_bytes` is lowered."""
GROWTH = 1.1
"""The factor by which `most_bytes` grows with each answer that was in time, if at least half of it was granted: seven
such answers double it."""
MIN_CUT = 0.5
"""The most that two answers in a row that took long, for whatever reason, take away of `most_bytes`: half of it."""
BEST_KEPT_SECONDS = 60.0
"""The period of the best time, which is that of the last one to two such periods: once a route has become slower for
good, its times no longer count as long."""


class BudgetClaim:
    """One link's path through the budgets of its role, and its grants."""

    __slots__ = (
        "_granted_bytes", "_leaves", "_order", "_peer", "_piggyback", "_replicas", "_throttle", "branches", "has_all",
        "path", "tree",
    )  # fmt: skip

    def __init__(self, throttle: RoleThrottle, replicas: Replicas, peer: str) -> None:
        self._throttle = throttle
        self._replicas = replicas
        self._peer = peer
        self.tree = throttle.tree
        self.path = BudgetPath(*self.tree.trunk(peer))
        self._order = PriorityOrder()
        self._piggyback = CatchUpWindow()
        self._granted_bytes = 0
        """How many bytes the last request was granted, if the throttle paces what goes beside records in sync; else 0.
        """
        self._leaves = 0
        """How many replicas of the last request asked the budget for nothing, because others are in greater need."""
        self.has_all = False
        """True if everything that was wished for last is granted."""
        self.branches: Mapping[PartitionKey, Claim] = {}
        """The last grants that a topic's budget bounds too, with the claim in that budget."""

    def leave(self) -> None:
        self.path.leave()

    def meet(self, peer: str) -> None:
        """Rename the peer."""
        self._peer = peer
        self.reroute()

    def reroute(self) -> None:
        """Use the current budgets."""
        self.tree = self._throttle.tree
        self.path = self.path.reroute(*self.tree.trunk(self._peer))

    def want_nothing(self) -> None:
        """Withdraw the claim: no bytes are wanted, or all are granted."""
        self._granted_bytes = 0
        self.path.want_nothing()

    def in_turn(self, now: float, *, beside_in_sync: bool) -> Steps[Turn]:
        """Return the replicas that may be granted something, the one served least first.

        `beside_in_sync`: the request goes on anyway, for the sake of other partitions. Putting many replicas in order
        takes a while, and is not done where the budget has nothing to grant.
        """
        replicas, path = self._replicas, self.path
        self.has_all, self._leaves = False, 0
        if not replicas.behind:
            self.want_nothing()
            return NOBODY
        if len(replicas.behind) > work_in_steps.STEP_ITEMS:
            # That there is room for a part of them is seen without going through all.
            first = islice(replicas.behind.values(), work_in_steps.STEP_ITEMS)
            if not path.may_grant(now, sum(map(LIMIT, map(_WISH, first))), beside_in_sync=beside_in_sync):
                return NOBODY
        order = yield from replicas.order.in_order()
        if self._throttle.urgency.is_any:
            return self._by_priority(order, now, beside_in_sync=beside_in_sync)
        if path.fetcher.priority:
            path.place(0)
        few = len(order) <= work_in_steps.STEP_ITEMS
        return map(_KEY, order), map(_WISH, order), sum(map(LIMIT, map(_WISH, order))) if few else self._wished(order)

    def _wished(self, order: Sequence[Replica]) -> float:
        """Return how many bytes these wish for together; inf if that is more than the budgets ever have, since then
        ten may be granted something, and not all need to be gone through."""
        wished, most, step = 0, self.path.burst_bytes, work_in_steps.STEP_ITEMS
        for at in range(0, len(order), step):
            wished += sum(map(LIMIT, map(_WISH, order[at : at + step])))
            if wished > most:
                return math.inf
        return wished

    def _by_priority(self, order: Sequence[Replica], now: float, *, beside_in_sync: bool) -> Turn:
        """Return the same where some are in greater need than others."""
        has_spare, shut = self.path.has_spare(now), self._without_room(order, now, beside_in_sync=beside_in_sync)
        ordered = self._order.order(order, self._throttle.urgency, has_spare=has_spare, shut=shut)
        self.path.place(ordered.priority)
        self._leaves = ordered.left
        return ordered.keys, ordered.wishes, None

    def _without_room(self, replicas: Sequence[Replica], now: float, *, beside_in_sync: bool) -> Set[PartitionKey]:
        """Return those to which the budget of their topic grants nothing now."""
        if not self.tree.has_branches:
            return frozenset()
        keys = [replica.key for replica in replicas]
        branches = self.tree.branches(keys, self.path)
        shut = {
            claim
            for claim in {*branches}
            if claim is not None and claim.budget.is_shut(now, beside_in_sync=beside_in_sync)
        }
        return {key for key, claim in zip(keys, branches, strict=True) if claim in shut}

    def grant(self, turn: Turn, now: float, *, beside_in_sync: bool) -> dict[PartitionKey, int]:
        """Return how many bytes each is granted, until the budget is used up. The budgets change in one step, so no
        other connection is granted anything in between."""
        keys, wishes, wished = turn
        self._granted_bytes, self.branches = 0, {}
        if turn is NOBODY:
            return {}
        path = self.path
        branches: Sequence[Claim | None] = ()
        if self.tree.has_branches:
            keys, wishes = list(keys), list(wishes)
            branches, wished = self.tree.branches(keys, path), None
        grants = path.grant(wishes, now, wished=wished, branches=branches, beside_in_sync=beside_in_sync)
        self.has_all = path.has_all and not self._leaves
        granted = dict(zip(keys, grants))  # noqa: B905 - to say `strict` costs every fetch half of the call again
        if 0 in grants:
            granted = {key: size for key, size in granted.items() if size}
        if branches:
            found = zip(keys, branches, strict=True)
            self.branches = {key: branch for key, branch in found if branch is not None and key in granted}
        if path.fetcher.priority:
            self._order.granted(granted)
        if self._throttle.paces:
            self._granted_bytes = sum(grants)
        return granted

    def came_back(self, seconds: float, size: float, now: float) -> None:
        """Note that the follower asks again, `seconds` after an answer with records of replicas in sync began to go on
        to it. The longer the follower took, the less it is granted beside such records next, but never less than the
        rate's floor brings until it is back. The floor of a fixed rate is that rate: it is to be reached, so nothing is
        held back from a bucket that is about to be full, and no piece of it is smaller than `MIN_FIXED_BYTES`."""
        throttle, fetcher = self._throttle, self.path.fetcher
        self._piggyback.came_back(seconds, self._granted_bytes, size, now)
        away = max(seconds, fetcher.absence_seconds)
        if throttle.is_auto:
            floor = throttle.floor_bytes_per_second * away
        elif throttle.has_spare(now):
            floor = math.inf
        else:
            floor = max(throttle.most_bytes_per_second * away, MIN_FIXED_BYTES)
        fetcher.max_bytes_beside_in_sync = max(self._piggyback.most_bytes, floor)

    def lift_piggyback_limit(self) -> None:
        """Forget how soon the follower is back: the throttle paces nothing from now on."""
        self.path.fetcher.max_bytes_beside_in_sync = math.inf

    def give_back(self, grants: Mapping[PartitionKey, int], now: float) -> None:
        """Return grants to the budgets that no request will use."""
        give_back(self.path, grants, self.branches, now)

    def looks_again(self, now: float, deadline: float) -> float:
        """Return when a held request is to be decided again: when its turn comes, at `deadline` at the latest."""
        due = min(now + max(self.path.seconds_until_turn(now), MIN_HOLD_SECONDS), deadline)
        self.path.fetcher.wait(due)
        return due

    def hurry(self, max_wait_ms: float, now: float) -> float:
        """Return how many milliseconds the leader may wait for data: until this link's turn, `max_wait_ms` at most.

        The caller rounds up: an answer just before the turn would cost another fetch and another wait.
        """
        return min(max_wait_ms, max(self.path.seconds_until_turn(now) * 1000, MIN_FORWARDED_WAIT_MS))


def give_back(
    path: BudgetPath, grants: Mapping[PartitionKey, int], branches: Mapping[PartitionKey, Claim], now: float
) -> None:
    """Return grants to every budget that they were reserved in."""
    if grants:
        bounded = [(branches[key], size, 0) for key, size in grants.items() if key in branches] if branches else ()
        path.settle(reserved=sum(grants.values()), used=0, now=now, branches=bounded)


class CatchUpWindow:
    """Bounds the catch-up beside records in sync, for which producers wait, so that followers come back in time.

    A rate is looked at once a second, and a link that is full by a hundredth more has half a second of records in its
    queue by then. A producer with acks=all waits for the follower's next fetch. So each fetch tells how long the
    follower took, and the next grant is larger or smaller by it, as LEDBAT's window (RFC 6817) is by its delay. Of that
    time what was granted is to blame for its share of the answer. Invariant: `most_bytes` is `MIN_BYTES` at least.
    """

    __slots__ = ("_best_before", "_best_seconds", "_per_byte", "_since", "most_bytes")

    def __init__(self) -> None:
        self._best_seconds = self._best_before = math.inf
        self._since = -math.inf
        self._per_byte = 0.0
        """The seconds per byte by which the last answer took longer than the best."""
        self.most_bytes = float(MIN_BYTES)

    def came_back(self, seconds: float, granted_bytes: float, size: float, now: float) -> None:
        """Record how long after an answer of `size` bytes began to go on its follower asks again. Of two times in a row
        the shorter counts, byte for byte: a machine with other work makes one late now and then."""
        if now - self._since >= BEST_KEPT_SECONDS:
            self._since, self._best_before, self._best_seconds = now, self._best_seconds, math.inf
        self._best_seconds = min(self._best_seconds, seconds)
        best = min(self._best_seconds, self._best_before)
        if not granted_bytes:
            return
        per_byte = (seconds - best) / max(size, granted_bytes)
        own = granted_bytes * min(per_byte, self._per_byte)
        self._per_byte = per_byte
        aim = AIM * tolerated_rise(best)
        if own > aim:
            self.most_bytes = max(self.most_bytes * max(aim / own, MIN_CUT), MIN_BYTES)
        elif 2 * granted_bytes >= self.most_bytes:
            self.most_bytes *= GROWTH

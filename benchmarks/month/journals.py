"""The month second by second: who moves how much, told to the sidecars of both ends, and summed up as the truth.

Every link that is behind gets an equal part of its leader's quota and of its follower's; the smaller one counts. Within
a link replicas take turns. Seconds in which nobody is behind are skipped. Invariant: the truth counts exactly what the
ledgers were told.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

from .outages import DAY, DOWN_SECONDS, IN_SYNC_SECONDS, NIGHT_ENDS, NIGHT_RISES, Month, Outage, outages
from .sidecar import ROLES, Sidecar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from .outages import Replica

TURN_BYTES = 1 << 20
"""The bytes that a replica gets in one turn, while others wait."""
HAND_ON_SECONDS = 15
MIN_USED, MAX_USED = 0.97, 1.0
"""The shares of its quota between which a role moves in a second."""
VIOLATION = 3.5


class Shares:
    """The share of each link that is behind: an equal part of what replicas in sync leave of both quotas."""

    def __init__(self, quota: int, behind: Sequence[Outage], in_sync: Counter[tuple[int, str]]) -> None:
        self._quota, self._in_sync = quota, in_sync
        self._links = Counter(end for one in behind for end in _ends(one))

    def of(self, one: Outage) -> tuple[float, bool]:
        """Return the bytes in this second, and whether it is the leader's quota that sets the pace."""
        leads, follows = ((self._quota - self._in_sync[end]) / self._links[end] for end in _ends(one))
        return max(min(leads, follows), 0.0), leads <= follows


def _ends(one: Outage) -> tuple[tuple[int, str], tuple[int, str]]:
    return (one.source, "leader"), (one.destination, "follower")


class Brokers:
    """The sidecars of all brokers, and what those that have ended were told."""

    def __init__(self, month: Month, folder: Path) -> None:
        self._month, self._folder = month, folder
        self.bytes: Counter[tuple[int, str]] = Counter()
        self.rows = self.lines = 0
        self.now = {broker: self._start(broker, 0) for broker in month.ids}

    def restarts(self, broker: int, second: int) -> None:
        """End the broker's sidecar some time ago and start it now. A broker that was not there yet is only started."""
        if broker in self.now:
            self._end(broker, max(second - DOWN_SECONDS, self.now[broker].last))
        self.now[broker] = self._start(broker, second)

    def end(self, second: int) -> None:
        for broker in list(self.now):
            self._end(broker, second)

    def _start(self, broker: int, second: int) -> Sidecar:
        skew = self._month.skew(broker)
        return Sidecar(self._folder / str(broker), broker, second, self._month.quota(second), skew=skew)

    def _end(self, broker: int, second: int) -> None:
        sidecar = self.now.pop(broker)
        sidecar.stops(second)
        self.rows += sidecar.rows
        self.lines += sidecar.lines
        for role in ROLES:
            self.bytes[broker, role] += sidecar.bytes[role]


def write(month: Month, folder: Path) -> dict[str, object]:
    """Write all journals below `folder`, and return the truth: bytes by broker and role, and the moves."""
    numbers = random.Random(month.seed + 1)
    brokers = Brokers(month, folder)
    coming, active = outages(month)[::-1], list[Outage]()
    done: list[Outage] = []
    second = 0
    while coming or active:
        if not active:
            second = _pass_over(brokers, month, second, coming[-1].begins)
        while coming and coming[-1].begins <= second:
            active.append(_begin(coming.pop(), brokers, second))
        _a_second(active, brokers, month.quota(second), second, numbers)
        for one in [one for one in active if one.ended is not None]:
            active.remove(one)
            done.append(one)
            brokers.now[one.source].loses("leader", one.destination, second, float(second - one.begins))
            brokers.now[one.destination].loses("follower", one.source, second, float(second - one.begins))
        second += 1
        _quotas(brokers, month, second - 1, second)
        if second % HAND_ON_SECONDS == 0:
            _hand_on(brokers, second)
    brokers.end(_pass_over(brokers, month, second, max(second, month.days * DAY)))
    return _truth(month, brokers, done)


def _begin(one: Outage, brokers: Brokers, second: int) -> Outage:
    there = brokers.now.get(one.destination)
    if there is None or (one.restarts and there.begins != second):
        brokers.restarts(one.destination, second)
    one.waiting = list(one.replicas)
    return one


def _pass_over(brokers: Brokers, month: Month, second: int, until: int) -> int:
    """Skip the time until then, in which nobody is behind: only quotas change."""
    for day in range(second // DAY, until // DAY + 1):
        for change in (day * DAY + NIGHT_RISES, day * DAY + NIGHT_ENDS):
            if second < change <= until:
                _quotas(brokers, month, change - 1, change)
                _hand_on(brokers, change)
    _hand_on(brokers, until)
    return until


def _quotas(brokers: Brokers, month: Month, before: int, now: int) -> None:
    if month.quota(before) != month.quota(now):
        for sidecar in brokers.now.values():
            sidecar.has_quota(month.quota(now), now, reason="change")


def _hand_on(brokers: Brokers, second: int) -> None:
    for sidecar in brokers.now.values():
        sidecar.hands_on(second)


def _a_second(active: list[Outage], brokers: Brokers, quota: int, second: int, numbers: random.Random) -> None:
    in_sync: Counter[tuple[int, str]] = Counter()
    for one in active:
        for replica in one.replicas:
            replica.high_watermark += replica.written
        size = _in_sync(one, (brokers.now[one.source], brokers.now[one.destination]), second)
        in_sync.update(dict.fromkeys(_ends(one), size))
    shares = Shares(quota, [one for one in active if one.waiting], in_sync)
    for one in active:
        if one.waiting:
            room, by_leader = shares.of(one)
            room *= numbers.uniform(MIN_USED, MAX_USED) * (VIOLATION if one.violates_at == second else 1)
            both = (brokers.now[one.source], brokers.now[one.destination])
            _share_out(one, both, int(room), second, by_leader=by_leader)
        elif all(second - (replica.in_sync_since or second) >= IN_SYNC_SECONDS for replica in one.replicas):
            one.ended = second


def _share_out(one: Outage, both: tuple[Sidecar, Sidecar], room: int, second: int, *, by_leader: bool) -> None:
    """Serve replicas by turns. One that has to wait is left out by the end whose quota sets the pace; the other end
    hears nothing of it."""
    starves = one.starved[0] <= second < one.starved[1]
    count = len(one.waiting)
    one.turn %= count
    each = max(room // count, TURN_BYTES)
    queue = one.waiting[one.turn :] + one.waiting[: one.turn]
    for place, replica in enumerate(queue):
        size = 0 if starves else min(each, room)
        messages = min(size // replica.message_bytes, replica.high_watermark - replica.offset)
        if messages <= 0:
            _leave_out(one, both, replica, second, by_leader=by_leader or starves)
            continue
        room -= messages * replica.message_bytes
        _bring(one, both, replica, messages, second)
        one.turn += place == 0
    one.waiting = [replica for replica in one.waiting if replica.in_sync_since is None]


def _bring(one: Outage, both: tuple[Sidecar, Sidecar], replica: Replica, messages: int, second: int) -> None:
    """Bring messages to a replica, which counts as in sync if it asks at or beyond the high watermark it was given
    last, or was given none on this connection yet."""
    leader, follower = both
    size, in_sync = messages * replica.message_bytes, replica.offset >= replica.known
    leader.forwards("leader", one.destination, replica, size, second, in_sync=in_sync)
    follower.forwards("follower", one.source, replica, size, second, in_sync=in_sync)
    if in_sync and replica.known >= 0:
        replica.in_sync_since = second
    else:
        replica.moved_bytes += size
    replica.known = replica.high_watermark
    replica.offset += messages


def _leave_out(one: Outage, both: tuple[Sidecar, Sidecar], replica: Replica, second: int, *, by_leader: bool) -> None:
    if by_leader:
        both[0].leaves_out("leader", one.destination, replica, second)
        both[1].forwards("follower", one.source, replica, 0, second, in_sync=False)
    else:
        both[1].leaves_out("follower", one.source, replica, second)


def _in_sync(one: Outage, both: tuple[Sidecar, Sidecar], second: int) -> int:
    """Bring what was written to those that have caught up; return how many bytes."""
    moved = 0
    for replica in one.replicas:
        if replica.in_sync_since is not None:
            messages = replica.high_watermark - replica.offset
            size = messages * replica.message_bytes
            both[0].forwards("leader", one.destination, replica, size, second, in_sync=True)
            both[1].forwards("follower", one.source, replica, size, second, in_sync=True)
            replica.offset += messages
            moved += size
    return moved


def _truth(month: Month, brokers: Brokers, done: list[Outage]) -> dict[str, object]:
    replicas = [replica for one in done for replica in one.replicas]
    return {
        **month._asdict(),
        "rows": brokers.rows,
        "lines": brokers.lines,
        "bytes": {f"{broker} {role}": size for (broker, role), size in sorted(brokers.bytes.items())},
        "moves": len(replicas),
        "moved_bytes": sum(replica.moved_bytes for replica in replicas),
        "starved": [(one.source, one.destination) for one in done if one.starved[1]],
        "broken": [f"{broker} {role}" for one in done if one.violates_at >= 0 for broker, role in _ends(one)],
    }

"""Pace: the bytes that a link gains since the last change of anything that bounds it, and when it has caught up.

A link is bounded by the quotas at both ends, by its rivals for them, and by what the machines can do; what producers
write is taken off. A change that the journals tell of (a quota, a rival) begins a pace; one that they do not tell of is
found as a step in the bytes themselves. The interval is of the pace's own spread, since then and for as long as what
is left takes. Within `lag.MIN_SECONDS` of a change that is told the quotas' arithmetic stands in for the pace.

Pure, NumPy: values in, values out. Every answer about speed, ends and stalls comes from here.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..jobs.inner_rates import Bound
from ..jobs.lag import MIN_SECONDS
from .fluid import LINE_BYTES_PER_SECOND, Stream, finish_times, shares

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from .fluid import Quotas

    Numbers = NDArray[np.float64]

WINDOW_SECONDS = 300
"""The time that a pace may reach back."""
APART_SECONDS = 15
"""The silence after which a link that moves again has come anew, and one that was behind has left."""
STILL_SECONDS = 30
"""The least seconds without a byte after which a replica, or a link, stands still. Shorter ones are pauses: one fetch
may bring several seconds' worth of a quota."""
TURN_BYTES = 1_048_576
"""The most that one fetch brings of a partition, unless a broker is set otherwise. Under a small quota replicas take
turns, so that one of many may get nothing for long and is no worse off than the others."""
Z_80 = 1.2816
HELD = 0.7
"""The share of its quota from which on a role is held by it."""
BEFORE_SECONDS = 30
CHANGED = 0.1
"""The least part by which a quota changes: a rate that sets itself is never still."""
STEP, STEP_SCORE, STEP_SECONDS = 0.12, 4.0, 3
"""A step of the mean: at least this part of the larger one, so many standard errors, and seconds on either side."""
SPREAD = 0.02
"""The least relative standard error: sizes of messages to come, the last replicas' way alone."""

Side = tuple[str, str]
"""(broker, role)."""


class History(NamedTuple):
    """The last minutes of a link, by the second of the end that saw more of it.

    first: the second of the first element of `gained`, record bytes that replicas behind were brought in each second.
    written: of each journal line (seconds, bytes that producers wrote to them). asked: the seconds in which a replica
    behind had news, be it that the quota left it out.
    """

    source: str
    destination: str
    first: int
    gained: tuple[float, ...]
    written: tuple[tuple[float, float], ...] = ()
    asked: frozenset[int] = frozenset()

    @property
    def sides(self) -> tuple[Side, Side]:
        """The budgets that bound it."""
        return (self.source, "leader"), (self.destination, "follower")

    @property
    def end(self) -> int:
        """The second after the last one recorded."""
        return self.first + len(self.gained)


class Pace(NamedTuple):
    """gained, written: bytes per second. gained_error, written_error: their standard errors. spread: the standard
    deviation of what is gained in a second, its correlation in time taken into account. seconds: since the last change.
    known_from: the `seconds` from which on it is known."""

    gained: float
    written: float = 0.0
    gained_error: float = 0.0
    written_error: float = 0.0
    spread: float = 0.0
    seconds: int = 0
    known_from: int = MIN_SECONDS

    @property
    def is_known(self) -> bool:
        """False where it is too soon after a change."""
        return self.seconds >= self.known_from

    @property
    def net(self) -> float:
        """Bytes per second by which it comes nearer."""
        return self.gained - self.written

    def error(self, over_seconds: float) -> float:
        """Return the standard error of `net` as the mean of so many seconds to come, bytes per second."""
        gained = self.gained_error**2 + self.spread**2 / max(over_seconds, 1.0) + (SPREAD * self.gained) ** 2
        degrees = max(self.seconds - 1, 2)
        return math.sqrt(gained + self.written_error**2) * (1 + (Z_80**2 + 1) / 4 / degrees)


class End(NamedTuple):
    """The time when a link has caught up: seconds from now, and the ends of the 80 % interval; None: never. by_quotas:
    they are told by the quotas alone, without an interval. is_bounded: a quota says at least what it may bring."""

    seconds: float | None
    low: float | None
    high: float | None
    by_quotas: bool = False
    is_bounded: bool = True


def paces(
    links: Sequence[History], left: Sequence[float], limits: Mapping[Side, Sequence[tuple[int, float]]]
) -> list[Pace]:
    """Return the pace of each link.

    left: the bytes that each has still to bring. limits: of each role (since when, bytes per second; infinity: none),
    in their order.
    """
    of_side: dict[Side, list[int]] = defaultdict(list)
    comings = [_comings(link, is_behind=size > 0) for link, size in zip(links, left, strict=True)]
    for place, link in enumerate(links):
        for side in link.sides:
            of_side[side].append(place)
    found = []
    for place, link in enumerate(links):
        # A link that asks and is left out has not gone; to its rivals it matters only while it brings bytes.
        changes = _comings(link, is_behind=left[place] > 0, also=link.asked)
        still = _still_seconds([limits[side][-1][1] for side in link.sides if limits.get(side)])
        for side in link.sides:
            said = limits.get(side, ())
            own = [links[one] for one in of_side[side]]
            changes += [at for at, *limits_ in _steps_of_quota(said) if _bounds(own, at, limits_)]
            if said and math.isfinite(said[-1][1]):
                changes += [at for rival in of_side[side] if rival != place for at in comings[rival]]
        found.append(_pace(link, changes, still if left[place] > 0 else MIN_SECONDS))
    return found


def _still_seconds(limits: Sequence[float]) -> int:
    """Return the seconds without a byte after which a link under these quotas stands still."""
    lowest = min(limits, default=math.inf)
    return MIN_SECONDS if not lowest else max(STILL_SECONDS, math.ceil(TURN_BYTES / lowest))


def _comings(link: History, *, is_behind: bool, also: frozenset[int] = frozenset()) -> list[int]:
    """Return the seconds in which a link came or left. also: seconds in which it was there without a byte."""
    brought = link.first + np.flatnonzero(np.array(link.gained) > 0)
    seconds = np.union1d(brought, np.array([at for at in also if at < link.end], dtype=int)) if also else brought
    if not len(seconds):
        return [link.first]
    apart = np.flatnonzero(np.diff(seconds) > APART_SECONDS)
    found = [int(seconds[0]), *(int(seconds[one + 1]) for one in apart), *(int(seconds[one]) + 1 for one in apart)]
    return found if is_behind and link.end - seconds[-1] <= APART_SECONDS else [*found, int(seconds[-1]) + 1]


def _steps_of_quota(said: Sequence[tuple[int, float]]) -> list[tuple[int, float, float]]:
    """Return when the quota became another, and what it was before and after."""
    return [
        (since, before, after) for (_, before), (since, after) in itertools.pairwise(said)
        if before != after and not abs(after - before) < CHANGED * max(before, after)
    ]  # fmt: skip


def _bounds(links: Sequence[History], at: int, limits: Sequence[float]) -> bool:
    """Return whether any of these quotas holds what the links gained in the half minute before."""
    taken = sum(float(np.mean(link.gained[max(at - BEFORE_SECONDS - link.first, 0) : at - link.first] or (0.0,)))
                for link in links if link.first < at)  # fmt: skip
    return any(taken >= HELD * limit for limit in limits)


def _pace(link: History, changes: Iterable[int], still: int) -> Pace:
    # The second of a change has something of both.
    begins = [at + 1 - link.first for at in changes if link.first <= at < link.end]
    since = max(begins, default=0)
    gained = np.array(link.gained[since:], dtype=float)
    step = last_step(gained, still)
    seconds = len(gained) - step
    gained = gained[step:]
    if not len(gained):
        return Pace(0.0, *_written(link.written, 0.0)[:1])
    bursts = whole_bursts(gained)
    lengths = bursts[1] if bursts else np.ones(len(gained))
    gained = bursts[0] if bursts else gained
    whole = float(lengths.sum())
    mean = float(gained.sum()) / whole
    spread = _spread(gained / lengths) * math.sqrt(whole / len(lengths))
    written, written_error = _written(link.written, mean)
    known_from = (STEP_SECONDS if step else MIN_SECONDS) if mean else still
    return Pace(mean, written, spread / math.sqrt(whole), written_error, spread, seconds, known_from)


def last_step(values: Numbers, still: int = STILL_SECONDS) -> int:
    """Return from where on the values have one mean: after the last step that is larger than their noise. Less than
    `still` seconds without a byte are a pause, of which nobody knows yet whether it is a step."""
    moves = np.flatnonzero(values)
    kept = np.ones(len(values), dtype=bool)
    for begin, end in itertools.pairwise([*moves, len(values)]):
        if end - begin <= still:
            kept[begin + 1 : end] = False
    (places,) = np.nonzero(kept)
    step = _last_step(values[kept])
    return int(places[step]) if step else 0


def whole_bursts(values: Numbers) -> tuple[Numbers, Numbers] | None:
    """Return the bytes of each burst, and the seconds from its beginning to the next one's, but of the last one, whose
    pause may go on; None if pauses do not recur."""
    moves = np.flatnonzero(values)
    begins = moves[np.diff(moves, prepend=-len(values)) > STEP_SECONDS]
    lengths = np.diff(begins)
    if len(lengths) < 2 or len(values) - begins[-1] > lengths.max():
        return None
    return np.add.reduceat(values[: begins[-1]], begins[:-1]), lengths.astype(float)


def _last_step(values: Numbers) -> int:
    begin = 0
    while len(values) - begin >= 2 * STEP_SECONDS:
        part = values[begin:]
        number = len(part)
        sums = np.cumsum(part)
        before = np.arange(STEP_SECONDS, number - STEP_SECONDS + 1)
        left = sums[before - 1] / before
        right = (sums[-1] - sums[before - 1]) / (number - before)
        largest = np.maximum(left, right)
        noise = max(1.4826 * float(np.median(np.abs(np.diff(part)))) / math.sqrt(2), 0.02 * float(largest.max()), 1e-9)
        score = np.abs(right - left) / noise / np.sqrt(1 / before + 1 / (number - before))
        score[np.abs(right - left) < STEP * largest] = 0.0
        best = int(score.argmax())
        if score[best] < STEP_SCORE:
            return begin
        begin += int(before[best])
    return begin


def _spread(values: Numbers) -> float:
    """Return the standard deviation, scaled so that over the root of a number of seconds it is the error of their mean:
    a token bucket makes up for what it let through, a disk stays slow for a while."""
    if len(values) < 3:
        return float(values.mean())
    rest = values - values.mean()
    variance = float(rest @ rest) / (len(values) - 1)
    if not variance:
        return 0.0
    correlation = float(rest[1:] @ rest[:-1]) / float(rest @ rest)
    # With few values it is mostly noise.
    correlation = min(max(correlation * len(values) / (len(values) + 10), -0.4), 0.8)
    return math.sqrt(variance * (1 + correlation) / (1 - correlation))


def _written(lines: Sequence[tuple[float, float]], gained: float) -> tuple[float, float]:
    """Return what producers write, bytes per second, and its standard error: of the last lines that are alike."""
    if not lines:
        return 0.0, 0.0
    seconds, size = 0.0, 0.0
    before = None
    rates: list[float] = []
    for length, written in reversed(lines):
        rate = written / max(length, 1.0)
        if rates and abs(rate - size / seconds) > max(STEP * size / seconds, 0.03 * gained):
            before = rate
            break
        rates.append(rate)
        seconds, size = seconds + max(length, 1.0), size + written
    mean = size / seconds
    error = SPREAD * mean
    if len(rates) > 1:
        error = max(error, float(np.std(rates, ddof=1)) / math.sqrt(len(rates)))
    elif before is not None:
        # When within this line it changed is not known.
        error = max(error, 0.3 * abs(mean - before))
    return mean, error


def ends(
    links: Sequence[History],
    found: Sequence[Pace],
    left: Sequence[float],
    quotas: Quotas,
    *,
    in_sync: Mapping[Side, float],
    bounds: Sequence[Bound] = (),
) -> list[End]:
    """Return when each link has brought what is left, with what others leave it once they have ended.

    left: bytes. quotas: those in force. in_sync: bytes per second that replicas in sync take of a role's quota.
    bounds: rates of peers and racks inside the quotas.
    """
    taken: dict[Side, float] = defaultdict(float)
    unknown = set()
    for link, pace in zip(links, found, strict=True):
        for side in link.sides:
            taken[side] += pace.gained
            if not pace.is_known:
                unknown.add(side)
    capacity: Quotas = {}
    held = set()
    for side, limit in quotas.items():
        room = max(limit - in_sync.get(side, 0.0), 0.0)
        is_held = taken[side] >= HELD * room
        capacity[side] = taken[side] if is_held and side not in unknown else room
        if is_held:
            held.add(side)
    streams = [
        Stream(link.source, link.destination, size, 0.0, pace.written)
        for link, pace, size in zip(links, found, left, strict=True)
    ]
    own = {
        place: _own(link, pace)
        for place, (link, pace) in enumerate(zip(links, found, strict=True))
        if pace.is_known and not held.intersection(link.sides)
    }
    fair = shares(streams, capacity, bounds=[*bounds, *own.values()], line_bytes_per_second=LINE_BYTES_PER_SECOND)
    for place, (link, pace) in enumerate(zip(links, found, strict=True)):
        # It has less than its share for a reason of its own, and keeps to that when others have left.
        if pace.is_known and place not in own and pace.gained < HELD * fair[place]:
            own[place] = _own(link, pace)
    times = finish_times(
        streams, capacity, bounds=[*bounds, *own.values()], line_bytes_per_second=LINE_BYTES_PER_SECOND
    )
    return [
        _end(seconds, pace, size)._replace(is_bounded=any(side in quotas for side in link.sides))
        for link, seconds, pace, size in zip(links, times, found, left, strict=True)
    ]


def is_still(rate: float, observed: float, *, among: int, pace: float) -> bool:
    """Return whether a replica gets nothing though its turn came.

    rate: its bytes per second in `observed` seconds. among: how many share the link's `pace`.
    """
    if rate > 0 or observed < STILL_SECONDS:
        return False
    return not pace or among * TURN_BYTES / pace <= observed


def _own(link: History, pace: Pace) -> Bound:
    return Bound(link.source, "leader", "its pace", frozenset([link.destination]), pace.gained)


def _end(seconds: float | None, pace: Pace, left: float) -> End:
    if not pace.is_known:
        return End(seconds, None, None, by_quotas=True)
    if seconds is None:
        # It may be that it only seems to stand still.
        best = pace.net + Z_80 * pace.error(math.inf)
        return End(None, left / best if best > 0 else None, None)
    error = Z_80 * pace.error(seconds) / pace.net if pace.net > 0 else math.inf
    return End(seconds, max(seconds / (1 + error) - 1, 0.0), (seconds + 1) / (1 - error) if error < 1 else None)

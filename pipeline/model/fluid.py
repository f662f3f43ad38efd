"""The fluid model: what would have happened under other quotas, in no time.

Every budget hands out turns, so that in the long run its flows have equal shares, and what one cannot use the others
have: max-min fairness, by progressive filling (Bertsekas, Gallager: Data Networks, 6.5.2). Replicas in sync are never
held back, but are charged: what is written to them comes off first. That is the strict policy's mean, without its
single seconds; the broker's own arithmetic (`kip73`) lets a tenth more pass in the long run.

Pure, numpy. Invariant: no flow moves more than it has, and no budget more than its quota but for what is in sync.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ..jobs.inner_rates import Bound

    Numbers = NDArray[np.float64]
    Indices = NDArray[np.int64]

FEW_STREAMS = 200
"""The most streams that each begin and end at their own time. With more, streams that begin or end shortly after each
other change the rates in one step."""
AT_ONCE = 1 / 100
"""How long such a step may be, as a part of the time that the catch-ups under way take. It is not a part of the time
since the first catch-up began: after a month that would be hours, and catch-ups of minutes would be told as hours."""
SHORTER = 0.1
"""A tenth of the catch-ups under way take less time than the one by which the step is measured. If it were measured by
the shortest one, each end would be a step of its own."""
BEGINS_LATE = 1 / 50
"""How much later than in truth a stream may begin in the model, as a part of the least time that it can take."""
Quotas = dict[tuple[str, str], float]
"""(broker, role) to bytes per second; one that is not in it is not throttled."""
LINE_BYTES_PER_SECOND = 125_000_000.0
"""The default speed of a link: a gigabit."""
NEAR = 1 - 1e-9
DONE_BYTES = 1.0


class Stream(NamedTuple):
    """One link's catch-up.

    starts: in seconds since a moment that is the same for all streams.
    written_seconds: for how long from its start `written_bytes_per_second` is written to its partitions.
    """

    source: str
    destination: str
    backlog_bytes: float
    starts: float = 0.0
    written_bytes_per_second: float = 0.0
    written_seconds: float = math.inf


class Change(NamedTuple):
    """A quota from a moment on, in the streams' seconds; infinity: none."""

    at: float
    broker: str
    role: str
    bytes_per_second: float


class _Inside(NamedTuple):
    """A rate inside a role's quota, of some of its flows."""

    flows: Indices
    bytes_per_second: float


class _Network(NamedTuple):
    """Flows as indices into two lists of capacities; infinity for a role without a quota."""

    source: Indices
    destination: Indices
    out: Numbers
    into: Numbers
    line: float
    places: dict[tuple[str, str], int]
    """The places of a broker and role in its list."""
    inside: tuple[_Inside, ...]

    def changed(self, change: Change) -> None:
        place = self.places.get((change.broker, change.role))
        if place is not None:
            (self.out if change.role == "leader" else self.into)[place] = change.bytes_per_second


def finish_times(
    streams: Sequence[Stream],
    quotas: Quotas,
    *,
    changes: Sequence[Change] = (),
    bounds: Sequence[Bound] = (),
    line_bytes_per_second: float,
) -> list[float | None]:
    """Return when each has caught up, in the seconds of `starts`; None: never.

    quotas: (broker, role) to bytes per second, until one of `changes`, which are in their order. bounds: rates of peers
    and racks inside them. Raises ValueError if a rate or a stream is not a number: its share would never be found.
    """
    if not streams:
        return []
    given = [line_bytes_per_second, *quotas.values(), *(one.bytes_per_second for one in changes)]
    given += [*(one.bytes_per_second for one in bounds), *(number for one in streams for number in one[2:])]
    if np.isnan(given).any():
        raise ValueError("expected rates and streams in numbers, found NaN among them")
    network = _network(streams, quotas, line_bytes_per_second)._replace(inside=_inside(streams, bounds))
    starts = np.array([one.starts for one in streams])
    quiet = starts + np.array([one.written_seconds for one in streams])
    grows = np.array([one.written_bytes_per_second for one in streams])
    left = np.array([one.backlog_bytes for one in streams])
    finished = np.full(len(streams), np.inf)
    latest_starts = starts + BEGINS_LATE * _least_seconds(network, left)
    now = float(starts.min())
    to_come = deque(changes)
    while True:
        while to_come and to_come[0].at <= now:
            network.changed(to_come.popleft())
        begun = starts <= now
        written = np.where(begun & (quiet > now), grows, 0.0)
        behind = begun & (left >= DONE_BYTES)
        finished[begun & ~behind & np.isinf(finished)] = now
        rates = _shares(network, behind, np.where(behind, 0.0, written))
        drains = rates - written
        ends = np.divide(left, drains, out=np.full(len(left), np.inf), where=behind & (drains > 0))
        next_change = [one.at - now for one in itertools.islice(to_come, 1)]
        coming = np.concatenate([starts[~begun] - now, quiet[begun & (quiet > now)] - now, ends[behind], next_change])
        soonest = float(coming.min()) if coming.size else math.inf
        if math.isinf(soonest):
            return [None if math.isinf(one) else float(one) for one in finished]
        # Whoever ends within the step still ends at its own time; what it leaves is shared out after it.
        if len(streams) <= FEW_STREAMS:
            step = soonest
        else:
            step = max(soonest, _together(now, starts, ends, behind & (drains > 0), latest_starts[~begun]))
        ending = behind & (ends <= step)
        finished[ending] = now + ends[ending]
        left = np.where(ending, 0.0, np.where(behind, np.maximum(left - drains * step, 0.0), left))
        now += step


def shares(
    streams: Sequence[Stream], quotas: Quotas, *, bounds: Sequence[Bound] = (), line_bytes_per_second: float
) -> list[float]:
    """Return at how many bytes per second each goes on at its start, if all are behind."""
    if not streams:
        return []
    network = _network(streams, quotas, line_bytes_per_second)._replace(inside=_inside(streams, bounds))
    return [float(one) for one in _shares(network, np.ones(len(streams), dtype=bool), np.zeros(len(streams)))]


def _together(now: float, starts: Numbers, ends: Numbers, gains: NDArray[np.bool_], latest_starts: Numbers) -> float:
    """Return in how many seconds whatever begins or ends counts as at once."""
    lasting = (now - starts + ends)[gains]
    at_once = float(np.quantile(lasting, SHORTER)) * AT_ONCE if len(lasting) else 0.0
    return min(at_once, float((latest_starts - now).min(initial=math.inf)))


def _least_seconds(network: _Network, left: Numbers) -> Numbers:
    """Return how long each stream takes if it has everything to itself."""
    widest = np.minimum(np.minimum(network.out[network.source], network.into[network.destination]), network.line)
    for each in network.inside:
        widest[each.flows] = np.minimum(widest[each.flows], each.bytes_per_second)
    return np.divide(left, widest, out=np.zeros(len(left)), where=widest > 0)


def _network(streams: Sequence[Stream], quotas: Mapping[tuple[str, str], float], line: float) -> _Network:
    places: dict[tuple[str, str], int] = {}

    def side(brokers: list[str], role: str) -> tuple[Indices, Numbers]:
        names = sorted(set(brokers))
        places.update({(name, role): place for place, name in enumerate(names)})
        limits = np.array([quotas.get((name, role), math.inf) for name in names])
        return np.array([places[name, role] for name in brokers], dtype=np.int64), limits

    source, out = side([one.source for one in streams], "leader")
    destination, into = side([one.destination for one in streams], "follower")
    return _Network(source, destination, out, into, line, places, ())


def _inside(streams: Sequence[Stream], bounds: Sequence[Bound]) -> tuple[_Inside, ...]:
    found = []
    for bound in bounds:
        flows = [place for place, one in enumerate(streams) if bound.holds_for(one.source, one.destination)]
        if flows:
            found.append(_Inside(np.array(flows, dtype=np.int64), bound.bytes_per_second))
    return tuple(found)


def _shares(network: _Network, behind: NDArray[np.bool_], in_sync: Numbers) -> Numbers:
    """Return the rate of each flow that is behind.

    All grow alike until a budget is full; its flows stay, the others go on.
    """
    taken_out = np.bincount(network.source, weights=in_sync, minlength=len(network.out))
    taken_into = np.bincount(network.destination, weights=in_sync, minlength=len(network.into))
    out, into = np.maximum(network.out - taken_out, 0.0), np.maximum(network.into - taken_into, 0.0)
    inside = [max(each.bytes_per_second - float(in_sync[each.flows].sum()), 0.0) for each in network.inside]
    rates = np.zeros(len(behind))
    growing = behind.copy()
    while growing.any():
        source, destination = network.source[growing], network.destination[growing]
        of_out = out / np.maximum(np.bincount(source, minlength=len(out)), 1)
        of_into = into / np.maximum(np.bincount(destination, minlength=len(into)), 1)
        share = np.minimum(np.minimum(of_out[source], of_into[destination]), network.line)
        growing_inside = [_among(each.flows, growing) for each in network.inside]
        of_inside = [left / max(len(members), 1) for left, members in zip(inside, growing_inside, strict=True)]
        for members, most in zip(growing_inside, of_inside, strict=True):
            share[members] = np.minimum(share[members], most)
        # A budget is full if none of its flows is held by another one more: what others leave only makes those larger.
        least_out, least_into = np.full(len(out), np.inf), np.full(len(into), np.inf)
        np.minimum.at(least_out, source, share)
        np.minimum.at(least_into, destination, share)
        full = (least_out >= of_out * NEAR)[source] | (least_into >= of_into * NEAR)[destination]
        full |= share >= network.line * NEAR
        for members, most in zip(growing_inside, of_inside, strict=True):
            if len(members) and share[members].min() >= most * NEAR:
                full[members] = True
        if not full.any():
            raise ValueError(f"expected rates that can be shared out, found {share}")
        rates[np.flatnonzero(growing)[full]] = share[full]
        out = np.maximum(out - np.bincount(source[full], weights=share[full], minlength=len(out)), 0.0)
        into = np.maximum(into - np.bincount(destination[full], weights=share[full], minlength=len(into)), 0.0)
        for place, members in enumerate(growing_inside):
            inside[place] = max(inside[place] - float(share[members][full[members]].sum()), 0.0)
        growing[np.flatnonzero(growing)[full]] = False
    return rates


def _among(flows: Indices, growing: NDArray[np.bool_]) -> Indices:
    """Return where those of `flows` that are growing stand among all that are."""
    found: Indices = (np.cumsum(growing) - 1)[flows[growing[flows]]]
    return found

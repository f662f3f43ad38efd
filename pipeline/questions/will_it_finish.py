"""Predicts when replicas catch up, by the bytes they lack and their pace; if never, names what keeps them."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from ..jobs.inner_rates import Bound, inside
from ..jobs.lag import HELD_SECONDS, MIN_SECONDS
from ..jobs.moves import times_behind
from ..jobs.quotas import ROLE, UNLIMITED, periods
from ..journals.parse_lines import LATEST_SECONDS
from ..model.pace import WINDOW_SECONDS, End, Pace, ends, is_still, paces
from ..model.remaining_bytes import Behind, Waiting, waiting
from ..tables import CachedFrames, accounted_bytes
from ..terminal import listed
from ..units import duration
from .answer import FOLLOWER_RATE, LEADER_RATE, Answer, Verdict, counted, describe, moment, set_rate, who

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from ..model.fluid import Quotas
    from ..tables import Tables
    from ..units import Units

QUESTION = "will-it-finish"
MAX_LISTED = 5
IN_SYNC_SECONDS = 10
AHEAD_SECONDS = 120
"""Seconds that one clock may be ahead of all others; a sidecar that is the only one for longer is the last that
runs."""
FASTER = 2.0
"""The factor for the quota that halves the time."""


class Left(NamedTuple):
    """A link: what its replicas have still to bring, at which pace, and when they have: never, if one of them gets
    nothing. bytes: None if those of a replica are not known. is_open: nor is the end for that reason."""

    source: str
    destination: str
    replicas: int
    bytes: float | None
    pace: Pace
    end: End
    is_open: bool = False

    @property
    def seconds(self) -> float | None:
        """The seconds until it has caught up; None: never or, unless `is_known`, not known."""
        return self.end.seconds

    def as_json(self) -> dict[str, object]:
        """Return it for JSON: bytes, bytes per second, and seconds (null: never, if known) with their interval."""
        return {
            "source": self.source, "destination": self.destination, "replicas": self.replicas, "bytes": self.bytes,
            "pace": self.pace.net, "seconds": self.end.seconds, "low": self.end.low, "high": self.end.high,
            "by_quotas": self.end.by_quotas, "known": self.is_known,
        }  # fmt: skip

    @property
    def is_known(self) -> bool:
        """False if it is too soon after a change and no quota says what comes, nothing comes, or its bytes are not
        known."""
        return not self.is_open and not self.is_silent and (not self.end.by_quotas or self.end.is_bounded)

    @property
    def is_silent(self) -> bool:
        """True if nothing came for longer than a change takes, and not for so long that it stands still."""
        return not self.pace.is_known and not self.pace.gained and self.pace.seconds >= MIN_SECONDS


class Finish(NamedTuple):
    """The state at the last second of all (`now`; None: there is no traffic).

    links: those that are behind, never first, then the ones that take longest. still: replicas that get nothing. lost:
    replicas that fell silent while behind. silent: those brokers' roles that nothing was heard of since, and the last
    second. unsized: replicas of which nobody knows the size of a message. quotas: those in force.
    """

    now: int | None
    links: tuple[Left, ...] = ()
    still: tuple[Waiting, ...] = ()
    lost: tuple[Waiting, ...] = ()
    silent: tuple[tuple[int, str, int], ...] = ()
    unsized: int = 0
    quotas: Mapping[tuple[str, str], float] = {}


class RoleEnd(NamedTuple):
    """A broker's rest to send, or to fetch: the replicas behind and those `lost`, the bytes that both lack (None: not
    known), those by which it comes nearer in a second (None: not known yet), and when it ends (None: never or, without
    `remaining_bytes` or a `pace`, not known)."""

    behind: int = 0
    lost: int = 0
    remaining_bytes: float | None = 0.0
    pace: float | None = None
    end: End = End(0.0, 0.0, 0.0)

    @property
    def stalled(self) -> bool:
        """True if it comes no nearer."""
        return self.behind > 0 and self.pace is not None and self.pace <= 0


def by_role(found: Finish) -> dict[tuple[str, str], RoleEnd]:
    """Return the state of each broker's role that has something left."""
    links: dict[tuple[str, str], list[Left]] = defaultdict(list)
    lost: dict[tuple[str, str], list[Waiting]] = defaultdict(list)
    for link in found.links:
        for side in _sides(link):
            links[side].append(link)
    for one in found.lost:
        for side in _sides(one):
            lost[side].append(one)
    return {side: _role_end(links[side], lost[side]) for side in {*links, *lost}}


def _role_end(links: Sequence[Left], lost: Sequence[Waiting]) -> RoleEnd:
    sizes = [*(one.bytes for one in links), *(one.remaining for one in lost)]
    remaining = None if None in sizes else sum(size or 0.0 for size in sizes)
    known = bool(links) and all(one.pace.is_known for one in links)
    pace = sum(one.pace.net for one in links) if known else None
    # When a lost one ends nobody knows.
    has_end = bool(links) and not lost and all(one.is_known for one in links)
    end = links[0].end if has_end else End(None, None, None)
    return RoleEnd(sum(one.replicas for one in links), len(lost), remaining, pace, end)


def facts(tables: Tables) -> Finish:
    """Work it out."""
    with CachedFrames() as held:
        return of_times_behind(tables, held.once(times_behind(tables)))


def of_times_behind(tables: Tables, behind: DataFrame) -> Finish:
    """Return the facts from what `moves.times_behind` returns of these tables."""
    # A role is heard of by whatever it moves: quotas may select nothing any more.
    last = tables.seconds.groupBy(*ROLE).agg(F.max("time").alias("last"), F.bool_or("throttled").alias("throttled"))
    roles = last.collect()
    if not any(row.throttled for row in roles):
        return Finish(None)
    heard = {(row.broker, row.role): row.last for row in roles}
    now = present(heard)
    state = waiting(tables, behind, now)
    if not state.replicas:
        return Finish(now)
    said: dict[tuple[str, str], list[tuple[int, float]]] = {}
    recent = F.col("until").isNull() | (F.col("until") > now - WINDOW_SECONDS)
    for row in periods(tables.events).where(recent).orderBy("since").collect():
        said.setdefault((str(row.broker), row.role), []).append((row.since, row.limit if row.enforce else UNLIMITED))
    just = tables.within(tables.scope._replace(since=now - IN_SYNC_SECONDS + 1)).seconds.where("throttled and in_sync")
    by_role = just.groupBy(*ROLE).agg(F.sum(accounted_bytes()).alias("bytes")).collect()
    taken = {(str(row.broker), row.role): row.bytes / IN_SYNC_SECONDS for row in by_role}
    return judged(state, heard, now, said, taken, inside(tables.events).bounds)


def present(heard: Mapping[tuple[int, str], int]) -> int:
    """Return the last second of all; of three brokers or more the second latest's, if one is a little ahead of it: by
    one clock that is ahead all others would have fallen silent."""
    latest: dict[int, int] = {}
    for (broker, _), last in heard.items():
        latest[broker] = max(last, latest.get(broker, last))
    first, *others = sorted(latest.values(), reverse=True)
    return others[0] if len(others) > 1 and first - others[0] <= AHEAD_SECONDS else first


def judged(
    behind: Behind,
    heard: Mapping[tuple[int, str], int],
    now: int,
    limits: Mapping[tuple[str, str], Sequence[tuple[int, float]]],
    in_sync: Mapping[tuple[str, str], float],
    bounds: Sequence[Bound],
) -> Finish:
    """Return the facts from the replicas that are behind, and from when each broker's role was last heard of."""

    def is_here(one: Waiting) -> bool:
        own = now if one.broker is None else max(heard.get(one.broker, now), now)
        return one.last >= own - HELD_SECONDS

    here = [one for one in behind.replicas if is_here(one)]
    lost = [one for one in behind.replicas if not is_here(one)]
    silent = {
        (*one.broker, heard[one.broker]) for one in lost
        if one.broker is not None and heard.get(one.broker, now) < now - HELD_SECONDS
    }  # fmt: skip
    by_link: dict[tuple[str, str], list[Waiting]] = {(one.source, one.destination): [] for one in behind.links}
    for one in here:
        by_link.setdefault((one.source, one.destination), []).append(one)
    quotas: Quotas = {side: told[-1][1] for side, told in limits.items() if told[-1][1] < UNLIMITED}
    rates = {link: sum(one.rate for one in own) or _quota(own, quotas) for link, own in by_link.items()}
    still = tuple(
        one
        for link, own in by_link.items()
        for one in own
        if is_still(one.rate, one.observed, among=len(own), pace=rates[link])
    )
    # Of one that is not sized a message is at least a byte.
    left = [
        sum(float(one.lag) if one.remaining is None else one.remaining
            for one in by_link[link.source, link.destination] if one not in still)
        for link in behind.links
    ]  # fmt: skip
    found = paces(behind.links, left, limits)
    when = ends(behind.links, found, left, quotas, in_sync=in_sync, bounds=bounds)
    stuck = {(one.source, one.destination) for one in still}
    links = []
    for link, pace, end in zip(behind.links, found, when, strict=True):
        own = by_link[link.source, link.destination]
        if own:
            sizes = [one.remaining for one in own]
            lacks = None if None in sizes else sum(size or 0.0 for size in sizes)
            is_stuck = (link.source, link.destination) in stuck
            is_open = lacks is None and not is_stuck and end.seconds is not None
            ends_at = End(None, None, None) if is_stuck or is_open else end
            links.append(Left(link.source, link.destination, len(own), lacks, pace, ends_at, is_open))
    links.sort(key=lambda one: (one.seconds is not None, -(one.seconds or 0.0), one.source, one.destination))
    unsized = sum(one.remaining is None for one in here)
    return Finish(now, tuple(links), still, tuple(lost), tuple(sorted(silent)), unsized, quotas)


def _quota(of_link: Sequence[Waiting], quotas: Quotas) -> float:
    """Return the smaller quota of a link; 0 without one."""
    return min((quotas[side] for one in of_link[:1] for side in _sides(one) if side in quotas), default=0.0)


def answer(found: Finish, units: Units) -> Answer:
    """Tell it; `number` is in how many seconds all have caught up."""
    if found.now is None:
        return Answer(QUESTION, Verdict.UNKNOWN, "There is nothing to finish: nothing throttled was recorded.")
    doubts = [f"as of {moment(found.now)}, the last second recorded"]
    if not (found.links or found.still or found.lost):
        sentence = f"It has: nobody was behind at {moment(found.now)}."
        return Answer(QUESTION, Verdict.GOOD, sentence, 0.0, "s", uncertainty=tuple(doubts))
    if found.silent and found.now - found.silent[0][2] <= AHEAD_SECONDS:
        doubts.append("or clocks differ: so short a silence may be one clock behind, or another ahead")
    if found.unsized:
        doubts.append(f"of {counted(found.unsized, 'replica')} behind no message was seen: their bytes are not in it")
    verdict, number, sentence, command = _told(found, units)
    if any(one.is_known and not one.end.by_quotas for one in found.links):
        doubts.append("the interval (80 %) is by the spread of each pace since its last change; what changes later is"
                      " not in it")  # fmt: skip
    evidence = [f"{one.name} gets nothing: it lacks {_size(one, units)}" for one in found.still[:MAX_LISTED]]
    evidence += [lost_in_words(one, units) for one in found.lost[:MAX_LISTED]]
    evidence += [_one(one, units) for one in found.links[:MAX_LISTED]]
    return Answer(QUESTION, verdict, sentence, number, "s", tuple(evidence), tuple(doubts), command)


def _told(found: Finish, units: Units) -> tuple[Verdict, float | None, str, str]:
    now = found.now or 0
    replicas = sum(one.replicas for one in found.links)
    left = f"{counted(replicas, 'replica')} on {counted(len(found.links), 'link')} behind"
    if found.still:
        names = listed((one.name for one in found.still), MAX_LISTED)
        return Verdict.BAD, math.inf, f"Never, at this rate: nothing comes for {names}.", describe(found.still[0].topic)
    never = next((one for one in found.links if one.seconds is None and one.is_known), None)
    if never is not None:
        why = _why_never(never, found)
        wanted = units.rounded_up(max(FASTER * (never.pace.written + never.pace.gained), units.value**2))
        sentence = f"Never, at this rate: {left}, and for {never.source} to {never.destination} {why}."
        return Verdict.BAD, math.inf, sentence, _raise(never, found, wanted, units)
    if found.lost:
        return Verdict.UNKNOWN, None, _lost(found, units), describe(found.lost[0].topic)
    unknown = next((one for one in found.links if not one.is_known), None)
    if unknown is not None:
        return Verdict.UNKNOWN, None, f"Not known yet: {left}; {_why_unknown(unknown)}.", ""
    slowest = found.links[0]
    seconds = slowest.seconds or 0.0
    at = now + seconds
    when = f"at {moment(at)}" if at <= LATEST_SECONDS else "long after this century"
    last = f"{slowest.source} to {slowest.destination} is the last"
    if slowest.end.by_quotas:
        last += f"; by the quotas alone, since {duration(slowest.pace.seconds)} after a change no pace is known"
    sentence = f"Yes, in {duration(seconds)}{interval_text(slowest.end)}, {when}: {left}, {last}."
    faster = {side: limit for side, limit in found.quotas.items() if side in _sides(slowest) and limit > 0}
    command = _raise(slowest, found, units.rounded_up(FASTER * min(faster.values())), units) if faster else ""
    return Verdict.GOOD, seconds, sentence, command and f"{command}   # for half the time"


def _why_never(link: Left, found: Finish) -> str:
    if any(found.quotas.get(side) == 0 for side in _sides(link)):
        return "its quota is 0"
    if link.pace.is_known and not link.pace.gained:
        return f"nothing came for {duration(link.pace.seconds)}"
    return "producers write as much as it may bring" if link.pace.written else "its quota leaves it nothing"


def _why_unknown(link: Left) -> str:
    name, seconds = f"{link.source} to {link.destination}", duration(link.pace.seconds)
    if link.is_silent:
        return f"from {name} nothing came for {seconds}"
    if link.is_open:
        return f"how many bytes {name} lacks no message says"
    return f"{name} has no quota, and {seconds} ago something changed"


def _lost(found: Finish, units: Units) -> str:
    names = listed((lost_in_words(one, units) for one in found.lost), MAX_LISTED)
    if found.silent:
        broker, role, last = found.silent[0]
        return f"Not known: nothing was heard of {who(broker, role)} after {moment(last)}; {names}."
    return f"Not known: {names}."


def lost_in_words(one: Waiting, units: Units) -> str:
    """Return which replica fell silent, when, and what it lacked."""
    return f"{one.name} fell silent at {moment(one.last)} while it lacked {_size(one, units)}"


def _size(one: Waiting, units: Units) -> str:
    return f"{one.lag:,} messages" if one.remaining is None else units.size(one.remaining)


def _sides(link: Left | Waiting) -> tuple[tuple[str, str], tuple[str, str]]:
    return (link.source, "leader"), (link.destination, "follower")


def _raise(link: Left, found: Finish, wanted: float, units: Units) -> str:
    """Return the command that raises whichever of the two quotas are below that rate."""
    keys = ((link.source, LEADER_RATE), (link.destination, FOLLOWER_RATE))
    commands = [
        set_rate(broker, key, wanted, units) for side, (broker, key) in zip(_sides(link), keys, strict=True)
        if found.quotas.get(side, math.inf) < wanted
    ]  # fmt: skip
    return " && ".join(commands)


def interval_text(end: End) -> str:
    """Return ``(29 s to 33 s)``; empty where there is none."""
    if end.low is None:
        return ""
    return f" ({duration(end.low)} to {'never' if end.high is None else duration(end.high)})"


def _one(one: Left, units: Units) -> str:
    ends_in = "not known" if not one.is_known else "never" if one.seconds is None else duration(one.seconds)
    size = "an unknown size" if one.bytes is None else units.size(one.bytes)
    written = f", {units.rate(one.pace.written)} written meanwhile" if one.pace.written else ""
    pace = f"{units.rate(one.pace.gained)} in the {duration(one.pace.seconds)} since the last change"
    return (
        f"{one.source} to {one.destination}: {size} in {counted(one.replicas, 'replica')}, {pace}{written}: {ends_in}"
    )

"""Will it finish, and when: what replicas have still to bring, under the quotas in force; if never, what keeps it.

In bytes, by the fluid model (`fluid`) from the present state: links share what the quotas allow, and what one does not
need any more the others have. A link that no quota holds goes on at the pace it has.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from ..jobs.inner_rates import Bound, inside
from ..jobs.lag import HELD_SECONDS, MIN_TREND_SECONDS
from ..jobs.moves import HELD_BACK, times_behind, unpaced
from ..jobs.quotas import ROLE, UNLIMITED, periods
from ..jobs.remaining_bytes import RECENT_SECONDS, Waiting, waiting
from ..journals.parse_lines import LATEST_SECONDS
from ..model.backtest import of_links
from ..model.duration_curve import LINE_BYTES_PER_SECOND, recorded
from ..model.fluid import Stream, finish_times
from ..tables import CachedFrames
from ..terminal import listed
from ..units import duration
from .answer import Answer, Verdict, counted, moment, who

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from ..model.duration_curve import Recorded
    from ..model.simulation import Quotas
    from ..tables import Tables
    from ..units import Units

QUESTION = "will-it-finish"
MAX_LISTED = 5
TURN_BYTES = 1_048_576
"""The most that one fetch brings of a partition, unless a broker is set otherwise. Under a small quota replicas take
turns, so that one of many may get nothing for long and is no worse off than the others."""


class Left(NamedTuple):
    """A link: what its replicas have still to bring, at which pace, and in how many seconds they have (None: never).
    observed: of the last minute the seconds in which it was behind."""

    source: str
    destination: str
    replicas: int
    bytes: float
    rate: float
    written: float
    seconds: float | None
    observed: int

    @property
    def by_pace(self) -> float | None:
        """The seconds until then, if everything goes on as in the last minute; None: never."""
        return self.bytes / (self.rate - self.written) if self.rate > self.written else None


class Finish(NamedTuple):
    """The state at the last second of all (`now`; None: there is no traffic).

    links: those that are behind, never first, then the ones that take longest. still: replicas that get nothing.
    silent: brokers' roles that nothing was heard of for `HELD_SECONDS` while behind, and the last second. lost:
    replicas that fell silent while behind, of brokers that are still heard of. unsized: replicas of which nobody knows
    the size of a message. errors: of this model for links that have ended.
    """

    now: int | None
    links: tuple[Left, ...] = ()
    still: tuple[Waiting, ...] = ()
    silent: tuple[tuple[int, str, int], ...] = ()
    lost: int = 0
    unsized: int = 0
    errors: tuple[float, ...] = ()


def facts(tables: Tables) -> Finish:
    """Work it out."""
    with CachedFrames() as held:
        behind = held.once(times_behind(tables))
        return of_times_behind(tables, behind, lambda: recorded(tables, unpaced(behind)))


def of_times_behind(tables: Tables, behind: DataFrame, found: Callable[[], Recorded]) -> Finish:
    """Return the facts from what `moves.times_behind` and `duration_curve.recorded` return of these tables."""
    throttled = tables.seconds.where("throttled")
    heard = {(row.broker, row.role): row.last for row in
             throttled.groupBy(*ROLE).agg(F.max("time").alias("last")).collect()}  # fmt: skip
    if not heard:
        return Finish(None)
    now = max(heard.values())
    replicas = waiting(tables, behind, now)
    if not replicas:
        return Finish(now)
    last = periods(tables.events).where("until is null").collect()
    quotas = {(str(row.broker), row.role): row.limit for row in last if row.enforce and row.limit < UNLIMITED}
    tested = of_links(found()).tested
    state = judged(replicas, heard, now, quotas, inside(tables.events).bounds)
    return state._replace(errors=tuple(one.error for one in tested))


def judged(
    behind: Sequence[Waiting], heard: Mapping[tuple[int, str], int], now: int, quotas: Quotas, bounds: Sequence[Bound]
) -> Finish:
    """Return the facts from the replicas that are behind, and from when each broker's role was last heard of."""
    here, silent, lost = [], set(), 0
    for one in behind:
        spoke = None if one.broker is None else heard.get(one.broker)
        if one.last >= now - HELD_SECONDS:
            here.append(one)
        elif one.broker is not None and (spoke is None or spoke < now - HELD_SECONDS):
            silent.add((*one.broker, one.last if spoke is None else spoke))
        else:
            lost += 1
    by_link: dict[tuple[str, str], list[Waiting]] = defaultdict(list)
    for one in here:
        by_link[one.source, one.destination].append(one)
    links = _links(by_link, quotas, bounds)
    still = tuple(one for one in here if _is_still(one, by_link[one.source, one.destination]))
    unsized = sum(one.remaining is None for one in here)
    return Finish(now, tuple(links), still, tuple(sorted(silent)), lost, unsized)


def _links(by_link: Mapping[tuple[str, str], Sequence[Waiting]], quotas: Quotas, bounds: Sequence[Bound]) -> list[Left]:
    paces = {link: sum(one.rate for one in own) for link, own in by_link.items()}
    taken: dict[tuple[str, str], float] = defaultdict(float)
    for (source, destination), pace in paces.items():
        taken[source, "leader"] += pace
        taken[destination, "follower"] += pace
    held = {side for side, limit in quotas.items() if taken[side] >= HELD_BACK * limit}
    own_pace = [
        Bound(source, "leader", "its pace", frozenset([destination]), pace)
        for (source, destination), pace in paces.items()
        if (source, "leader") not in held and (destination, "follower") not in held
    ]
    streams = [
        Stream(*link, sum(one.remaining or 0.0 for one in own), 0.0, sum(one.written for one in own))
        for link, own in by_link.items()
    ]
    ends = finish_times(streams, quotas, bounds=[*bounds, *own_pace], line_bytes_per_second=LINE_BYTES_PER_SECOND)
    found = [
        Left(
            *link, len(own), stream.backlog_bytes, paces[link], stream.written_bytes_per_second, end,
            max(one.observed for one in own),
        )
        for (link, own), stream, end in zip(by_link.items(), streams, ends, strict=True)
    ]  # fmt: skip
    return sorted(found, key=lambda one: (one.seconds is not None, -(one.seconds or 0.0), one.source, one.destination))


def _is_still(one: Waiting, link: Sequence[Waiting]) -> bool:
    """True if a replica got nothing for a whole minute, though its turn came."""
    if one.rate > 0 or one.observed < RECENT_SECONDS:
        return False
    pace = sum(other.rate for other in link)
    return not pace or len(link) * TURN_BYTES / pace <= RECENT_SECONDS


def answer(found: Finish, units: Units) -> Answer:
    """Tell it; `number` is in how many seconds all have caught up."""
    if found.now is None:
        return Answer(QUESTION, Verdict.UNKNOWN, "There is nothing to finish: nothing throttled was recorded.")
    doubts = [f"as of {moment(found.now)}, the last second recorded"]
    if found.lost:
        doubts.append(
            f"{counted(found.lost, 'replica')} fell silent for more than {HELD_SECONDS} s while behind and may have"
            " come back since"
        )
    if not found.links and not found.silent:
        return Answer(
            QUESTION, Verdict.GOOD, f"It has: nobody was behind at {moment(found.now)}.", 0.0, "s",
            uncertainty=tuple(doubts),
        )  # fmt: skip
    if found.unsized:
        doubts.append(f"of {counted(found.unsized, 'replica')} behind no message was seen: their bytes are not in it")
    verdict, number, sentence = _told(found)
    doubts.append(_how_exact(found))
    evidence = [f"{one.name} gets nothing: {one.lag:,} messages behind" for one in found.still[:MAX_LISTED]]
    evidence += [_one(one, units) for one in found.links[:MAX_LISTED]]
    return Answer(QUESTION, verdict, sentence, number, "s", tuple(evidence), tuple(doubts))


def _told(found: Finish) -> tuple[Verdict, float | None, str]:
    now = found.now or 0
    replicas = sum(one.replicas for one in found.links)
    left = f"{counted(replicas, 'replica')} on {counted(len(found.links), 'link')} behind"
    if found.still:
        names = listed((one.name for one in found.still), MAX_LISTED)
        return Verdict.BAD, float("inf"), f"Never, at this rate: {left}, and nothing comes for {names}."
    if found.silent:
        broker, role, last = found.silent[0]
        said = f"Not known: nothing was heard of {who(broker, role)} after {moment(last)}, when it was behind."
        return Verdict.UNKNOWN, None, said
    slowest = found.links[0]
    link = f"{slowest.source} to {slowest.destination}"
    if slowest.observed < MIN_TREND_SECONDS:
        return Verdict.UNKNOWN, None, f"Not known yet: {left}, and {link} for less than {MIN_TREND_SECONDS} s."
    if slowest.seconds is None:
        why = "producers write as much as it may bring" if slowest.written else "its quota is 0"
        return Verdict.BAD, float("inf"), f"Never, at this rate: {left}, and for {link} {why}."
    at = now + slowest.seconds
    when = f"at {moment(at)}" if at <= LATEST_SECONDS else "long after this century"
    sentence = f"Yes, in {duration(slowest.seconds)}{_interval(found)}, {when}: {left}, {link} is the last."
    return Verdict.GOOD, slowest.seconds, sentence


def interval(found: Finish) -> tuple[float, float | None] | None:
    """Return between which seconds it ends: as far off as this model was for links that have ended, and as the pace of
    the last minute says. None as the larger one: never."""
    slowest = found.links[0]
    if slowest.seconds is None:
        return None
    by_pace = [one.by_pace for one in found.links]
    told = [slowest.seconds / (1 + error) for error in (0.0, *found.errors) if error > -1]
    if None in by_pace:
        return min(told), None
    told.append(max(one or 0.0 for one in by_pace))
    return min(told), max(told)


def _interval(found: Finish) -> str:
    ends = interval(found)
    if ends is None:
        return ""
    return f" ({duration(ends[0])} to {'never' if ends[1] is None else duration(ends[1])})"


def _how_exact(found: Finish) -> str:
    tested = counted(len(found.errors), "link")
    by_model = f"by the model's errors for {tested} that ended, and " if found.errors else ""
    none = "" if found.errors else "; no link has ended by which the model's error could be told"
    return f"the interval is {by_model}by the pace of the last minute{none}; what changes later is not in it"


def _one(one: Left, units: Units) -> str:
    ends = "never" if one.seconds is None else duration(one.seconds)
    written = f", {units.rate(one.written)} written meanwhile" if one.written else ""
    return (
        f"{one.source} to {one.destination}: {units.size(one.bytes)} in {counted(one.replicas, 'replica')},"
        f" {units.rate(one.rate)} in the last minute{written}: {ends}"
    )

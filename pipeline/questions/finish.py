"""Will it finish, and when: of everybody who is behind, the last; and if never, what keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from .. import lag
from ..held import Held
from ..lines import LATEST_SECONDS
from ..quotas import ROLE
from ..units import duration
from .answer import Answer, Verdict, counted, moment, who

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from ..tables import Tables
    from ..units import Units

QUESTION = "will-it-finish"
MOST_ROLES = 5


class Finish(NamedTuple):
    """As of the last second of all (`now`; None: there is no traffic)."""

    now: int | None
    roles: int
    """Brokers' roles that are behind."""
    replicas: int
    lag_messages: int
    remaining_bytes: float | None
    latest: tuple[Row, ...]
    """Of those that are behind the ones that take longest: never first, then not known, then by when they end."""
    stalled: dict[tuple[int, str], str]
    """Why, of those in `latest` that never finish."""
    lost: int
    """Replicas that had fallen silent while behind by then."""


def facts(tables: Tables, progress: DataFrame | None = None) -> Finish:
    """Work it out. progress: what `lag.progress` says of these tables, if somebody has it."""
    if progress is None:
        before = tables.reaching_back(lag.LOOKS_BACK_SECONDS)
        progress = lag.progress(lag.of_tables(before), before.events)
    progress = tables.scope.cut(progress)
    with Held() as held:
        return _facts(tables, progress, held)


def _facts(tables: Tables, progress: DataFrame, held: Held) -> Finish:
    before = tables.reaching_back(lag.LOOKS_BACK_SECONDS)
    spoke = F.when(F.col("lost") == 0, F.col("time"))
    spoken = F.coalesce(F.max(spoke).over(Window.partitionBy(*ROLE)), F.lit(0))
    ends = progress.withColumn("spoken", spoken).groupBy(*ROLE).agg(
        F.max_by(F.when(F.col("lost") == 0, F.struct(*progress.columns[2:])), spoke).alias("last"),
        F.sum(F.when(F.col("time") <= F.col("spoken"), F.col("lost"))).alias("lost"),
        # These are few: a replica is lost so many seconds after its last line as it is held on for.
        F.collect_list(F.when(F.col("time") > F.col("spoken"), F.struct("time", "lost"))).alias("after"),
    )  # fmt: skip
    ends = held.once(ends)
    now = ends.agg(F.max("last.time")).collect()[0][0]
    if now is None:
        return Finish(None, 0, 0, 0, None, (), {}, 0)
    after = F.aggregate(
        "after",
        F.lit(0).cast("long"),
        lambda so_far, one: so_far + F.when(one["time"] <= now, one["lost"]).otherwise(0),
    )
    # `lag` takes off whoever was behind at the end of the recording thirty seconds later: that is no silence.
    lost = ends.agg(F.coalesce(F.sum(F.coalesce("lost", F.lit(0)) + after), F.lit(0))).collect()[0][0]
    behind = ends.select(*ROLE, "last.*").where("lag > 0")
    sums = behind.agg(
        F.count("*").alias("roles"), F.coalesce(F.sum("behind"), F.lit(0)).alias("replicas"),
        F.coalesce(F.sum("lag"), F.lit(0)).alias("lag"), F.sum("remaining_bytes").alias("bytes"),
    ).collect()[0]  # fmt: skip
    silent = F.col("time") < now - lag.HELD_SECONDS
    never = ~silent & F.col("drain").isNotNull() & F.col("eta_seconds").isNull()
    order = (
        F.desc(never),
        F.desc(silent | F.col("drain").isNull()),
        F.desc(F.col("time") + F.col("eta_seconds")),
        *ROLE,
    )
    rows = tuple(behind.orderBy(*order).limit(MOST_ROLES).collect())
    causes = {}
    if any(_never(row, now) for row in rows):
        stalls = tables.scope.cut(lag.stalls(progress, before.seconds, before.events))
        for row in stalls.groupBy(*ROLE).agg(F.max_by("cause", "time").alias("cause")).limit(1000).collect():
            causes[row.broker, row.role] = row.cause
    return Finish(now, sums.roles, sums.replicas, sums.lag, sums.bytes, rows, causes, lost)


def answer(found: Finish, units: Units) -> Answer:
    """Tell it; `number` is in how many seconds all have caught up."""
    if found.now is None:
        return Answer(QUESTION, Verdict.UNKNOWN, "There is nothing to finish: nothing throttled was recorded.")
    doubts = [f"as of {moment(found.now)}, the last second recorded"]
    if found.lost:
        silent = counted(found.lost, "replica")
        doubts.append(
            f"{silent} fell silent for more than {lag.HELD_SECONDS} s while behind and may have come back since"
        )
    if not found.latest:
        return Answer(
            QUESTION, Verdict.GOOD, f"It has: nobody was behind at {moment(found.now)}.", 0.0, "s",
            uncertainty=tuple(doubts),
        )  # fmt: skip
    evidence = tuple(_one(row, found, found.now, units) for row in found.latest)
    left = f"{counted(found.replicas, 'replica')} of {counted(found.roles, 'role')} behind"
    slowest = found.latest[0]
    number: float | None = None
    verdict = Verdict.GOOD
    if _silent(slowest, found.now):
        verdict = Verdict.UNKNOWN
        sentence = (
            f"Not known: {left}, and nothing was heard of {who(slowest.broker, slowest.role)} after"
            f" {moment(slowest.time)}."
        )
    elif _never(slowest, found.now):
        verdict, number = Verdict.BAD, float("inf")
        why = found.stalled.get((slowest.broker, slowest.role), "the lag does not shrink")
        sentence = f"Never, at this rate: {left}, and at {who(slowest.broker, slowest.role)} {why}."
    elif slowest.drain is None:
        verdict = Verdict.UNKNOWN
        sentence = f"Not known yet: {left}, and {who(slowest.broker, slowest.role)} has no trend of ten seconds."
        doubts.append("a trend begins anew when the quota changes, and takes ten seconds")
    else:
        number = _from_now(slowest, slowest.eta_seconds, found.now)
        at = slowest.time + slowest.eta_seconds
        when = f"at {moment(at)}" if at <= LATEST_SECONDS else "long after this century"
        sentence = (
            f"Yes, in {duration(number)}{_interval(slowest, found.now)}, {when}: {left},"
            f" {who(slowest.broker, slowest.role)} is the last."
        )
    doubts.append("by the trend of the last minute: what else is written or moved later is not in it")
    return Answer(QUESTION, verdict, sentence, number, "s", evidence, tuple(doubts))


def _silent(row: Row, now: int) -> bool:
    """Whether its last second is so long ago that its replicas are gone: its trend says nothing of now."""
    return bool(row.time < now - lag.HELD_SECONDS)


def _never(row: Row, now: int) -> bool:
    return not _silent(row, now) and row.drain is not None and row.eta_seconds is None


def _from_now(row: Row, seconds: float, now: int) -> float:
    """An ETA counts from its role's own last second, which may be before the last one of all."""
    return max(float(row.time + seconds - now), 0.0)


def _interval(row: Row, now: int) -> str:
    if row.eta_low is None:
        return ""
    high = "never" if row.eta_high is None else duration(_from_now(row, row.eta_high, now))
    return f" ({duration(_from_now(row, row.eta_low, now))} to {high} with 95 % of the trend)"


def _one(row: Row, found: Finish, now: int, units: Units) -> str:
    size = "" if row.remaining_bytes is None else f", about {units.size(row.remaining_bytes)}"
    behind = f"{who(row.broker, row.role)}: {row.lag:,.0f} messages in {counted(row.behind, 'replica')}{size}"
    if _silent(row, now):
        return f"{behind}; nothing was heard of it after {moment(row.time)}"
    if _never(row, now):
        return f"{behind}; never at this rate: {found.stalled.get((row.broker, row.role), 'the lag does not shrink')}"
    if row.drain is None:
        return f"{behind}; no trend yet"
    left = duration(_from_now(row, row.eta_seconds, now))
    return f"{behind}; {row.drain:,.0f} messages a second, {left}{_interval(row, now)}"

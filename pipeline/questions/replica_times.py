"""The times that replicas were behind: how often, how long, which never catch up, and how long partitions were
under-replicated. Told from moves (`jobs.moves`), each of which is one time behind, once for both ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Window
from pyspark.sql import functions as F

from ..jobs.link_ends import REPLICA
from ..tables import CachedFrames
from ..tables.daily_summaries import DAY_SECONDS
from ..terminal import listed, printable
from ..units import duration
from .answer import Answer, Verdict, counted, describe, moment, replica
from .will_it_finish import lost_in_words

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from ..model.remaining_bytes import Waiting
    from ..units import Units

KEEPS_FALLING, NEVER_CATCHES_UP = "who-keeps-falling-behind", "who-never-catches-up"
UNDER_REPLICATED = "how-long-under-replicated"
PARTITION = REPLICA[1:]
"""A replica, whichever leader it fetches from."""
MAX_LISTED = 8
MIN_SECONDS = 10
"""The shortest time behind that counts as falling behind: producers' bursts put any replica behind for a second."""
MIN_TIMES = 3
"""A replica that was behind so often keeps falling behind."""
LONG_SECONDS = 600
"""A replica that is behind for so long and is no nearer than at first never catches up."""
DOUBT = "only replicas that a quota selects are known to be behind"


class Behind(NamedTuple):
    """moves: times behind of all replicas. replicas: how many are meant by the question. rows: the worst of these,
    REPLICA and what is told of each. destinations: the brokers of these: `destination`, `times`. lost: replicas that
    fell silent while behind, and were not seen in sync since. open: the longest of those that may be meant, as `rows`,
    and `opens`: how many there are."""

    moves: int
    replicas: int
    rows: tuple[Row, ...]
    destinations: tuple[Row, ...] = ()
    lost: tuple[Waiting, ...] = ()
    opens: int = 0
    open: tuple[Row, ...] = ()


class UnderReplicated(NamedTuple):
    """seconds: in which any partition was. rows: the partitions that were longest: `topic`, `partition`, `seconds`.
    lost: replicas that fell silent while behind, so that theirs go on, nobody knows how long."""

    seconds: int
    partitions: int
    rows: tuple[Row, ...]
    lost: tuple[Waiting, ...] = ()


def falling_behind(moves: DataFrame) -> Behind:
    """Find the replicas that fell behind again and again, most often first: `times`, `days`, `seconds`, `longest`."""
    with CachedFrames() as held:
        moves = held.once(moves.select(*REPLICA, "began", "seconds"))
        often = moves.where(F.col("seconds") >= MIN_SECONDS).groupBy(*REPLICA).agg(
            F.count("*").alias("times"), F.count_distinct(F.floor(F.col("began") / DAY_SECONDS)).alias("days"),
            F.sum("seconds").alias("seconds"), F.max("seconds").alias("longest"),
        )  # fmt: skip
        each = held.once(often)
        again = each.where(F.col("times") >= MIN_TIMES)
        rows = again.orderBy(F.desc("days"), F.desc("times"), F.desc("seconds"), *REPLICA).limit(MAX_LISTED).collect()
        brokers = again.groupBy("destination").agg(F.sum("times").alias("times"))
        destinations = brokers.orderBy(F.desc("times"), "destination").limit(MAX_LISTED).collect()
        return Behind(moves.count(), again.count(), tuple(rows), tuple(destinations))


def never_caught_up(moves: DataFrame) -> Behind:
    """Find the replicas that were behind to the end, for long, and lack no less than when they fell behind: `began`,
    `seconds`, `left` and `before` (bytes that it lacks, and lacked when it fell behind). Of the others that were behind
    to the end those that lack less came nearer; the rest may be meant."""
    is_last = F.lead("began").over(Window.partitionBy(*PARTITION).orderBy("began")).isNull()
    no_nearer = F.coalesce(F.col("left") >= F.col("backlog_bytes"), F.when(F.col("bytes") == 0, F.lit(True)))
    columns = (*REPLICA, "began", "seconds", "left", F.col("backlog_bytes").alias("before"))
    with CachedFrames() as held:
        moves = held.once(moves.withColumns({"left": lacking_bytes(), "last": is_last}))
        behind = moves.where(~F.col("finished") & F.col("last") & F.coalesce(no_nearer, F.lit(True)))
        is_never = (F.col("seconds") >= LONG_SECONDS) & no_nearer.isNotNull()
        never, opens = behind.where(is_never), behind.where(~is_never)
        rows = never.orderBy(F.desc_nulls_last("left"), F.desc("seconds"), *REPLICA).limit(MAX_LISTED).select(*columns)
        longest = opens.orderBy(F.desc("seconds"), *REPLICA).limit(MAX_LISTED).select(*columns)
        found = Behind(moves.count(), never.count(), tuple(rows.collect()))
        return found._replace(opens=opens.count(), open=tuple(longest.collect()))


def lacking_bytes() -> Column:
    """Return what a replica lacks at the end of a move; null if what it lacked at its beginning is unknown."""
    lacking = F.col("backlog_bytes") + F.col("written_bytes") - F.col("bytes")
    return F.when(F.col("backlog_bytes").isNotNull(), F.greatest(lacking, F.lit(0.0)))


def under_replicated(moves: DataFrame) -> UnderReplicated:
    """Sum up the seconds in which replicas were behind, each second once however many were."""
    with CachedFrames() as held:
        moves = held.once(moves.select("topic", "partition", "began", "seconds"))
        each = covered(moves, "topic", "partition")
        rows = each.orderBy(F.desc("seconds"), "topic", "partition").limit(MAX_LISTED).collect()
        return UnderReplicated(_total(covered(moves), "seconds"), each.count(), tuple(rows))


def covered(times: DataFrame, *keys: str) -> DataFrame:
    """Return for each of `keys` in how many `seconds` at least one of its times (`began`, `seconds`) was."""
    in_order = Window.partitionBy(*keys).orderBy("began")
    ends = F.col("began") + F.col("seconds")
    reached = F.max(ends).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    more = F.greatest(ends - F.greatest("began", F.coalesce(reached, "began")), F.lit(0))
    return times.withColumn("more", more).groupBy(*keys).agg(F.sum("more").alias("seconds"))


def _total(rows: DataFrame, name: str) -> int:
    return int(rows.agg(F.coalesce(F.sum(name), F.lit(0))).collect()[0][0])


def answer_falling_behind(found: Behind) -> Answer:
    """Tell it; `number` is how many replicas."""
    evidence = [_often(row) for row in found.rows]
    evidence += [f"broker {row.destination} as follower: {counted(row.times, 'time')}" for row in found.destinations]
    doubt = f"times behind of less than {MIN_SECONDS} s do not count"
    none = f"no replica had {MIN_TIMES} of {MIN_SECONDS} s or more"
    return _replicas(KEEPS_FALLING, found, none, evidence, doubt)


def _often(row: Row) -> str:
    return (
        f"{replica(row)} fell behind {counted(row.times, 'time')} on {counted(row.days, 'day')},"
        f" {duration(row.seconds)} in all and {duration(row.longest)} at most"
    )


def answer_never_caught_up(found: Behind, units: Units) -> Answer:
    """Tell it; `number` is how many replicas. Silence is not success: of one that fell silent it is not known."""
    lost = [lost_in_words(one, units) for one in found.lost]
    if lost and not found.replicas:
        sentence = f"Not known: {listed(lost, MAX_LISTED)}."
        command = describe(found.lost[0].topic)
        return Answer(NEVER_CATCHES_UP, Verdict.UNKNOWN, sentence, None, "replicas", tuple(lost), (DOUBT,), command)
    if found.opens and not found.replicas:
        were = "was" if found.opens == 1 else "were"
        sentence = (
            f"Not known: {counted(found.opens, 'replica')} {were} behind to the end, for less than"
            f" {duration(LONG_SECONDS)} or by bytes that are not known."
        )
        rows, command = tuple(_left(row, units) for row in found.open), describe(found.open[0].topic)
        return Answer(NEVER_CATCHES_UP, Verdict.UNKNOWN, sentence, None, "replicas", rows, (DOUBT,), command)
    evidence = [*(_left(row, units) for row in found.rows), *lost[:MAX_LISTED]]
    doubt = f"who was behind for less than {duration(LONG_SECONDS)} does not count"
    return _replicas(NEVER_CATCHES_UP, found, "each ended or came nearer", evidence, doubt)


def _left(row: Row, units: Units) -> str:
    size = "by bytes that are not known"
    if row.left is not None:
        size = f"and lacks {units.size(row.left)}, {units.size(row.before)} at first"
    return f"{replica(row)} is behind for {duration(row.seconds)}, since {moment(row.began)}, {size}"


def _replicas(question: str, found: Behind, none: str, evidence: list[str], doubt: str) -> Answer:
    """Tell the first of the evidence, and how many more there are. none: why nobody is meant."""
    if not found.moves:
        return _nobody(question, "replicas")
    if not found.replicas:
        sentence = f"Nobody: of {counted(found.moves, 'time')} behind, {none}."
        return Answer(question, Verdict.GOOD, sentence, 0.0, "replicas", uncertainty=(DOUBT,))
    more = f", and {counted(found.replicas - 1, 'more replica')}" if found.replicas > 1 else ""
    number = float(found.replicas)
    command = describe(found.rows[0].topic)
    return Answer(
        question, Verdict.BAD, f"{evidence[0]}{more}.", number, "replicas", tuple(evidence), (doubt, DOUBT), command
    )  # fmt: skip


def answer_under_replicated(found: UnderReplicated, units: Units) -> Answer:
    """Tell it; `number` is in how many seconds any partition was. Of one that fell silent it is not known."""
    if not found.partitions:
        return _nobody(UNDER_REPLICATED, "s")
    told = [f"{printable(row.topic, keep='')}-{row.partition}: {duration(row.seconds)}" for row in found.rows]
    longest = f"{duration(found.seconds)} in all, {counted(found.partitions, 'partition')}; the longest was {told[0]}"
    if found.lost:
        lost = [lost_in_words(one, units) for one in found.lost]
        sentence = f"Not known: for at least {longest}; {listed(lost, MAX_LISTED)}."
        evidence, command = (*lost[:MAX_LISTED], *told), describe(found.lost[0].topic)
        return Answer(UNDER_REPLICATED, Verdict.UNKNOWN, sentence, None, "s", evidence, (DOUBT,), command)
    sentence = f"For {longest}."
    return Answer(UNDER_REPLICATED, Verdict.GOOD, sentence, float(found.seconds), "s", tuple(told), (DOUBT,))


def _nobody(question: str, unit: str) -> Answer:
    return Answer(question, Verdict.UNKNOWN, "Nobody was seen behind.", 0.0, unit, uncertainty=(DOUBT,))

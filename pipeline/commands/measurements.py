"""``rates``, ``audit``, ``lag``: what the tables say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from pyspark.sql import functions as F

from ..jobs import audit, lag, rates
from ..jobs.inner_rates import with_bounds
from ..jobs.quotas import ROLE
from ..questions import will_it_finish
from ..questions.answer import Verdict
from ..questions.asking import units_of
from ..tables import CachedFrames
from ..terminal import tell
from .options import output_options, put_out, require_room, tables_job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .options import Job, Output

MAX_DOUBTS = 20
STATE = (
    "broker long, role string, time long, lag long, behind long, lost long, done double, remaining_bytes double,"
    " pace double, eta_seconds double, eta_low double, eta_high double"
)
RATE_HISTORY_SECONDS = 3600
"""SimpleRate's slots are taken in turns: which one is the oldest depends on what was before."""


@click.command("rates", short_help="Bytes per second, and over KIP-73's window.")
@click.option("--by", type=click.Choice(sorted(rates.LEVELS)), default="broker", show_default=True)
@click.option("--all-traffic", is_flag=True, help="Partitions that are not throttled as well.")
@output_options
@tables_job
def rates_command(job: Job, by: str, output: Output, *, all_traffic: bool) -> None:
    """Compute throttled bytes per second, and their rate over KIP-73's window by the sidecar's own arithmetic.

    With --by partition this is KIP-73's PartitionBytesInRate. Seconds in which nothing moved have no row. With --since
    the window knows of what was moved up to an hour before, which is all of it once there are eleven seconds of
    traffic.

    \b
    Example:
      python -m pipeline rates tables --by peer --out rates.csv --format csv
    """
    columns = rates.LEVELS[by]
    with job.tables() as found:
        before = found.reaching_back(RATE_HISTORY_SECONDS)
        exact = before.seconds if by in rates.OF_LINKS else before.traffic
        seconds = rates.per_second(exact, columns, throttled_only=not all_traffic)
        put_out(found.scope.cut(rates.windowed(seconds, columns)).orderBy(*columns, "time"), output)


@click.command("audit", short_help="Was the bound kept, in every second and in every eleven?")
@click.option("--evidence", metavar="PATH", help="Write every window over its bound there.")
@output_options
@tables_job
def audit_command(job: Job, evidence: str | None, output: Output) -> None:
    """Judge each broker, role and quota in force: the worst windows, the mean, the smoothness, windows over the bound.
    Rates of peers and racks inside a quota are told like roles of their own: leader, rack b.

    Exit status 0 says that the job ran, not that the bound was kept: see the column `verdict`. A batch larger than the
    gate (100 ms of quota) comes whole, so with quotas below 10 batches a second a second may bring more than 1.3. In
    the second of a change of quota what was allowed is not known better than between the two: it may be undecided.

    \b
    Example:
      python -m pipeline audit tables --evidence over.parquet
    """
    if evidence is not None and evidence.rstrip("/") == (output[0] or "").rstrip("/"):
        raise click.UsageError(f"expected --out and --evidence to be two places, found {evidence} for both")
    with job.tables() as found, CachedFrames() as held:
        if evidence is not None:
            require_room(found.spark, evidence)
        before = found.reaching_back(audit.ELEVEN.seconds - 1)
        seconds = held.once(audit.seconds_with_quota(*with_bounds(before.seconds, before.events)))
        summary = held.once(audit.summary(seconds, since=found.scope.since))
        put_out(summary, output)
        _tell_doubts(summary)
        over = found.scope.cut(audit.violations(seconds))
        if summary.where("over_1s + over_11s > 0").isEmpty():
            # Of windows that were all judged already none is evidence: they are not judged once more.
            over = over.limit(0)
        if evidence is not None:
            over.write.mode("overwrite").parquet(evidence)
            tell(f"evidence written to {evidence}")
        else:
            click.echo("\nworst windows over the bound:")
            worst_first = over.orderBy(F.desc_nulls_first("ratio"), *ROLE, "time", "window_seconds")
            put_out(worst_first.drop("quota_bytes"), (None, ""), rows=10)


def _tell_doubts(summary: DataFrame) -> None:
    """Print where the sum is not the whole answer."""
    for row in summary.where("overlap_seconds > 0").limit(MAX_DOUBTS).collect():
        tell(
            f"broker {row.broker} as {row.role}: two runs of its sidecar at once in {row.overlap_seconds} seconds:"
            " do two sidecars have this broker's id? Each has the quota for itself, and here they are added up"
        )
    undecided = summary.withColumn("undecided", F.expr("undecided_1s + undecided_11s")).where("undecided > 0")
    for row in undecided.limit(MAX_DOUBTS).collect():
        tell(
            f"broker {row.broker} as {row.role}: {row.undecided} windows are neither kept nor broken: within one of"
            f" their seconds the quota became {row.limit:.0f} B/s, or began to be enforced, and journals do not say"
            " when in it"
        )


@click.command("lag", short_help="How far behind, how long yet, and what keeps it.")
@click.option("--stalls", "only_stalls", is_flag=True, help="Only seconds in which it comes no nearer, and why.")
@click.option("--history", is_flag=True, help="Every second with news, not the state at the end.")
@output_options
@tables_job
def lag_command(job: Job, output: Output, *, only_stalls: bool, history: bool) -> None:
    """Compute SumReplicaLag, the bytes that remain, the pace since the last change, and the end with its 80 % interval.

    After a change of a quota no pace is known for ten seconds: `pace` is `-`, and the end is by the quotas alone. With
    `remaining_bytes` and a `pace`, an `eta_seconds` of `-` is never. Exit status 4: a replica fell silent while behind;
    which, and what it lacked, is printed.

    \b
    Examples:
      python -m pipeline lag tables
      python -m pipeline lag tables --stalls
    """
    with job.tables() as found:
        before = found.reaching_back(lag.LOOKS_BACK_SECONDS)
        rows = lag.of_tables(before)
        if only_stalls or history:
            rows = found.scope.cut(lag.stalls(rows, before.seconds, before.events) if only_stalls else rows)
            put_out(rows.orderBy(*ROLE, "time"), output)
            return
        state = will_it_finish.facts(found)
        put_out(at_the_end(found.scope.cut(rows), state), output)
        units = units_of(found)
    for one in state.lost[:MAX_DOUBTS]:
        tell(f"not known: {will_it_finish.lost_in_words(one, units)}")
    if state.lost:
        click.get_current_context().exit(Verdict.UNKNOWN.value)


def at_the_end(rows: DataFrame, state: will_it_finish.Finish) -> DataFrame:
    """Return one row per broker and role: its last word, and how it goes on from there."""
    last = rows.where("lost = 0").groupBy(*ROLE).agg(F.max_by(F.struct("time", "lag", "done"), "time").alias("last"))
    roles = will_it_finish.by_role(state)
    told = []
    for row in last.orderBy(*ROLE).collect():
        one = roles.get((str(row.broker), row.role), will_it_finish.RoleEnd())
        done = None if one.lost else row.last.done
        end = (one.end.seconds, one.end.low, one.end.high)
        told.append((row.broker, row.role, row.last.time, row.last.lag, one.behind, one.lost, done, one.remaining_bytes,
                     one.pace, *end))  # fmt: skip
    return rows.sparkSession.createDataFrame(told, STATE)

"""``compact`` and ``summarise``: upkeep of tables that grow for weeks."""

from __future__ import annotations

import click

from ..jobs import lag, partition_sizes, times_behind
from ..questions import who_was_starved
from ..tables import Tables, daily_summaries, delta
from ..tables.tables import SCHEMAS
from .options import Job, put_out, spark_job, tell

SUMMARIES = (times_behind.SUMMARY, lag.SUMMARY, who_was_starved.SUMMARY, partition_sizes.SUMMARY)


@click.command("compact", short_help="Small files put together, old ones removed.")
@click.argument("path", metavar="TABLES")
@spark_job
def compact_command(path: str, job: Job) -> None:
    """Put small files together (Delta's OPTIMIZE), and remove those that no reader needs any more (VACUUM).

    `ingest` and `stream` put small files together by themselves where there are fifty; this does not wait for that. No
    row changes. Run it before `summarise`: what is kept of a day is worked out again when its files are others. Jobs
    read, and `ingest` and `stream` write, meanwhile.

    \b
    Example:
      python -m pipeline compact tables
    """
    with job.session() as spark:
        tables, done = Tables(spark, path).require(), []
        counted = tables.versions()
        for name in SCHEMAS:
            path = tables.path(name)
            # Readers are at the version of the last account. What was put together since may not be cleared of files
            # that this version has; the next `ingest` takes them on.
            if delta.exists(tables.storage, path) and counted.get(name) in (None, delta.latest(tables.storage, path)):
                tell(name)
                done.append((name, *delta.compact(spark, path)))
        put_out(spark.createDataFrame(done, ["table", *delta.Compacted._fields]), (None, ""))


@click.command("summarise", short_help="Work out once what jobs need of whole days.")
@click.argument("path", metavar="TABLES")
@spark_job
def summarise_command(path: str, job: Job) -> None:
    """Keep what `lag`, `moves`, `replay --model fluid`, `ask` and `report` need of each day of each broker.

    Answers stay the same, with it or without: a day that has got more lines since counts as not kept, and is read from
    its seconds until this is run again. Once a day, after midnight, is often enough. Killed at any moment, the next
    writer puts things right.

    \b
    Example:
      python -m pipeline summarise tables
    """
    with job.session() as spark:
        done = daily_summaries.summarise(Tables(spark, path), SUMMARIES, tell=tell)
    for name, days in done.items():
        click.echo(f"{name}: {days} days of brokers")

"""``compact``, ``summarise`` and ``keep``: upkeep of tables that grow for weeks."""

from __future__ import annotations

import datetime as dt

import click

from ..jobs import lag, partition_sizes, times_behind
from ..journals.keep import keep
from ..questions import who_was_starved
from ..tables import Tables, daily_summaries, delta
from ..tables.tables import SCHEMAS
from ..terminal import tell
from .options import Job, put_out, spark_job

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
    """Keep what `lag`, `moves`, `replay`, `ask` and `report` need of each day of each broker.

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


@click.command("keep", short_help="Remove what is older than some days.")
@click.argument("path", metavar="TABLES")
@click.option("--days", type=click.IntRange(min=1), required=True, help="Whole days (UTC) that are kept before today.")
@click.option("--journals", multiple=True, metavar="PATH", help="Remove taken files below it as well; repeatable.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@spark_job
def keep_command(path: str, days: int, journals: tuple[str, ...], job: Job, *, dry_run: bool) -> None:
    """Remove lines, events, summaries and accounts of files that are older than so many days.

    Answers about the days that are kept stay the same. Older lines, and files last modified before those days, are not
    taken again. With --journals files that were last modified before them go as well, if the tables have what is in
    them: never one that is corrupt, unreadable, open, or longer than it was when it was read, nor one of which lines
    were set aside, since a later release may understand these; how many stay for that is printed. Name all folders each
    time: of a file that stays the account goes, and without it no later keep removes it. Exit status 1: files could not
    be removed; their accounts stay, and the next keep removes them. Others may read and write meanwhile. Delta keeps
    what was removed for seven days more, for readers that are at it; the keep after that frees the disk.

    \b
    Examples:
      python -m pipeline keep tables --days 30 --dry-run
      python -m pipeline keep tables --days 30 --journals /journals
    """
    since = dt.datetime.now(dt.UTC).date() - dt.timedelta(days=days)
    with job.session() as spark:
        click.echo(f"{'would be removed' if dry_run else 'to remove'}, of before {since}:")
        for line in keep(Tables(spark, path), since, journals, dry_run=dry_run):
            click.echo(line)
    if not dry_run:
        click.echo("removed")

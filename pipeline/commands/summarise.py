"""``summarise``: what jobs need of whole days, worked out once."""

from __future__ import annotations

import click

from ..jobs import lag, partition_sizes, times_behind
from ..questions import who_was_starved
from ..tables import Tables, daily_summaries
from .options import session, spark_options, tell

SUMMARIES = (times_behind.SUMMARY, lag.SUMMARY, who_was_starved.SUMMARY, partition_sizes.SUMMARY)


@click.command("summarise", short_help="Work out once what jobs need of whole days.")
@click.argument("path", metavar="TABLES")
@spark_options
def command(path: str, spark_settings: tuple[str | None, tuple[str, ...]]) -> None:
    """Keep what `lag`, `moves`, `plan`, `replay --model fluid`, `ask` and `report` need of each day of each broker.

    Answers stay the same, with it or without: a day that has got more lines since counts as not kept, and is read from
    its seconds until this is run again. Once a day, after midnight, is often enough. Killed at any moment, the next
    writer puts things right.

    \b
    Example:
      python -m pipeline summarise tables
    """
    with session("summarise", spark_settings) as spark:
        done = daily_summaries.summarise(Tables(spark, path), SUMMARIES, tell=tell)
    for name, days in done.items():
        click.echo(f"{name}: {days} days of brokers")

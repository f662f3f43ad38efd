"""``compact``: days of many small files, written anew as few."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..compaction import Compacted, compact
from ..tables import Tables
from .options import Wanted, days_options, output_options, put_out, session, spark_options, tables, tell
from .quantities import SOME_TIME

if TYPE_CHECKING:
    SparkSettings = tuple[str | None, tuple[str, ...]]
    Output = tuple[str | None, str]


@click.command("compact", short_help="Days of many small files, written anew as few.")
@click.argument("path", metavar="TABLES")
@days_options
@click.option(
    "--keep",
    type=SOME_TIME,
    metavar="DURATION",
    help="How long files stay that others took the place of, from now on, whoever writes: 7d. For as long tables can be"
    " read --as-of. At first it is 1h.",
)
@output_options
@spark_options
def command(path: str, wanted: Wanted, keep: float | None, output: Output, spark_settings: SparkSettings) -> None:
    """Write days of brokers that are many small files anew as few, and tell how many there were and are.

    `ingest` and `stream` do so by themselves with a day that has 16 files; `stream` with small batches, or many small
    ingests, leave up to that many. No row changes. --since, --until and --broker choose whole days. Run it before
    `summarise`: what is kept of a day is worked out again when its files are others.

    Killed at any moment, the next writer puts things right; of two writers at once one waits for the other. A job that
    has begun to read such a day reads it as it was: the files that it has listed stay for as long as --keep said last.

    \b
    Examples:
      python -m pipeline compact tables --until 6h
      python -m pipeline compact tables --out compacted --format json
      python -m pipeline compact tables --keep 7d
    """
    with session("compact", spark_settings) as spark:
        kept = None if keep is None else int(keep)
        done = compact(
            Tables(spark, path), wanted=lambda: tables(spark, path, wanted).scope, tell=tell, keep_seconds=kept
        )
        put_out(spark.createDataFrame(done, list(Compacted._fields)), output)

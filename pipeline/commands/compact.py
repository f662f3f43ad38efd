"""``compact``: days of many small files, written anew as few."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..compaction import Compacted, compact
from ..tables import Tables
from .options import Wanted, output_options, put_out, scope_options, session, spark_options, tables, tell

if TYPE_CHECKING:
    SparkSettings = tuple[str | None, tuple[str, ...]]
    Output = tuple[str | None, str]


@click.command("compact", short_help="Days of many small files, written anew as few.")
@click.argument("path", metavar="TABLES")
@scope_options
@output_options
@spark_options
def command(path: str, wanted: Wanted, output: Output, spark_settings: SparkSettings) -> None:
    """Write days of brokers that are many small files anew as few, and tell how many there were and are.

    `ingest` and `stream` do so by themselves with a day that has 16 files; `stream` with small batches, or many small
    ingests, leave up to that many. No row changes. --since, --until and --broker choose whole days. Run it before
    `summarise`: what is kept of a day is worked out again when its files are others.

    Killed at any moment, the next writer puts things right; of two writers at once one waits for the other. A job that
    is reading such a day meanwhile ends with an error that says so, and is run again.

    \b
    Examples:
      python -m pipeline compact tables --until 6h
      python -m pipeline compact tables --out compacted --format json
    """
    with session("compact", spark_settings) as spark:
        done = compact(Tables(spark, path), wanted=lambda: tables(spark, path, wanted).scope, tell=tell)
        put_out(spark.createDataFrame(done, list(Compacted._fields)), output)

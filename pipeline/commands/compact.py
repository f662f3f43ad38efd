"""``compact``: small files put together, old ones removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..tables.maintenance import Compacted, compact
from .options import Wanted, days_options, output_options, put_out, session, spark_options, tables, tell
from .quantities import SOME_TIME

if TYPE_CHECKING:
    SparkSettings = tuple[str | None, tuple[str, ...]]
    Output = tuple[str | None, str]


@click.command("compact", short_help="Small files put together, old ones removed.")
@click.argument("path", metavar="TABLES")
@days_options
@click.option(
    "--keep",
    type=SOME_TIME,
    metavar="DURATION",
    help="How long files stay that others took the place of, from now on: so long tables can be read --as-of. At first"
    " it is 7d.",
)
@output_options
@spark_options
def command(path: str, wanted: Wanted, keep: float | None, output: Output, spark_settings: SparkSettings) -> None:
    """Put small files together (Delta's OPTIMIZE), and remove those that nobody can ask for any more (VACUUM).

    `ingest` and `stream` put small files together by themselves where there are fifty; this does not wait for that. No
    row changes. --since, --until choose whole days. Run it before `summarise`: what is kept of a day is worked out
    again when its files are others. Jobs read, and `ingest` and `stream` write, meanwhile.

    \b
    Examples:
      python -m pipeline compact tables --until 6h
      python -m pipeline compact tables --out compacted --format json
      python -m pipeline compact tables --keep 30d
    """
    with session("compact", spark_settings) as spark:
        kept = None if keep is None else int(keep)
        done = compact(tables(spark, path, wanted), tell=tell, keep_seconds=kept)
        put_out(spark.createDataFrame(done, list(Compacted._fields)), output)

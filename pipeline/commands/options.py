"""What every job takes: where Spark is, where the result goes, how it is shown.

Invariant: what is printed is bounded; whole tables go to files.
"""

from __future__ import annotations

import functools
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from pyspark.sql import SparkSession

from ..errors import InputError
from ..session import open_session
from ..tables import Tables
from ..troubles import of_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

SHOWN_ROWS = 40
FORMATS = ("parquet", "csv", "json")


def spark_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --master and --conf."""

    @click.option("--master", metavar="URL", help="Spark's master. Default: spark-submit's, else this machine's cores.")
    @click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's; may be repeated.")
    @functools.wraps(command)
    def wrapped(*args: Any, master: str | None, conf: tuple[str, ...], **kwargs: Any) -> None:
        command(*args, spark_settings=(master, conf), **kwargs)

    return wrapped


def output_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --out and --format."""

    @click.option("--out", metavar="PATH", help="Write the whole result there: any path that Hadoop understands.")
    @click.option("--format", "form", type=click.Choice(FORMATS), default="parquet", show_default=True)
    @functools.wraps(command)
    def wrapped(*args: Any, out: str | None, form: str, **kwargs: Any) -> None:
        command(*args, output=(out, form), **kwargs)

    return wrapped


@contextmanager
def session(app: str, spark_settings: tuple[str | None, tuple[str, ...]]) -> Iterator[SparkSession]:
    """Open the session, and close it if it was not there before. Raises InputError for a --conf that is none."""
    master, conf = spark_settings
    # spark-submit has started the JVM that we are to use, and has a master of its own.
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = "local[*]"
    pairs = [item.partition("=") for item in conf]
    for item, (key, separator, _) in zip(conf, pairs, strict=True):
        if not (key and separator):
            raise InputError(f"--conf: expected KEY=VALUE, found {item!r}")
    was_there = SparkSession.getActiveSession() is not None
    spark = open_session(f"pipeline {app}", master=master, conf={key: value for key, _, value in pairs})
    try:
        yield spark
    finally:
        if not was_there:
            spark.stop()


def tables(spark: SparkSession, path: str) -> Tables:
    """Return the tables, having said what they are without. Raises InputError if there are none."""
    found = Tables(spark, path).require()
    for text in of_tables(found.files):
        tell(f"{path}: {text}")
    return found


def put_out(frame: DataFrame, output: tuple[str | None, str], *, rows: int = SHOWN_ROWS) -> None:
    """Write the frame where it is wanted, or print its first rows."""
    path, form = output
    if path is not None:
        writer = frame.write.mode("overwrite").format(form)
        if form == "csv":
            writer = writer.option("header", "true")
        writer.save(path)
        tell(f"written to {path}")
        return
    found = frame.limit(rows + 1).collect()
    click.echo(_columns(frame.columns, [[_cell(value) for value in row] for row in found[:rows]]))
    if len(found) > rows:
        tell(f"more than {rows} rows: use --out for all of them")
    elif not found:
        tell("no rows")


def tell(text: str) -> None:
    """Progress, for people."""
    click.echo(text, err=True)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 1e4 else f"{value:.0f}"
    return "" if value is None else str(value)


def _columns(names: list[str], rows: list[list[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    lines = [names, *rows]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )

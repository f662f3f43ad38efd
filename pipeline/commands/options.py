"""Options that jobs share: where Spark is, where the result goes, how it is shown.

Invariant: what is printed is bounded; whole tables go to files.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from ..errors import InputError, jvm_ended
from ..session import open_session
from ..tables import Tables
from ..tables.delta import LOG
from ..tables.incomplete_data import of_dropped, of_tables
from ..tables.scope import Scope, moment_text
from ..tables.storage import Storage
from ..terminal import cell, listed, tell
from .quantities import MOMENT, Moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

Output = tuple[str | None, str]
"""--out and --format."""
Command = Callable[..., None]
SHOWN_ROWS = 40
MAX_BROKERS = 20
FORMATS = ("parquet", "csv", "json")
_OF_A_RESULT = re.compile(r"\.?(part-|_SUCCESS|_temporary)")
"""The beginnings of the names of Spark's files, of a result that is whole or not."""


class Job(NamedTuple):
    """The options of a command that are about Spark, and about the tables that it reads, if it reads any."""

    master: str | None
    conf: tuple[str, ...]
    path: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    brokers: tuple[int, ...] = ()

    @contextmanager
    def session(self) -> Iterator[SparkSession]:
        """Open the session, and close it if it was not there before. Raises InputError for a --conf that is none, and
        if Spark's JVM ends within the block."""
        master = self.master
        # spark-submit has started the JVM that we are to use, and has a master of its own.
        if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
            master = "local[*]"
        pairs = [item.partition("=") for item in self.conf]
        for item, (key, separator, _) in zip(self.conf, pairs, strict=True):
            if not (key and separator):
                raise InputError(f"--conf: expected KEY=VALUE, found {item!r}")
        settings = {key: value for key, _, value in pairs}
        active = SparkSession.getActiveSession()
        if active is None:
            app = f"pipeline {click.get_current_context().info_name}"
            spark = open_session(app, master=master, conf=settings)
        else:
            # It is somebody else's, with settings of their own.
            spark = active
            for key, value in settings.items():
                spark.conf.set(key, value)
        is_over = active is not None
        try:
            yield spark
        except (Py4JNetworkError, ConnectionError) as error:
            # Nobody is there to be asked to stop.
            is_over = True
            raise InputError(jvm_ended(error)) from error
        finally:
            if not is_over:
                spark.stop()

    @contextmanager
    def tables(self) -> Iterator[Tables]:
        """Open a session and yield the tables, or the part that is wanted of them, having said what they are without.

        Raises InputError if there are none, or nothing of them is wanted.
        """
        with self.session() as spark:
            yield self._read(spark)

    def _read(self, spark: SparkSession) -> Tables:
        found = Tables(spark, self.path or "").require()
        for text in of_tables(found.files):
            tell(f"{self.path}: {text}")
        _require_brokers(found, self.brokers)
        since, until = resolved(found, self.since, self.until)
        if since is not None and until is not None and since >= until:
            raise InputError(f"--since {moment_text(since)} is not before --until {moment_text(until)}")
        wanted = found.within(Scope(since, until, self.brokers))
        for text in of_dropped(wanted):
            tell(f"{self.path}: {text}")
        return wanted


def spark_job(command: Command) -> Command:
    """Add --master and --conf; the command gets its `job`."""

    @click.option("--master", metavar="URL", help="Spark's master. Default: spark-submit's, else this machine's cores.")
    @click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's; repeatable.")
    @functools.wraps(command)
    def wrapped(*args: Any, master: str | None, conf: tuple[str, ...], **kwargs: Any) -> None:
        command(*args, job=Job(master, conf), **kwargs)

    return wrapped


def tables_job(command: Command) -> Command:
    """Add the tables that are read, --since, --until and --broker, and what `spark_job` adds."""

    @click.argument("path", metavar="TABLES")
    @click.option(
        "--since", type=MOMENT, metavar="MOMENT", help="From 2026-11-21T03:10:00Z, 03:10 (UTC), or 6h before the end."
    )
    @click.option("--until", type=MOMENT, metavar="MOMENT", help="Up to this second, without it.")
    @click.option(
        "--broker", "brokers", type=int, multiple=True, metavar="ID", help="Only what its sidecar recorded; repeatable."
    )
    @spark_job
    @functools.wraps(command)
    def wrapped(*args: Any, job: Job, **kwargs: Any) -> None:
        read = {name: kwargs.pop(name) for name in ("path", "since", "until", "brokers")}
        command(*args, job=job._replace(**read), **kwargs)

    return wrapped


def output_options(command: Command) -> Command:
    """Add --out and --format."""

    @click.option("--out", metavar="PATH", help="Write the whole result there: any path that Hadoop understands.")
    @click.option("--format", "form", type=click.Choice(FORMATS), default="parquet", show_default=True)
    @functools.wraps(command)
    def wrapped(*args: Any, out: str | None, form: str, **kwargs: Any) -> None:
        command(*args, output=(out, form), **kwargs)

    return wrapped


def _require_brokers(found: Tables, brokers: tuple[int, ...]) -> None:
    """Raise InputError for a broker of which there is nothing: a typing error would be told as nothing to tell."""
    known = found.brokers() if brokers else set()
    missing = [broker for broker in brokers if broker not in known]
    if missing:
        told = listed(sorted(known), MAX_BROKERS)
        raise InputError(f"--broker {missing[0]}: expected one whose journals are in the tables ({told})")


def resolved(found: Tables, *moments: Moment | None) -> list[int | None]:
    """Return these in seconds since 1970. Raises InputError if one counts from the end, and nothing was recorded."""
    last = None
    if any(moment is not None and moment.seconds is None for moment in moments):
        last = found.last_second()
        if last is None:
            raise InputError(f"{found.storage.named}: no traffic in the tables: nothing has an end to count from")
    return [None if moment is None else moment.resolve(last or 0) for moment in moments]


def require_room(spark: SparkSession, path: str) -> None:
    """Raise InputError unless nothing is there, or an earlier result: Spark removes all that it finds, below it too."""
    place = Storage(spark, path)
    others = [name for name in place.names(place.root) if _OF_A_RESULT.match(name) is None]
    is_table = LOG in others
    if others or is_table:
        found = "one of the tables" if is_table else ", ".join(map(repr, others[:3]))
        raise InputError(
            f"{path}: expected nothing, or an earlier result, whose place the new one takes; found {found}:"
            " choose another place, or remove what is there"
        )


def put_out(frame: DataFrame, output: tuple[str | None, str], *, rows: int = SHOWN_ROWS) -> None:
    """Write the frame where it is wanted, or print its first rows."""
    path, form = output
    if path is not None:
        require_room(frame.sparkSession, path)
        writer = frame.write.mode("overwrite").format(form)
        if form == "csv":
            writer = writer.option("header", "true")
        writer.save(path)
        tell(f"written to {path}")
        return
    found = frame.limit(rows + 1).collect()
    click.echo(columns(frame.columns, [[cell(value) for value in row] for row in found[:rows]]))
    if len(found) > rows:
        tell(f"more than {rows} rows: use --out for all of them")
    elif not found:
        tell("no rows")


def columns(names: Iterable[str], rows: list[list[str]]) -> str:
    """Return a table for a terminal."""
    names = list(names)
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    lines = [names, *rows]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )

"""``stream``: the live journals, watched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import InputError
from ..journals import stream
from ..terminal import printable
from .options import put_out, session, spark_options, tell

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_SECONDS = 5


@click.command("stream", short_help="Progress, ETA and stalls from the live journals.")
@click.argument("source", metavar="JOURNALS")
@click.option("--into", "target", required=True, metavar="TABLES", help="Tables, and what was offered.")
@click.option("--textfile", type=click.Path(path_type=Path), help="For node_exporter's textfile collector.")
@click.option("--once", is_flag=True, help="Stop when what is there now is done.")
@click.option("--files-at-once", type=click.IntRange(1), default=100, show_default=True)
@spark_options
def command(
    source: str,
    target: str,
    textfile: Path | None,
    files_at_once: int,
    spark_settings: tuple[str | None, tuple[str, ...]],
    *,
    once: bool,
) -> None:
    """Take the sidecars' journals as their files are closed: set journal.rotate_every to some ten seconds.

    TABLES are those of `ingest`, to the row: every other job reads them, and both may write them at once. After each
    batch of files what they say now is printed, and written to --textfile for Prometheus; what is missing is said. A
    file may come late, twice, or before it is whole. With --once exit status 1 says that something is missing.

    \b
    Example:
      python -m pipeline stream /journals --into tables --textfile /var/lib/node_exporter/pipeline.prom
    """
    if textfile is not None and not textfile.parent.is_dir():
        raise InputError(f"--textfile: {textfile}: expected its folder to be there, found none")
    with session("stream", spark_settings) as spark:
        live = stream.Live(spark, source, target, tell=tell)
        query = live.start(once=once, files_at_once=files_at_once)
        try:
            complete = watch(query, live, textfile)
        finally:
            query.stop()
    if once and not complete:
        click.get_current_context().exit(1)


def watch(query: StreamingQuery, live: stream.Live, textfile: Path | None) -> bool:
    """Tell each batch until the query ends; return whether no journal file was incomplete and the text file, if one is
    wanted, was written at the end."""
    complete, ended, written = True, False, True
    while not ended:
        ended = bool(query.awaitTermination(LOOK_SECONDS))
        live.look_again()
        news = live.news()
        for outcome in news:
            complete = complete and outcome.is_complete
            for trouble in outcome.troubles:
                click.echo(printable(trouble))
        if news or ended:
            written = _show(live, textfile)
    return complete and written


def _show(live: stream.Live, textfile: Path | None) -> bool:
    """Return whether the text file, if one is wanted, was written."""
    now = stream.state(live.tables.recent("seconds"), live.tables.recent("traffic"), live.tables.events)
    put_out(now, (None, ""))
    if textfile is not None:
        counts = live.tables.files.groupBy("state").agg({"*": "count"}).orderBy("state").collect()
        text = stream.exposition(now.collect(), [(row[0], row[1]) for row in counts])
        try:
            stream.write_textfile(textfile, text)
        except OSError as error:
            # The next batch tries again: a full disk beside them is no reason to end what fills the tables.
            tell(f"{textfile}: cannot be written: {error.strerror}")
            return False
        tell(f"written to {textfile}")
    return True

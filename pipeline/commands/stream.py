"""``stream``: the live journals, watched."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import InputError
from ..journals import stream
from ..questions import present_state
from ..terminal import cell, printable, tell
from .options import columns, spark_job

if TYPE_CHECKING:
    from collections.abc import Callable

    from .options import Job

LOOK_SECONDS = 5


@click.command("stream", short_help="Progress, ETA and stalls from the live journals.")
@click.argument("source", metavar="JOURNALS")
@click.option("--into", "target", required=True, metavar="TABLES", help="Where the tables are, or will be.")
@click.option("--textfile", type=click.Path(path_type=Path), help="For node_exporter's textfile collector.")
@click.option("--once", is_flag=True, help="Stop when what is there now is done.")
@spark_job
def command(source: str, target: str, textfile: Path | None, job: Job, *, once: bool) -> None:
    """Take the sidecars' journals as their files are closed: set journal.rotate_every = "15s".

    TABLES are those of `ingest`, to the row: every other job reads them, and both may write them at once. After each
    batch of files what they say now is printed, and written to --textfile for Prometheus; what is missing is said. A
    file may come late, twice, or before it is whole. With --once exit status 1 says that something is missing.

    \b
    Example:
      python -m pipeline stream /journals --into tables --textfile /var/lib/node_exporter/pipeline.prom
    """
    if textfile is not None and not textfile.parent.is_dir():
        raise InputError(f"--textfile: {textfile}: expected its folder to be there, found none")
    with job.session() as spark:
        live = stream.Live(spark, source, target, tell=tell)
        complete = watch(live, textfile, once=once)
    if not complete:
        click.get_current_context().exit(1)


def watch(live: stream.Live, textfile: Path | None, *, once: bool, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Look again and again, and show what the tables say after each look that took something. `once`: look once, and
    return whether nothing is missing of what it took, and the text file, if one is wanted, was written."""
    shown = False
    while True:
        outcome = live.look()
        for trouble in outcome.troubles:
            click.echo(printable(trouble))
        if once:
            return _show(live, textfile) and outcome.is_complete
        # Begun anew over tables that are there already, it says at once what they say.
        if outcome.files or not (shown or live.tables.last_second() is None):
            _show(live, textfile)
            shown = True
        sleep(LOOK_SECONDS)


def _show(live: stream.Live, textfile: Path | None) -> bool:
    """Return whether the text file, if one is wanted, was written."""
    now = present_state.state(live.tables)
    click.echo(columns(now[0].asDict(), [[cell(value) for value in row] for row in now]) if now else "no traffic yet")
    if textfile is not None:
        counts = live.tables.files.groupBy("state").agg({"*": "count"}).orderBy("state").collect()
        text = present_state.exposition(now, [(row[0], row[1]) for row in counts])
        try:
            stream.write_textfile(textfile, text)
        except OSError as error:
            # The next look tries again: a full disk beside them is no reason to end what fills the tables.
            tell(f"{textfile}: cannot be written: {error.strerror}")
            return False
        tell(f"written to {textfile}")
    return True

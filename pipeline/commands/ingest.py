"""``ingest``: journals in, tables out."""

from __future__ import annotations

import click

from ..journals.ingest import ingest
from ..terminal import printable, tell
from .options import Job, spark_job


@click.command("ingest", short_help="Journals to tables; run it as often as you like.")
@click.argument("sources", nargs=-1, required=True)
@click.option("--into", "target", required=True, metavar="TABLES", help="Where the tables are, or will be.")
@spark_job
def command(sources: tuple[str, ...], target: str, job: Job) -> None:
    """Read the sidecars' journals below SOURCES into Delta Lake tables by date.

    Each line is taken once, however often and in whatever order it is fed; files that were read whole are not read
    again. A torn file gives its whole lines. What is not a line of a journal is set aside in TABLES/quarantine, with
    the reason. Killed at any moment, the next run puts things right; others may read and write meanwhile.

    Exit status 0 says that nothing is missing of what was read. It is 1 if a file was torn, damaged, corrupt or could
    not be read, or a line was set aside; which, and why, is printed, and everything else was taken. What is known
    already, and has not changed, is not read again.

    \b
    Examples:
      python -m pipeline ingest /var/lib/throttle/journal --into tables
      python -m pipeline ingest 's3a://journals/*' --into s3a://lake/throttle --master yarn
    """
    with job.session() as spark:
        outcome = ingest(spark, sources, target, tell=tell)
    states = ", ".join(f"{count} {state}" for state, count in sorted(outcome.files.items())) or "none"
    click.echo(f"files: {states}; unchanged: {outcome.skipped_files}")
    click.echo(f"lines: {outcome.lines}, of them set aside: {outcome.quarantined}")
    if outcome.quarantined:
        click.echo(f"they are in {target.rstrip('/')}/quarantine")
    for trouble in outcome.troubles:
        click.echo(printable(trouble))
    if not outcome.is_complete:
        click.get_current_context().exit(1)

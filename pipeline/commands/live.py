"""``stream``: the live journals, watched."""

from __future__ import annotations

from pathlib import Path

import click

from .. import stream
from .options import put_out, session, spark_options, tell


@click.command("stream", short_help="Progress, ETA and stalls from the live journals.")
@click.argument("source", metavar="JOURNALS")
@click.option("--into", "target", required=True, metavar="PATH", help="Seconds and checkpoint: go on where it stopped.")
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
    """Sum up the sidecars' journals as their files are closed: set journal.rotate_every to some ten seconds.

    Seconds go to PATH/seconds, each once, also when this is killed and started again. What they say now is printed, and
    written to --textfile for Prometheus. A minute behind: that late a line may come.

    \b
    Example:
      python -m pipeline stream /journals --into live --textfile /var/lib/node_exporter/pipeline.prom
    """
    with session("stream", spark_settings) as spark:
        query = stream.start(spark, source, target, once=once, files_at_once=files_at_once)
        told = -1
        while query.isActive or told < 0:
            finished = query.awaitTermination(None if once else 5)
            progress = query.lastProgress
            batch = progress.batchId if progress is not None else 0
            if batch == told and not finished:
                continue
            told = batch
            now = stream.state(spark.read.parquet(f"{target}/seconds"))
            put_out(now, (None, ""))
            if textfile is not None:
                stream.write_textfile(textfile, stream.exposition(now.collect()))
                tell(f"written to {textfile}")

"""``report``: one page for people."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import InputError
from ..report.facts import collect
from ..report.page import render
from .options import session, spark_options, tables, tell


@click.command("report", short_help="One self-contained HTML page.")
@click.argument("path", metavar="TABLES")
@click.option("--out", type=click.Path(path_type=Path), default=Path("report.html"), show_default=True)
@spark_options
def command(path: str, out: Path, spark_settings: tuple[str | None, tuple[str, ...]]) -> None:
    """Rates against quotas, worst windows, lag and ETA, moves, topics and what-if, on one page to forward.

    Nothing is loaded from elsewhere; light and dark, phone and paper.

    \b
    Example:
      python -m pipeline report tables --out report.html
    """
    with session("report", spark_settings) as spark:
        page = render(collect(spark, tables(spark, path)))
    try:
        out.write_text(page, "utf-8")
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}") from error
    tell(f"written to {out}")

"""``report``: one page for people."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import InputError
from ..report.facts import collect
from ..report.page import render
from ..storage import Storage
from .options import session, spark_options, tables, tell


@click.command("report", short_help="One self-contained HTML page.")
@click.argument("path", metavar="TABLES")
@click.option("--out", default="report.html", show_default=True, help="Any path that Hadoop understands.")
@spark_options
def command(path: str, out: str, spark_settings: tuple[str | None, tuple[str, ...]]) -> None:
    """Rates against quotas, worst windows, lag and ETA, moves, topics and what-if, on one page to forward.

    Nothing is loaded from elsewhere; light and dark, phone and paper.

    \b
    Example:
      python -m pipeline report tables --out report.html
    """
    with session("report", spark_settings) as spark:
        page = render(collect(spark, tables(spark, path)))
        if "://" in out or out.startswith("file:"):
            Storage(spark, out).write_text(out, page)
        else:
            _write_here(Path(out), page)
    tell(f"written to {out}")


def _write_here(out: Path, page: str) -> None:
    try:
        out.write_text(page, "utf-8")
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}") from error

"""``report``: one page for people, and its numbers for scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import InputError
from ..report.facts import collect
from ..report.page import render
from ..tables.storage import Storage
from ..terminal import printable, tell
from .options import tables_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .options import Job


@click.command("report", short_help="One self-contained HTML page.")
@click.option("--out", default="report.html", show_default=True, help="Any path that Hadoop understands.")
@click.option("--json", "json_out", metavar="PATH", help="Write its answers and numbers there as well, for scripts.")
@click.option("--check", is_flag=True, help="End with 3 if the bound was broken, 4 if nothing says whether.")
@tables_job
def command(job: Job, out: str, json_out: str | None, *, check: bool) -> None:
    """Report what moved, whether the bound was kept, what to set next time and why; then who, when, and each trouble.

    One HTML file: nothing is loaded from elsewhere; light and dark, phone and paper. Its plots answer to a pointer.

    \b
    Examples:
      python -m pipeline report tables --out report.html
      python -m pipeline report tables --since 6h --json report.json --check
    """
    if out == json_out:
        raise click.UsageError(f"expected --out and --json to be two places, found {out} for both")
    with job.tables() as found:
        for place in filter(None, (out, json_out)):
            _require_place(found.spark, place)
        facts = collect(found)
        texts = {out: render(facts)}
        if json_out is not None:
            texts[json_out] = json.dumps(facts.as_json(), ensure_ascii=False, indent=1) + "\n"
        for place, text in texts.items():
            _write(found.spark, place, text)
            tell(f"written to {place}")
    click.echo(printable(facts.moved))
    for answer in facts.answers:
        click.echo(printable(answer.sentence))
    if check:
        click.get_current_context().exit(facts.kept.verdict.value)


def _require_place(spark: SparkSession, place: str) -> None:
    """Raise InputError, before all the work, for what cannot be a file. A folder's place would be taken by the page."""
    is_folder = Storage(spark, place).is_directory(place) if _is_uri(place) else Path(place).is_dir()
    if is_folder:
        raise InputError(f"{place}: cannot be written: expected a file, found a folder")
    if not _is_uri(place) and not Path(place).parent.is_dir():
        raise InputError(f"{place}: cannot be written: expected its folder to be there, found none")


def _is_uri(place: str) -> bool:
    return "://" in place or place.startswith("file:")


def _write(spark: SparkSession, place: str, text: str) -> None:
    if _is_uri(place):
        Storage(spark, place).write_text(place, text)
        return
    try:
        Path(place).write_text(text, "utf-8")
    except OSError as error:
        raise InputError(f"{place}: cannot be written: {error.strerror}") from error

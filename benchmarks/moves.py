"""The table of moves at quota in docs/benchmarks.md, from what `make system` measured.

    python -m benchmarks.moves                             print it
    python -m benchmarks.moves --write docs/benchmarks.md  put it between its marks there

Knows the results' format alone. Invariant: text outside the marks is never touched.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import click

RESULTS = Path(__file__).parents[1] / "build" / "moves.jsonl"
BEGIN, END = "<!-- moves: begin -->", "<!-- moves: end -->"
LEAST_SECONDS_FOR_DEVIATION = 5.0
"""A move that is over in one burst has no seconds between the first and the last to compare."""
COLUMNS = (
    ("mean / Q", "mean_over_quota", 2),
    ("worst second / Q", "worst_second_over_quota", 2),
    ("worst 11 s / Q", "worst_11_seconds_over_quota", 2),
    ("st. dev. of a second / Q", "deviation_over_quota", 2),
    ("fetches/s per link", "fetches_per_second", 1),
    ("acks=all p95, ms", "live_p95_ms", 0),
    ("acks=all worst, ms", "live_worst_ms", 0),
)


@click.command()
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="What `make system` left.")
@click.option(
    "--write", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A document with the marks."
)
def main(results: Path, write: Path | None) -> None:
    """Make the table of moves at quota, the broker's own quota and the sidecar's side by side."""
    if not results.exists():
        raise click.ClickException(f"{results}: no results: run `make system` first")
    rows = [json.loads(line) for line in results.read_text("utf-8").splitlines()]
    text = table(rows)
    if write is None:
        click.echo(text)
        return
    document = write.read_text("utf-8")
    if BEGIN not in document or END not in document:
        raise click.ClickException(f"{write}: expected the marks {BEGIN} and {END}")
    before, _, rest = document.partition(BEGIN)
    write.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}", "utf-8")
    click.echo(f"{write}: {len(rows)} rows")


def table(rows: list[dict[str, Any]]) -> str:
    """Return Markdown: one block of rows per case, in the order in which cases first came."""
    by_case: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_case[row["case"]].append(row)
    lines = [
        "| case | who throttles | " + " | ".join(title for title, _, _ in COLUMNS) + " |",
        "|---|---|" + "---|" * len(COLUMNS),
    ]
    for case, found in by_case.items():
        lines += [f"| {case} | {_who(row['how'])} | {_figures(row)} |" for row in found]
    return "\n".join(lines)


def _who(how: str) -> str:
    return f"**{how}**" if how.startswith("sidecar") else f"broker, {how.removeprefix('native ')}"


def _figures(row: dict[str, Any]) -> str:
    if row["duration_seconds"] < LEAST_SECONDS_FOR_DEVIATION:
        row = {**row, "deviation_over_quota": None}
    shown = ((row.get(key), digits) for _, key, digits in COLUMNS)
    return " | ".join("" if value is None else f"{value:.{digits}f}" for value, digits in shown)


if __name__ == "__main__":
    main()

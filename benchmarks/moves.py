"""The tables of moves at quota in docs/benchmarks.md, from what `make system` measured: by case, by version,
and by what brokers encrypt and authenticate.

    python -m benchmarks.moves                             print them
    python -m benchmarks.moves --write docs/benchmarks.md  put each between its marks there

Knows the results' format alone. Invariant: text outside the marks is never touched, nor a table without results.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from .document_part import DocumentPart
from .results import BUILD, kept

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, Any]

RESULTS = BUILD / "moves.jsonl"
VERSION_RESULTS = BUILD / "moves_by_version.jsonl"
SECURED_RESULTS = BUILD / "secured_moves.jsonl"
MIN_SECONDS_FOR_DEVIATION = 5.0
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
VERSION_COLUMNS = (
    ("mean / Q", "mean_over_quota", 2),
    ("worst second / Q", "worst_second_over_quota", 2),
    ("st. dev. / Q", "deviation_over_quota", 2),
    ("fetches/s", "fetches_per_second", 0),
    ("acks=all p95, ms", "live_p95_ms", 0),
    ("worst, ms", "live_worst_ms", 0),
)
SECURED_COLUMNS = tuple(each for each in VERSION_COLUMNS if not each[0].startswith(("st. dev.", "fetches")))
SIDES = ("leader", "follower", "both")
SECURITIES = {
    "mtls": "mTLS on both legs",
    "tls_between": "TLS in, plaintext to the broker beside",
    "sasl_ssl": "SASL_SSL, SCRAM-SHA-512",
    "sasl_plaintext": "SASL_PLAINTEXT, PLAIN",
}


class Table(NamedTuple):
    """A file of results, where in the document its table stands, and how it is made."""

    results: Path
    part: DocumentPart
    make: Callable[[list[Row]], str]

    def text(self) -> str:
        """Return the table. Raises ClickException: there are no results, or a line is not JSON."""
        return self.make(kept(self.results, "run `make system` first"))


@click.command()
@click.option("--results", type=click.Path(path_type=Path), default=RESULTS, help="Of moves by case.")
@click.option("--versions", type=click.Path(path_type=Path), default=VERSION_RESULTS, help="Of moves by version.")
@click.option("--secured", type=click.Path(path_type=Path), default=SECURED_RESULTS, help="Of secured clusters.")
@click.option(
    "--write", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A document with the marks."
)
def main(results: Path, versions: Path, secured: Path, write: Path | None) -> None:
    """Make the tables of moves at quota, the broker's own quota and the sidecar's side by side.

    A table whose results are not there stays as it is.
    """
    tables = [
        Table(results, DocumentPart("moves"), table),
        Table(versions, DocumentPart("moves by version"), table_by_version),
        Table(secured, DocumentPart("secured moves"), table_of_secured),
    ]
    measured = [each for each in tables if each.results.exists()]
    if not measured:
        raise click.ClickException(f"none of {results}, {versions}, {secured} is there: run `make system` first")
    if write is None:
        click.echo("\n\n".join(each.text() for each in measured))
        return
    document = write.read_text("utf-8")
    for each in measured:
        document = each.part.put(document, each.text(), write)
    write.write_text(document, "utf-8")
    for each in tables:
        click.echo(f"{write}: {each.part.name}: {'written' if each in measured else f'as it was: no {each.results}'}")


def table(rows: list[Row]) -> str:
    """Return Markdown: one block of rows per case, in the order in which cases first came."""
    by_case: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_case[row["case"]].append(row)
    lines = _head("case", "who throttles", *(title for title, _, _ in COLUMNS))
    for case, found in by_case.items():
        lines += [f"| {case} | {_who(row['how'])} | {_figures(row)} |" for row in found]
    return "\n".join(lines)


def table_by_version(rows: list[Row]) -> str:
    """Return Markdown: one row per version and side; in each cell the broker's own quota, then the sidecar's. What was
    measured again counts as it was last."""
    last = {(row["fetch_version"], row["kafka"], row["side"], row["how"]): row for row in rows}
    by_move: dict[tuple[int, str, str], list[Row]] = defaultdict(list)
    for (version, kafka, side, _), row in sorted(last.items(), key=lambda each: each[0][0]):
        by_move[version, kafka, side].append(row)
    lines = _head("Fetch", "Kafka", "side", *(f"{title}: own, **sidecar**" for title, _, _ in VERSION_COLUMNS))
    for (version, _, side), found in by_move.items():
        about = found[0]
        who = f"{about['protocol']} on {about['kafka']}, {'KRaft' if about['mode'] == 'kraft' else 'ZooKeeper'}"
        cells = (_beside(found, key, digits) for _, key, digits in VERSION_COLUMNS)
        lines.append(f"| v{version} | {who} | {side} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def table_of_secured(rows: list[Row]) -> str:
    """Return Markdown: one row per version and security; in each cell the leader's side, the follower's, both. What
    was measured again counts as it was last."""
    by_cluster: dict[tuple[int, str, str], dict[str, Row]] = defaultdict(dict)
    for row in rows:
        version = max(int(version) for version in row["fetch_versions"])
        by_cluster[version, row["kafka"], row["security"]][row["side"]] = row
    lines = _head("Fetch", "Kafka", "security", *(title for title, _, _ in SECURED_COLUMNS))
    clusters = sorted(by_cluster, key=lambda cluster: (*cluster[:2], list(SECURITIES).index(cluster[2])))
    for version, kafka, security in clusters:
        found = by_cluster[version, kafka, security]
        protocol = next(iter(found.values()))["protocol"]
        cells = (
            ", ".join(_number(found[side].get(key), digits) if side in found else "" for side in SIDES)
            for _, key, digits in SECURED_COLUMNS
        )
        lines.append(f"| v{version} | {protocol} on {kafka} | {SECURITIES[security]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _head(*titles: str) -> list[str]:
    return ["| " + " | ".join(titles) + " |", "|" + "---|" * len(titles)]


def _beside(found: list[Row], key: str, digits: int) -> str:
    own = [_number(_shown(row).get(key), digits) for row in found if not row["how"].startswith("sidecar")]
    ours = [_number(_shown(row).get(key), digits) for row in found if row["how"].startswith("sidecar")]
    return ", ".join([*own, *(f"**{number}**" for number in ours)])


def _who(how: str) -> str:
    return f"**{how}**" if how.startswith("sidecar") else f"broker, {how.removeprefix('native ')}"


def _figures(row: Row) -> str:
    shown = _shown(row)
    cells = ((shown.get(key), digits) for _, key, digits in COLUMNS)
    return " | ".join("" if value is None else _number(value, digits) for value, digits in cells)


def _shown(row: Row) -> Row:
    return {**row, "deviation_over_quota": None} if row["duration_seconds"] < MIN_SECONDS_FOR_DEVIATION else row


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


if __name__ == "__main__":
    main()

"""The pipeline's jobs over a month of journals, each as a person starts it, held against the truth."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING, NamedTuple

from pipeline.tables.scope import moment_text

from ..pipeline import Cost, run
from .outages import START, Month, outages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Any

Truth = dict[str, "Any"]


class Job(NamedTuple):
    """arguments: `{tables}`, `{folder}` and `{odd}`, a moment of the odd night, are filled in. check: returns what was
    found and what is true, from the folder, what was printed, and the truth."""

    arguments: str
    check: Callable[[Path, str, Truth], tuple[object, object]] | None = None
    statuses: tuple[int, ...] = (0,)


def _rates(folder: Path, _: str, truth: Truth) -> tuple[object, object]:
    found: dict[str, int] = {}
    for row in _table(folder / "rates"):
        key = f"{row['broker']} {row['role']}"
        found[key] = found.get(key, 0) + int(row["record_bytes"])
    keys = found.keys() | {key for key, size in truth["bytes"].items() if size}
    other = {key for key in keys if found.get(key) != truth["bytes"].get(key)}
    return {key: found.get(key) for key in other}, {key: truth["bytes"].get(key) for key in other}


def _audit(folder: Path, _: str, truth: Truth) -> tuple[object, object]:
    broken = {f"{row['broker']} {row['role']}" for row in _table(folder / "audit") if row["verdict"] == "broken"}
    return sorted(broken), sorted(truth["broken"])


def _moves(folder: Path, _: str, truth: Truth) -> tuple[object, object]:
    rows = list(_table(folder / "moves"))
    return (len(rows), sum(int(row["bytes"]) for row in rows)), (truth["moves"], truth["moved_bytes"])


def _starved(_: Path, printed: str, truth: Truth) -> tuple[object, object]:
    ends = [f"from {source} to {destination}" for source, destination in truth["starved"]]
    return all(end in printed for end in ends), True


def _report(folder: Path, _: str, truth: Truth) -> tuple[object, object]:
    links = json.loads((folder / "report.json").read_text("utf-8"))["links"]
    found = sum(link["moves"] for link in links), sum(link["bytes"] for link in links)
    return found, (truth["moves"], truth["moved_bytes"])


ANSWERED = (0, 3)
"""The exit statuses of questions: a good answer, or a bad one."""
JOBS = {
    "ingest": Job("ingest {folder}/journals --into {tables}"),
    "rates": Job("rates {tables} --out {folder}/rates --format csv", _rates),
    "audit": Job("audit {tables} --out {folder}/audit --format csv", _audit),
    "summarise": Job("summarise {tables}"),
    "lag": Job("lag {tables} --out {folder}/lag --format csv"),
    "moves": Job("moves {tables} --out {folder}/moves --format csv", _moves),
    "ask will-it-finish": Job("ask will-it-finish {tables}", statuses=ANSWERED),
    "ask was-it-kept": Job("ask was-it-kept {tables}", statuses=(3,)),
    "ask what-rate": Job("ask what-rate {tables} --finish-in 2h", statuses=ANSWERED),
    "ask what-happened": Job("ask what-happened {tables} --at {odd}", statuses=ANSWERED),
    "ask who-was-starved": Job("ask who-was-starved {tables}", _starved, statuses=(3,)),
    "report": Job("report {tables} --out {folder}/report.html --json {folder}/report.json", _report),
}


def measure(folder: Path, names: Sequence[str], *, cores: int, memory: str) -> Iterator[tuple[Cost, str]]:
    """Do these jobs, one after the other; yield what each took, and the first line that it printed.

    Raises RuntimeError if what comes out is not true.
    """
    truth = json.loads((folder / "truth.json").read_text("utf-8"))
    month = Month(truth["brokers"], truth["days"], truth["scale"], truth["seed"])
    odd = moment_text(START + min(one.violates_at for one in outages(month) if one.violates_at >= 0))
    for name in names:
        job = JOBS[name]
        arguments = job.arguments.format(tables=folder / "tables", folder=folder, odd=odd).split()
        printed, cost = run(
            name, arguments, folder, rows=truth["rows"], cores=cores, memory=memory, statuses=job.statuses
        )
        if job.check is not None:
            found, expected = job.check(folder, printed, truth)
            if found != expected:
                raise RuntimeError(f"{name}: expected {expected}, found {found}")
        yield cost, printed.partition("\n")[0]


def _table(folder: Path) -> Iterator[dict[str, str]]:
    for part in folder.glob("part-*.csv"):
        with part.open(encoding="utf-8", newline="") as text:
            yield from csv.DictReader(text)

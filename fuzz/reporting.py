"""Results of a run: a table for people, JSON lines for machines, and the sum of several runs. Pure."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from .campaign import Result
from .invariant import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HEAD = (
    "thrown", "mode", "how many", "connections", "MB", "s", "the victim's fetches", "their p99, worst (ms)",
    "the control's", "/healthz, worst (ms)", "memory before, most, after (MiB)", "ended by", "broken",
)  # fmt: skip
SUMMED = ("things", "connections", "sent_bytes", "seconds", "victim_fetches", "sidecar_cpu_seconds")
WORST = (
    "victim_p50_ms", "victim_p99_ms", "victim_worst_ms", "control_p99_ms", "control_worst_ms", "healthz_worst_ms",
    "first_bytes", "peak_bytes", "last_bytes",
)  # fmt: skip
"""The figures of which a table has the worst mode's, percentiles too."""


def table(results: Sequence[Result]) -> str:
    """Return a table in Markdown, with the findings below."""
    rows = [HEAD, ("---",) * len(HEAD), *(_row(result) for result in results)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines += ["", *(line for result in results for line in _findings(result))]
    return "\n".join(lines)


def as_json(results: Sequence[Result]) -> str:
    """Return a line for each family and mode; findings without their bytes, which the corpus has."""
    return "".join(json.dumps(_plain(result)) + "\n" for result in results)


def from_json(text: str) -> list[Result]:
    """Read what `as_json` wrote, with the signatures of findings alone. Raises ValueError for anything else."""
    try:
        rows = [json.loads(line) for line in text.splitlines()]
        return [Result(**{**row, "findings": [], "ended": _ended(row)}) for row in rows]
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no results of a run: {error}") from error


def _ended(row: dict[str, Any]) -> dict[str, int]:
    """Count findings beside the causes of ends, so that a sum of runs cannot hide one."""
    return {**Counter(f"BROKEN {one['signature']}" for one in row["findings"]), **row["ended"]}


def summed(results: Iterable[Result]) -> list[Result]:
    """Return one result for each family, over all modes and runs."""
    by_family: dict[str, list[Result]] = {}
    for result in results:
        by_family.setdefault(result.family, []).append(result)
    return [_sum(family, of) for family, of in by_family.items()]


def _sum(family: str, of: Sequence[Result]) -> Result:
    total = Result(family, f"{len({one.mode for one in of})} modes")
    for name in SUMMED:
        setattr(total, name, sum(getattr(one, name) for one in of))
    for name in WORST:
        setattr(total, name, max(getattr(one, name) for one in of))
    for one in of:
        total.ended = dict(Counter(total.ended) + Counter(one.ended))
        total.findings += one.findings
        total.given_up = total.given_up or one.given_up
    return total


def _row(result: Result) -> tuple[str, ...]:
    causes = sorted(result.ended.items(), key=lambda one: -one[1])
    return (
        result.family,
        result.mode,
        f"{result.things:,}".replace(",", " "),
        f"{result.connections:,}".replace(",", " ") if result.connections else "",
        f"{result.sent_bytes / 1e6:.0f}" if result.sent_bytes else "",
        f"{result.seconds:.0f}",
        f"{result.victim_fetches:,}".replace(",", " "),
        f"{result.victim_p99_ms:.1f}, {result.victim_worst_ms:.0f}",
        f"{result.control_p99_ms:.1f}, {result.control_worst_ms:.0f}",
        f"{result.healthz_worst_ms:.0f}",
        f"{result.first_bytes / MIB:.0f}, {result.peak_bytes / MIB:.0f}, {result.last_bytes / MIB:.0f}",
        ", ".join(f"{cause} {count}" for cause, count in causes),
        str(sum(one.times for one in result.findings)) + (", given up" if result.given_up else ""),
    )


def _findings(result: Result) -> list[str]:
    return [
        f"- {result.family} in mode {result.mode}: {one.breach.signature} ({one.times} times, first after "
        f"{one.after_frames} and {one.after_seconds:.1f} s){f': {one.doing}' if one.doing else ''}"
        for one in result.findings
    ]


def _plain(result: Result) -> dict[str, object]:
    said = asdict(result)
    said["findings"] = [
        {"signature": one.breach.signature, "detail": one.breach.detail, "doing": one.doing, "times": one.times,
         "after_frames": one.after_frames, "after_seconds": one.after_seconds, "shown_again": one.shown_again}
        for one in result.findings
    ]  # fmt: skip
    return said

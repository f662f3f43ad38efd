"""What came of a run: a table for people, JSON lines for machines. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from .invariant import MIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .campaign import Result

HEAD = (
    "thrown", "mode", "how many", "connections", "MB", "s", "the victim's p99, worst (ms)", "the control's",
    "memory before, most, after (MiB)", "ended by", "broken",
)  # fmt: skip


def table(results: Sequence[Result]) -> str:
    """Markdown, with the findings below."""
    rows = [HEAD, ("---",) * len(HEAD), *(_row(result) for result in results)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines += ["", *(line for result in results for line in _findings(result))]
    return "\n".join(lines)


def as_json(results: Sequence[Result]) -> str:
    """A line for each family and mode; findings without their bytes, which the corpus has."""
    return "".join(json.dumps(_plain(result)) + "\n" for result in results)


def _row(result: Result) -> tuple[str, ...]:
    causes = sorted(result.ended.items(), key=lambda one: -one[1])
    return (
        result.family,
        result.mode,
        f"{result.things:,}".replace(",", " "),
        f"{result.connections:,}".replace(",", " ") if result.connections else "",
        f"{result.sent_bytes / 1e6:.0f}" if result.sent_bytes else "",
        f"{result.seconds:.0f}",
        f"{result.victim_p99_ms:.1f}, {result.victim_worst_ms:.0f}",
        f"{result.control_p99_ms:.1f}, {result.control_worst_ms:.0f}",
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

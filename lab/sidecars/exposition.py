"""Reads the Prometheus text format far enough for the lab: names, label sets, values. Pure."""

from __future__ import annotations


def parse_exposition(text: str) -> dict[str, dict[str, float]]:
    """Parse the text into values by metric name, then by label part without braces (empty if none).

    Comments are left out.
    """
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        head, _, tail = line.rpartition("} ") if "{" in line else line.partition(" ")
        name, _, labels = head.partition("{")
        found.setdefault(name, {})[labels] = float(tail.split()[0])
    return found

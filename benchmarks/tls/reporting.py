"""Medians as a table, with their ratios to the first way's. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .measuring import Found

_HEAD = (
    "| | bulk, MB/s | CPU, s/GB | small fetch p50, µs | CPU, µs | connections/s | CPU, ms | memory of each, KiB |\n"
    "|---|---|---|---|---|---|---|---|"
)

_IN_WORDS = {"haproxy": "HAProxy with its defaults"}
"""The ways in words. One that is not installed is left out, so that any way can be the first."""


def table(found: Mapping[str, Found], rounds: int) -> str:
    """Return Markdown: absolute medians, in brackets the ratio to the first."""
    anchor, first = next(iter(found.items()))
    said = _IN_WORDS.get(anchor, anchor)
    lines = [f"Medians of {rounds} rounds; in brackets the ratio to {said}.", "", _HEAD]
    for name, one in found.items():
        cells = (
            (one.bytes_per_second / 1e6, first.bytes_per_second / 1e6, 0),
            (one.cpu_s_per_gb, first.cpu_s_per_gb, 2),
            (one.small_p50_us, first.small_p50_us, 0),
            (one.small_cpu_us, first.small_cpu_us, 0),
            (one.connections_per_second, first.connections_per_second, 0),
            (one.connection_cpu_ms, first.connection_cpu_ms, 2),
            (one.connection_kib, first.connection_kib, 0),
        )
        shown = " | ".join(f"{value:.{digits}f} ({value / of:.2f})" for value, of, digits in cells)
        lines.append(f"| {name} | {shown} |")
    return "\n".join(lines)

"""The table of conditions in docs/runbooks.md, from their declarations."""

from __future__ import annotations

from proxy.diagnostics.conditions import Kind

BEGIN = "| name | severity | do |\n|---|---|---|\n"


def table() -> str:
    rows = (f'| <a id="{kind.label}"></a>`{kind.label}` | {kind.severity.value} | {kind.remedy} |\n' for kind in Kind)
    return BEGIN + "".join(rows)


def with_conditions(page: str) -> str:
    """Return the page with the table as it has to be."""
    before, _, rest = page.partition(BEGIN)
    lines = rest.splitlines(keepends=True)
    while lines and lines[0].startswith("|"):
        lines.pop(0)
    return before + table() + "".join(lines)

"""docs/budget.md: every constant of the budget has its row, and the conversations it names are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "budget.md").read_text("utf-8")
ROWS = re.findall(r"^\| (`[^|]*) \| [^|]* \| ([^|]*) \|$", TEXT, re.MULTILINE)
SOURCES = sorted(set((ROOT / "admission").glob("*.py")) - {ROOT / "admission" / "simple_rate.py"})
TESTS = [path for folder in ("admission", "proxy", "world") for path in (ROOT / "tests" / folder).rglob("test_*.py")]


def test_every_constant_has_its_row_and_no_other() -> None:
    lines = "\n".join(path.read_text("utf-8") for path in SOURCES)
    constants = re.findall(r"^([A-Z][A-Z_]+(?:, [A-Z][A-Z_]+)*) = \d", lines, re.MULTILINE)
    found = {name for line in constants for name in line.split(", ")}
    assert found == {name for names, _ in ROWS for name in re.findall(r"`([A-Z][A-Z_]+)`", names)}


def test_every_conversation_is_there() -> None:
    named = {name for _, without in ROWS for name in re.findall(r"`(\w+)`", without)}
    written = "\n".join(path.read_text("utf-8") for path in TESTS)
    assert {name for name in named if f"def {name}(" not in written} == set()

"""docs/security.md names a test for each thing that was thrown: it is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)")
ROW = re.compile(r"^\| (\d+) \|.*$", re.MULTILINE)


def test_every_row_has_a_test_that_is_there() -> None:
    rows = {int(row[1]): NAMED.findall(row[0]) for row in ROW.finditer((ROOT / "docs/security.md").read_text("utf-8"))}
    assert [number for number, named in rows.items() if not named] == []
    assert list(rows) == list(range(1, 17))
    missing = [
        f"{path}::{name}"
        for named in rows.values()
        for path, name in named
        if not (ROOT / path).is_file() or f"def {name}(" not in (ROOT / path).read_text("utf-8")
    ]
    assert missing == []

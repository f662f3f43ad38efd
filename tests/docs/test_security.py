"""docs/security.md: its bounds and reasons are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from proxy.http.request_checks import Bounds, HttpRefusal

TEXT = (Path(__file__).parents[2] / "docs" / "security.md").read_text("utf-8")
METRICS = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")


def test_every_bound_of_http_and_its_default_is_there_and_no_other() -> None:
    section = TEXT[TEXT.index("\n## HTTP\n") :]
    documented = dict(re.findall(r"^\| `(\w+)`[^|]*\| ([\d.]+) \|", section, re.MULTILINE))
    assert documented == {name: f"{value:g}" if isinstance(value, float) else str(value)
                          for name, value in Bounds()._asdict().items()}  # fmt: skip


def test_every_reason_is_one_and_every_one_is_told() -> None:
    (row,) = [line for line in METRICS.splitlines() if line.startswith("| `replication_throttle_http_refused_total`")]
    reasons = {reason.value for reason in HttpRefusal}
    assert {name for name in re.findall(r"`(\w+)`", row) if name in reasons} == reasons
    section = TEXT[TEXT.index("\n## HTTP\n") :]
    assert set(re.findall(r"\| `([a-z_]+)` \| `test_", section)) <= reasons


def test_every_test_that_it_names_is_one() -> None:
    tests = Path(__file__).parents[1]
    there = {
        name for path in tests.rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
    }
    named = set(re.findall(r"(?<![\w/])(test_\w+)(?![\w.])", TEXT))
    assert len(named) > 50
    assert named - there == set()


def test_every_bound_names_the_test_that_shows_it() -> None:
    unshown = []
    for heading, *rows in (table.splitlines() for table in re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE)):
        bounds = re.match(r"\| (what|bound) \|", heading)
        unshown += [row for row in rows[1:] if bounds and not re.search(r"`test_\w+` \|$", row)]
    assert unshown == []

"""docs/logging.md: every event and no other; what holds a rate, and what makes two lines one cause, as in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proxy.logs.log import CAUSE_KEYS
from proxy.rates.choice import HeldBy

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCES = "\n".join(
    path.read_text("utf-8") for folder in ("proxy", "operating") for path in (ROOT / folder).rglob("*.py")
)


def test_every_event_is_there_and_no_other() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", (DOCS / "logging.md").read_text("utf-8"), re.MULTILINE)
    documented = {event for row in rows for event in re.findall(r"`(\w+)`", row)}
    logged = set(re.findall(r"\blog\.(?:debug|info|warning|error)\(\s*\"(\w+)\"", SOURCES.replace("_log.", "log.")))
    assert len(logged) > 40
    assert logged - documented == set()
    made = tuple(re.findall(r"\"(\w+_)\{", SOURCES))  # f"override_{action}"
    assert {event for event in documented if f'"{event}"' not in SOURCES and not event.startswith(made)} == set()


def test_every_value_of_held_by_is_there() -> None:
    (values,) = re.findall(r"\(`held_by`: (.*?), or a signal of", (DOCS / "logging.md").read_text("utf-8"))
    assert set(re.findall(r"`(\w+)`", values)) == {str(each) for each in HeldBy}


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("logging.md", r"A cause is an event with its (.*?), whoever"),
        ("security.md", r"lines of one cause \(event, (.*?);"),
    ],
)
def test_a_cause_is_what_the_code_takes_for_one(name: str, pattern: str) -> None:
    (keys,) = re.findall(pattern, (DOCS / name).read_text("utf-8"), re.DOTALL)
    assert re.findall(r"`(\w+)`", keys) == list(CAUSE_KEYS)

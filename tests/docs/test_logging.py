"""docs/logging.md: what holds a rate, and what makes two lines one cause, in the words of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proxy.logs.rate import CAUSE_KEYS
from proxy.rates.choice import HeldBy

DOCS = Path(__file__).parents[2] / "docs"


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

"""docs/logging.md: every event and no other; what holds a rate, and what makes two lines one cause, as in the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.logs.log import CAUSE_KEYS
from proxy.rates.choice import HeldBy

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def table() -> dict[str, tuple[str, set[str]]]:
    """Return the level and the keys of each event of the sidecar, as the page has them."""
    rows = {}
    for line in (DOCS / "logging.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if len(cells) == 4 and cells[0].startswith("`"):
            for event in re.findall(r"`(\w+)`", cells[0]):
                rows[event] = (cells[1], set(re.findall(r"`(\w+)`", cells[3])))
    return rows


def calls() -> Iterator[tuple[str, str, set[str]]]:
    """Yield the event, the level and the literal keys of each call of a log."""
    for folder in ("proxy", "operating"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                match node:
                    case ast.Call(
                        func=ast.Attribute(attr="debug" | "info" | "warning" | "error" as level, value=log),
                        args=[ast.Constant(value=str() as event)],
                    ) if ast.unparse(log).endswith("log"):
                        keys = {each.arg for each in node.keywords if each.arg is not None}
                        yield event, level, {"exception" if key == "exc_info" else key for key in keys}


def test_levels_and_keys_are_those_of_the_code() -> None:
    rows = table()
    found = list(calls())
    assert len(found) > 50
    assert [(event, level) for event, level, _ in found if level not in rows[event][0]] == []
    assert [(event, keys - rows[event][1]) for event, _, keys in found if keys - rows[event][1]] == []


def test_every_value_of_held_by_is_there() -> None:
    (values,) = re.findall(r"\(`held_by`: (.*?), or a signal of", (DOCS / "logging.md").read_text("utf-8"))
    assert set(re.findall(r"`(\w+)`", values)) == {str(each) for each in HeldBy}


def test_a_cause_is_what_the_code_takes_for_one() -> None:
    (keys,) = re.findall(
        r"A cause is an event with its (.*?), whatever", (DOCS / "logging.md").read_text("utf-8"), re.DOTALL
    )
    assert re.findall(r"`(\w+)`", keys) == list(CAUSE_KEYS)

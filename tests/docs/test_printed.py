"""Every command that README.md, docs/first-hour.md and docs/pipeline.md print is run by a test, or by a suite that is
named."""

from __future__ import annotations

import re
import shlex

import pytest

from .printed import ELSEWHERE, HERE, PAGES, ROOT, Command, _Reading, printed, suite_of

ALL = [command for page in PAGES for command in printed(page)]


@pytest.mark.parametrize("command", ALL, ids=lambda command: command.line)
def test_a_command_is_run_by_a_test(command: Command) -> None:
    assert suite_of(command) is not None, f"{command}: give it a test in HERE, or name the suite that runs it"
    assert shlex.split(command.line), "it is not what a shell takes"


@pytest.mark.parametrize("suite", sorted({*HERE.values(), *ELSEWHERE.values()}))
def test_the_test_is_there(suite: str) -> None:
    path, _, name = suite.partition("::")
    text = (ROOT / path).read_text("utf-8")
    assert not name or re.search(rf"^(?:async )?def {name}\(", text, re.MULTILINE)


def test_nothing_is_listed_that_no_page_prints() -> None:
    lines = [command.line for command in ALL]
    assert [pattern for pattern in ELSEWHERE if not any(re.fullmatch(pattern, line) for line in lines)] == []
    assert HERE.keys() <= {(command.page, command.section) for command in ALL}


def test_what_a_page_prints() -> None:
    """Indented, fenced and within a sentence; drawings and other languages are none, nor are comments."""
    reading = _Reading("a page")
    page = (
        "# Title\n\n    a ──▶ b\n\nUse `make demo` and\n`ss -tK` or `make`,\n`python -m pipeline ingest` (or `x`)."
        "\n\n## Part\n\n1. Do:\n\n       one  # why\n"
        "       two \\\n         more\n\n```sh\nthree\n```\n\n```toml\nfour = 4\n```\n\n    0 1 * * *  five; six\n"
    )
    for line in page.splitlines():
        reading.take(line)
    reading.end_block()
    assert [(command.section, command.line) for command in reading.found] == [
        ("", "make demo"), ("", "ss -tK"), ("Part", "one"), ("Part", "two more"), ("Part", "three"),
        ("Part", "five; six"),
    ]  # fmt: skip

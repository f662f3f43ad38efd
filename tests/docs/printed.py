"""The commands that README.md, docs/first-hour.md and docs/pipeline.md print, and the test that runs each.

A command is a line of an indented or fenced block, or code within a sentence that begins with a program and has
arguments. `runnable` gives a test the commands of a section in their order. What cannot run there is in `ELSEWHERE`,
with the suite that does it. tests/docs/test_printed.py holds that every command is in one or the other.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/first-hour.md", "docs/pipeline.md")
SHELLS = ("sh", "console", "bash")
_WORD = r"[^\s`]+"
_PROGRAMS = (
    rf"make|throttle-sidecar|\.venv/bin/{_WORD}|python -m {_WORD} {_WORD}|eval|ss|pip|kafka-[a-z-]+|deploy/{_WORD}\.sh"
)
_INLINE = re.compile(rf"(?<!`)`((?:{_PROGRAMS}) [^`…]+)`(?!`)")
_CRON = re.compile(r"^(?:[\d*/,-]+ ){5} *")
_DRAWING = re.compile("[─│▶]")


class Command(NamedTuple):
    """`section` is the heading above it, empty before the first."""

    page: str
    section: str
    line: str


HERE = {
    ("README.md", "Use it"): "tests/system/test_printed_commands.py::test_readme",
    ("docs/first-hour.md", "1. Install"): "tests/deploy/test_printed_install.py::test_first_hour",
    ("docs/first-hour.md", "2. Write two files"): "tests/system/test_printed_commands.py::test_first_hour",
    ("docs/first-hour.md", "3. Put the sidecar in front of the broker"): (
        "tests/system/test_printed_commands.py::test_first_hour"
    ),
    ("docs/first-hour.md", "4. Look"): "tests/system/test_printed_commands.py::test_first_hour",
    ("docs/first-hour.md", "5. Set a rate"): "tests/system/test_printed_commands.py::test_first_hour",
    ("docs/first-hour.md", "6. Metrics"): "tests/system/test_printed_commands.py::test_first_hour",
    ("docs/first-hour.md", "7. Out again"): "tests/system/test_printed_commands.py::test_first_hour",
    ("docs/first-hour.md", "Next: the follower role"): "tests/system/test_printed_commands.py::test_first_hour",
    ("docs/pipeline.md", ""): "tests/deploy/test_printed_install.py::test_pipeline",
    ("docs/pipeline.md", "On Kubernetes"): "tests/kubernetes/test_spark_driver.py::test_a_driver_may_do_what_it_has_to",
    ("docs/pipeline.md", "Other engines"): "tests/deploy/test_printed_install.py::test_pipeline",
}
"""The sections that a test runs as they are printed, by the test."""

PIPELINE = "tests/pipeline/test_documented_commands.py::test_every_command_runs_in_the_directory_that_it_is_typed_in"
ELSEWHERE = {
    r"make demo": "tests/deploy/test_printed_install.py::test_verbs_of_a_fresh_clone",
    r"make report": "tests/deploy/test_printed_install.py::test_verbs_of_a_fresh_clone",
    r"make demo KAFKA=embedded": "tests/deploy/test_printed_install.py::test_verbs_of_a_fresh_clone",
    r"\.venv/bin/throttle-sidecar demo .*": "tests/deploy/test_printed_install.py::test_verbs_of_a_fresh_clone",
    r"make test": "tests/machine/test_fresh.py::test_make_test",
    r"make image": "tests/deploy/test_image.py",
    r"make release": "tests/machine/test_release.py",
    r"pip install dist/.*\.whl": "tests/deploy/test_release.py",
    r"apt-get install \./dist/.*\.deb": "tests/deploy/test_packages.py",
    r"helm upgrade .*": "tests/kubernetes/test_chart.py",
    r"podman load .*": "tests/deploy/test_release.py",
    r"python -m pipeline \w+(?!.*://).*": PIPELINE,
}
"""Patterns of whole commands that the test of their section does not run, and the test or the file of tests that
does."""
BY_HAND = {
    r"(zip|spark-submit) .*": "YARN, or Spark on Kubernetes; tests/system/test_standalone.py has Spark's own cluster",
    r"python -m pipeline ingest 's3a://.*": "an object store",
    r"(mvn|docker) .*": "Docker, and a registry; tests/deploy/test_spark.py looks at what is built",
    r"kubectl .* wait .*": "a cluster that runs Spark",
}
"""What no suite runs, and what it would take."""


def printed(page: str) -> list[Command]:
    """Return every command of a page, in order, without comments."""
    reading = _Reading(page)
    for line in (ROOT / page).read_text("utf-8").splitlines():
        reading.take(line)
    reading.take("")
    reading.end_block()
    return reading.found


class _Reading:
    """What has been read of a page: its commands, and the block, paragraph or section that goes on."""

    def __init__(self, page: str) -> None:
        self.found: list[Command] = []
        self._page, self._section = page, ""
        self._fence: str | None = None
        self._block: list[str] = []
        self._paragraph: list[str] = []

    def take(self, line: str) -> None:
        if self._fence is not None:
            self._take_fenced(line)
        elif opened := re.match(r" *```(\w*)", line):
            self._end_paragraph()
            self._fence = opened[1]
        elif line.startswith("    ") and not self._paragraph:
            self._block.append(line)
        elif not line.strip():
            self._end_paragraph()
        else:
            self.end_block()
            self._take_text(line)

    def _take_fenced(self, line: str) -> None:
        if line.strip() == "```":
            self.end_block()
            self._fence = None
        elif self._fence in SHELLS:
            self._block.append(line)

    def _take_text(self, line: str) -> None:
        if heading := re.match(r"#+ (.+)", line):
            self._section = "" if line.startswith("# ") else heading[1]
        else:
            self._paragraph.append(line.strip())

    def end_block(self) -> None:
        if not any(_DRAWING.search(each) for each in self._block):
            self._add(_commands(self._block))
        self._block.clear()

    def _end_paragraph(self) -> None:
        self._add(_INLINE.findall(" ".join(self._paragraph)))
        self._paragraph.clear()

    def _add(self, lines: list[str]) -> None:
        self.found += [Command(self._page, self._section, line) for line in lines]


def _commands(block: list[str]) -> list[str]:
    """Return the block's lines, those that go on in the next one joined to it."""
    whole = re.sub(r" *\\\n +", " ", "\n".join(block))
    stripped = (re.sub(r"(^| +)# .*$", "", _CRON.sub("", line.strip())) for line in whole.splitlines())
    return [line for line in stripped if line]


def suite_of(command: Command) -> str | None:
    """Return the test that runs it, or else what it would take; None: neither is known."""
    for pattern, missing in BY_HAND.items():
        if command.page == "docs/pipeline.md" and re.fullmatch(pattern, command.line):
            return missing
    for pattern, suite in ELSEWHERE.items():
        if re.fullmatch(pattern, command.line):
            return suite
    return HERE.get((command.page, command.section))


def runnable(page: str, *sections: str) -> list[str]:
    """Return the commands of these sections, or of all of the page, that their own test has to run."""
    return [
        command.line
        for command in printed(page)
        if (not sections or command.section in sections) and suite_of(command) == HERE.get((page, command.section))
    ]

"""Counts the Python calls of one warm, decided fetch, and how often the file changes from one to the next.

    python -m benchmarks.fetch_calls [--list]

A fetch of one partition that is behind, all of it granted, and its answer with records, between transports in memory.
The transports' own calls are left out. A call costs some 0.06 µs by itself, a change of file costs the reader.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import trio
from trio.testing import MockClock

from proxy.relay.connection import Connection

from .byte_path.own import CASES, Conversation

if TYPE_CHECKING:
    from types import CodeType, FrameType

WARM_FETCHES = 10
BEHIND = next(case for case in CASES if case.name == "small, behind")
OURS = ("admission/", "protocol/", "proxy/", "<")
"""How the files of the sidecar begin, and Python's word for generated code."""
ROOT = Path(__file__).resolve().parent.parent


class Call(NamedTuple):
    """One call of a Python function; the file is relative to the repository, or Python's word for generated code."""

    file: str
    function: str


def calls_of_a_warm_fetch() -> list[Call]:
    """Return the calls of the last of several equal fetches, in order."""
    clock = MockClock()

    async def last() -> list[CodeType]:
        talk = Conversation(BEHIND)
        found: list[CodeType] = []
        for progress in range(WARM_FETCHES + 1):
            clock.jump(0.1)
            talk.move_on(progress)
            found = _calls(talk)
        return found

    calls = [Call(code.co_filename.removeprefix(f"{ROOT}/"), code.co_name) for code in trio.run(last, clock=clock)]
    return [call for call in calls if call.file.startswith(OURS)]


def _calls(talk: Conversation) -> list[CodeType]:
    """Run a fetch; return what a connection called when it was advanced."""
    found: list[CodeType] = []
    inside = False

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal inside
        if frame.f_code is Connection.advance.__code__:
            inside = event == "call"
        elif inside and event == "call":
            found.append(frame.f_code)

    sys.setprofile(profile)
    try:
        talk.fetch()
    finally:
        sys.setprofile(None)
    return found


def file_changes(calls: list[Call]) -> int:
    return sum(before.file != after.file for before, after in itertools.pairwise(calls))


@click.command(help=__doc__)
@click.option("--list", "lists", is_flag=True, help="Print each call.")
def main(*, lists: bool) -> None:
    calls = calls_of_a_warm_fetch()
    for call in calls if lists else ():
        click.echo(f"{call.file} {call.function}")
    click.echo(f"{len(calls)} calls, {file_changes(calls)} file changes, {len({call.file for call in calls})} files")


if __name__ == "__main__":
    main()

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

from protocol.wire.framing import with_length
from tests.proxy.conversation import MIB, fetch_frame, throttle
from tests.proxy.relay.test_direction import Both
from tests.proxy.relay.wire import answer, batch, entry

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from proxy.relay.direction import Direction

WARM_FETCHES = 10
BYTES_PER_SECOND = 400 * MIB
ROOT = Path(__file__).resolve().parent.parent


class Call(NamedTuple):
    """One call of a Python function; the file is relative to the repository, or Python's word for generated code."""

    file: str
    function: str


def calls_of_a_warm_fetch() -> list[Call]:
    """Return the calls of the last of several equal fetches, in order."""
    both = Both(throttle(BYTES_PER_SECOND))
    found: list[CodeType] = []
    for offset in range(WARM_FETCHES + 1):
        found.clear()
        both.now += 0.1
        both.follower.feed(with_length(fetch_frame({("t", 0): offset})))
        _count(found, both.requests)
        both.leader.feed(with_length(answer([entry(0, batch(600) if offset else b"")])))
        _count(found, both.responses)
    calls = [Call(code.co_filename.removeprefix(f"{ROOT}/"), code.co_name) for code in found]
    return [call for call in calls if not call.file.startswith("tests/")]


def _count(found: list[CodeType], direction: Direction) -> None:
    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found.append(frame.f_code)

    sys.setprofile(profile)
    try:
        direction.advance(sys.float_info.max)
    finally:
        sys.setprofile(None)


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

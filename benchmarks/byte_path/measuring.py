"""Loads through peers, in turns: what is compared is measured in the same minutes.

Invariant: a round is every load through every peer, once.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .running import SlowError, running
from .runs import this_machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .contenders.peer import Peer
    from .loads import Load
    from .runs import Result, RunsFile


class Times(NamedTuple):
    """The number and length of runs: `warm_up_seconds` come before the `seconds` that count, in each run."""

    rounds: int
    seconds: float
    warm_up_seconds: float


def measure(
    peers: Sequence[Peer], loads: Sequence[Load], times: Times, file: RunsFile
) -> tuple[list[Result], dict[str, str]]:
    """Return all runs in the order in which they were done, and who or which run is missing and why. Raises BenchError.

    Each run is appended to `file` as soon as it is done.
    """
    results: list[Result] = []
    with (
        tempfile.TemporaryDirectory(prefix="byte-path-") as home,
        running(peers, Path(home)) as (pair, contenders, missing),
    ):
        file.add_machine(this_machine(contender.peer for contender in contenders))
        for contender in contenders:
            for load in loads if contender.peer.jit_seconds else ():
                with contextlib.suppress(SlowError):
                    pair.run(contender, load, seconds=times.seconds, warm_up_seconds=contender.peer.jit_seconds)
        for _ in range(times.rounds):
            for load in loads:
                for contender in contenders:
                    try:
                        result = pair.run(contender, load, seconds=times.seconds, warm_up_seconds=times.warm_up_seconds)
                    except SlowError as error:
                        missing[f"{contender.peer.name}, {load.title}"] = str(error)
                        continue
                    results.append(result)
                    file.add(result)
    return results, missing

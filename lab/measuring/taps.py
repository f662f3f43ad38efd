"""The cluster's side of its taps: starts the measuring process and reads what it wrote.

Knows nothing of brokers. Invariant: samples come in the order in which they happened.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, TypedDict, Unpack

from ..errors import LabError
from ..host.addresses import KAFKA_PORT
from ..host.processes import Process, wait_until
from ..wire.fetch_frames import FIRST_TOPIC_IDS
from .figures import Answer, Asked, Sample
from .tap import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_START_SECONDS = 20.0


class TapOptions(TypedDict, total=False):
    """The options that taps need to know how brokers meet."""

    port: int
    """The port that all taps share."""
    keys: tuple[Path, Path] | None
    """The certificate (with its key) that the tap presents, and the authority's, where traffic is encrypted."""


class Taps:
    """One process that taps every leader, in one place of the path.

    Args:
        hops: per leader, where its tap listens and where it goes on to.
        home: folder for the samples.
        topic_name: of a topic id, which is all that frames carry from v13 on.
        name: of the process and of its files.
        garble: a file that has the next request garbled, see `lab.measuring.tap`.
        how: see `TapOptions`.
    """

    def __init__(
        self,
        hops: Mapping[int, tuple[str, str]],
        *,
        home: Path,
        topic_name: Callable[[str], str],
        name: str = "tap",
        garble: Path | None = None,
        **how: Unpack[TapOptions],
    ) -> None:
        self._topic_name = topic_name
        self.samples_file = home / f"{name}.jsonl"
        port, keys = how.get("port", KAFKA_PORT), how.get("keys")
        links = [Link(leader, (at, port), (upstream, port)) for leader, (at, upstream) in hops.items()]
        options = [option for link in links for option in ("--link", str(link))]
        if garble is not None:
            options += ["--garble", str(garble)]
        if keys is not None:
            options += ["--certificate", str(keys[0]), "--authority", str(keys[1])]
        self.process = Process(
            name,
            [sys.executable, "-m", "lab.measuring.tap", "--output", str(self.samples_file), *options],
            output=home / f"{name}.log",
        )

    async def start(self) -> None:
        """Start the taps. Raises LabError."""
        self.process.start()
        await wait_until(
            lambda: self.samples_file.exists() and self.samples_file.stat().st_size > 0,
            process=self.process, what="listening", timeout_seconds=_START_SECONDS,
        )  # fmt: skip

    def position(self) -> int:
        """Mark a position: `samples(since=mark)` reads only what came after."""
        return self.samples_file.stat().st_size

    def samples(self, *, since: int = 0) -> list[Sample]:
        """Return the samples after a mark, oldest first."""
        return self.read_from(since)[0]

    def read_from(self, mark: int) -> tuple[list[Sample], int]:
        """Return the samples after a mark, and the mark to go on from; half a line is left for then.

        Raises:
            LabError: a tap did not understand what passed.
        """
        with self.samples_file.open("rb") as file:
            file.seek(mark)
            lines = [line for line in file if line.endswith(b"\n")]
        found = (self._sample(json.loads(line)) for line in lines)
        return [sample for sample in found if sample is not None], mark + sum(map(len, lines))

    def _sample(self, line: dict[str, object]) -> Sample | None:
        match line:
            case {"kind": "request", "t": float(t), "leader": int(leader), "follower": int(follower),
                  "version": int(version), "bytes": int(size)}:  # fmt: skip
                return Asked(t, leader, follower, version, size)
            case {"kind": "response", "t": float(t), "leader": int(leader), "follower": int(follower),
                  "version": int(version), "partitions": list(partitions), "error": int(error),
                  "session": int(session), "bytes": int(size)}:  # fmt: skip
                named = self._topic_name if version >= FIRST_TOPIC_IDS else str
                carried = tuple((named(p[0]), p[1], p[2]) for p in partitions)
                return Answer(t, leader, follower, version, carried, error, session, size)
            case {"kind": "undecoded", "leader": leader, "reason": reason}:
                # From there on nothing was seen in that direction: what was measured is too little.
                raise LabError(f"{self.samples_file}: expected Fetch frames at leader {leader}, found: {reason}")
            case _:
                return None

"""The victim (or the control) as its parent sees it: a process, and what it said so far.

Invariant: what a pair met is kept with the time it was said at, so that the victim and the control can be compared
second by second.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import trio

from .priority import before_attackers

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Iterator, Mapping

BUCKET_SECONDS = 0.25
PAIRS = ("ingress", "egress")


@dataclass(slots=True)
class Observed:
    """The counts of a pair, or of the requests for /healthz. Times in microseconds."""

    fetches: int = 0
    histogram: Counter[int] = field(default_factory=Counter)
    """Fetches by their time in tenths of a millisecond."""
    worst_by_bucket: dict[int, int] = field(default_factory=dict)
    """The worst time by a quarter of a second since the machine started."""
    wrong: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    pending_us: int = 0

    def add(self, now: float, told: Mapping[str, Any]) -> None:
        """Add the line that the process printed at `now`."""
        took: list[int] = told["took_us"]
        self.fetches += len(took)
        self.histogram.update(one // 100 for one in took)
        self.wrong += told["wrong"]
        self.lost += told["lost"]
        self.pending_us = told["pending_us"]
        bucket = int(now / BUCKET_SECONDS)
        self.worst_by_bucket[bucket] = max(self.pending_us, *took, self.worst_by_bucket.get(bucket, 0), 0)

    def quantile_ms(self, part: float) -> float:
        """Return the quantile to a tenth of a millisecond; 0 if there was no fetch."""
        left = part * self.fetches
        for tenth, count in sorted(self.histogram.items()):
            left -= count
            if left <= 0:
                return tenth / 10
        return 0.0


class Party:
    """One process of victims. `observed` by `ingress`, `egress` and `healthz`."""

    def __init__(self, process: trio.Process, leaders: dict[str, int]) -> None:
        self.process = process
        self.leaders = leaders
        """The ports of its leaders, by the role that is to lead there."""
        self.observed = {name: Observed() for name in (*PAIRS, "healthz")}
        self.heard_at = trio.current_time()
        self._heard = trio.Event()

    async def all_served(self) -> None:
        """Wait until each pair and /healthz have been answered."""
        while not all(observed.fetches for observed in self.observed.values()):
            await self._heard.wait()

    async def begin(self, ports: Mapping[str, int]) -> None:
        """Order it to fetch from the sidecar at these ports."""
        if self.process.stdin is None:
            raise ValueError("the process has no standard input")
        await self.process.stdin.send_all(json.dumps(dict(ports)).encode() + b"\n")

    def forget(self) -> None:
        """Reset its counts, as after a new start of the sidecar."""
        self.observed = {name: Observed() for name in self.observed}

    def worst_ms(self) -> float:
        """Return the worst milliseconds of all fetches of both pairs."""
        return max((us for _, us in self._worst()), default=0) / 1000

    def worst_ms_about(self, bucket: int, *, within: int = 4) -> float:
        """Return the worst in the buckets about that one: what the machine did to all processes."""
        near = (us for at, us in self._worst() if abs(at - bucket) <= within)
        return max(near, default=0) / 1000

    def late(self, above_ms: float) -> Iterator[tuple[int, float]]:
        """Return (bucket, milliseconds) of those worse than that."""
        return ((bucket, us / 1000) for bucket, us in self._worst() if us > above_ms * 1000)

    def _worst(self) -> Iterator[tuple[int, int]]:
        for name in PAIRS:
            yield from self.observed[name].worst_by_bucket.items()

    async def listen(self) -> None:
        """Take what it says, until it ends."""
        if self.process.stdout is None:
            raise ValueError("the process has no standard output")
        left = b""
        async for chunk in self.process.stdout:
            *lines, left = (left + chunk).split(b"\n")
            for line in lines:
                told = json.loads(line)
                self.heard_at = trio.current_time()
                for name, observed in self.observed.items():
                    observed.add(told["now"], told[name])
                self._heard.set()
                self._heard = trio.Event()


@asynccontextmanager
async def open_party(versions: tuple[int, int], strangers: socket.socket | None = None) -> AsyncIterator[Party]:
    """Start a process of victims; it ends with the block. `strangers` takes the connections that are not its own."""
    order = json.dumps({"versions": dict(zip(PAIRS, versions, strict=True))})
    inherited = () if strangers is None else (strangers.fileno(),)
    process = await trio.lowlevel.open_process(
        before_attackers([sys.executable, "-m", "fuzz.stage.victim", order, *map(str, inherited)]),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=inherited,
    )  # fmt: skip
    try:
        party = Party(process, json.loads(await _first_line(process)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(party.listen)
            yield party
            nursery.cancel_scope.cancel()
    finally:
        process.kill()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
            await process.wait()


async def _first_line(process: trio.Process) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        if process.stdout is None or not (more := await process.stdout.receive_some(1)):
            raise EOFError("the victim ended before it said where its leaders listen")
        line += more
    return line

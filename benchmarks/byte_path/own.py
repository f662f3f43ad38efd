"""The cost of a fetch to the sidecar's own code: no kernel, no other process; both directions are called by hand.

    python -m benchmarks.byte_path.own            microseconds per fetch, per partition, and of the longest turn
    python -m benchmarks.byte_path.own --profile  and the functions they go to

A warm loop. In its real place, between other processes that use the same caches, the same code takes longer. It serves
to find out what to make cheaper, not to compare with others. Invariant: what is called is the relay as it is.
"""

from __future__ import annotations

import cProfile
import math
import pstats
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import structlog
import trio

from protocol.fetch.request import parse_fetch_request
from proxy.changes import Changes
from proxy.config.settings import LimitSettings, Policy, QuotaSettings
from proxy.process.resources import collected_by_hand
from proxy.quotas import Quotas, RoleQuota
from proxy.relay.connection import Connection
from proxy.relay.in_flight import InFlightRequests
from proxy.relay.poller import TURN_SECONDS
from proxy.relay.transport import WOULD_WAIT, Wait
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics
from proxy.throttle.link import Link
from proxy.throttle.role_throttle import RoleThrottle

from .answers import response
from .loads import CORRELATION_ID_AT, PREFIX_BYTES, Load, records_of

if TYPE_CHECKING:
    from protocol.wire.framing import Bytes
    from proxy.relay.direction import Direction

NEVER_REACHED = 1000.0 * 2**30
WARM_UP_FETCHES = 20
MIN_FETCHES = 50
FAST = 0.05
"""The share of fetches that took less than the time that is told. Fast fetches are told because others only slow the
code down: nothing makes it faster than it is."""
LIMITS = LimitSettings(8 << 20, 16 << 20, 1.0, 1.0)
SETTINGS = QuotaSettings(Path("quotas.toml"), Policy.STRICT, 0.1, 0.25, 11, 1)
_INT32 = struct.Struct(">i")


class Case(NamedTuple):
    """`records` are the bytes that each partition brings; `listed`: whether it may be throttled."""

    name: str
    load: Load
    records: int
    listed: bool = True


CASES = (
    Case("small, opaque", Load("small", 1, 64), 64, listed=False),
    Case("small, behind", Load("small", 1, 64), 64),
    Case("small, in sync", Load("small", 1, 64, in_sync=True), 64),
    Case("empty, in sync", Load("small", 1, 64, in_sync=True), 0),
    Case("1000 behind", Load("many", 1000, 64), 64),
    Case("1000 in sync, empty", Load("many", 1000, 64, in_sync=True), 0),
    Case("5000 behind", Load("many", 5000, 64), 64),
)


class Took(NamedTuple):
    """Nanoseconds; `longest` is the longest turn."""

    asked: int
    answered: int
    longest: int


class MemoryTransport:
    """Receives what it is fed, keeps what it is sent."""

    splices = False
    packet_bytes = 0
    hung_up = False
    crossed = 0
    writable = True

    def __init__(self) -> None:
        self.readable = True
        self.kept: list[bytes] = []
        self._fed = memoryview(b"")

    def fileno(self) -> int:
        return -1

    def feed(self, data: bytes) -> None:
        self._fed = memoryview(data)
        self.readable = True

    def receive_into(self, view: memoryview) -> int:
        size = min(len(view), len(self._fed))
        view[:size] = self._fed[:size]
        self._fed = self._fed[size:]
        self.readable = bool(self._fed)
        return size or WOULD_WAIT

    def peek_into(self, view: memoryview) -> int:
        raise NotImplementedError

    def send(self, data: Bytes) -> int:
        self.kept.append(bytes(data))
        return len(data)

    def finish_sending(self) -> None:
        """Do nothing: there is no peer."""

    def close(self) -> None:
        """Do nothing: there is no socket."""


class Conversation:
    """One connection; in a Trio task."""

    def __init__(self, case: Case) -> None:
        self._case = case
        quota = RoleQuota.of_every_topic(NEVER_REACHED)
        quotas = Quotas(leader=quota, follower=quota) if case.listed else Quotas()
        throttle = RoleThrottle(
            Role.LEADER, SETTINGS, quotas=quotas, statistics=RoleStatistics(), now=trio.current_time()
        )
        in_flight = InFlightRequests(Link(throttle, "102"), Changes(), structlog.get_logger())
        self._follower, self._leader = MemoryTransport(), MemoryTransport()
        self._connection = Connection(in_flight, self._follower, self._leader, limits=LIMITS, poller=None)
        self._request = bytearray(case.load.request())
        self._answers: dict[bytes, bytearray] = {}
        self._correlation_id = 0
        self._longest = 0

    def move_on(self, progress: int) -> None:
        """Move the offsets of later fetches on by this many records."""
        self._request = bytearray(self._case.load.request(progress=progress))

    def fetch(self) -> Took:
        """Run one fetch and its answer."""
        self._longest = 0
        self._correlation_id += 1
        _INT32.pack_into(self._request, CORRELATION_ID_AT, self._correlation_id)
        asks = bytes(self._request)
        asked = self._advance(self._connection.request_direction, self._follower, asks)
        tells = self._answer(b"".join(self._leader.kept))
        self._leader.kept.clear()
        answered = self._advance(self._connection.response_direction, self._leader, tells)
        self._follower.kept.clear()
        return Took(asked, answered, self._longest)

    def _advance(self, direction: Direction, source: MemoryTransport, data: bytes) -> int:
        """Pass data and make the poller's calls; return the nanoseconds of all."""
        source.feed(data)
        direction.wants, took = Wait.TURN, 0
        while direction.wants is Wait.TURN:
            ends = time.perf_counter() + TURN_SECONDS
            began = time.thread_time_ns()
            self._connection.advance(direction, ends)
            turn = time.thread_time_ns() - began
            took, self._longest = took + turn, max(self._longest, turn)
        assert direction.wants is Wait.READ
        return took

    def _answer(self, request: bytes) -> bytes:
        after_id = request[CORRELATION_ID_AT + _INT32.size :]
        if after_id not in self._answers:
            case, entries = self._case, parse_fetch_request(request[PREFIX_BYTES:]).entries
            sizes = [(e.topic, e.partition, min(case.records, records_of(e.topic))) for e in entries]
            self._answers[after_id] = bytearray(b"".join(response(case.load.version, sizes)))
        answer = self._answers[after_id]
        _INT32.pack_into(answer, PREFIX_BYTES, self._correlation_id)
        return bytes(answer)


def measure(case: Case, seconds: float, profile: cProfile.Profile | None = None) -> tuple[float, float, float]:
    """Return microseconds of a request, of its answer and of the longest turn of both."""

    async def main() -> list[Took]:
        talk = Conversation(case)
        for _ in range(WARM_UP_FETCHES):
            talk.fetch()
        if profile is not None:
            profile.enable()
        found, ends = list[Took](), time.monotonic() + seconds
        while len(found) < MIN_FETCHES or time.monotonic() < ends:
            found.append(talk.fetch())
        if profile is not None:
            profile.disable()
        return found

    with collected_by_hand():
        asked, answered, longest = (sorted(column) for column in zip(*trio.run(main), strict=True))
    place = math.floor(len(asked) * FAST)
    return asked[place] / 1000, answered[place] / 1000, longest[place] / 1000


@click.command()
@click.option("--seconds", default=1.0, show_default=True, type=click.FloatRange(0), help="Of each case.")
@click.option("--profile", is_flag=True, help="Name the functions, by what they take themselves; slower by far.")
def main(*, seconds: float, profile: bool) -> None:
    """Measure what a Fetch v3 and its answer cost the sidecar's own code, in microseconds."""
    click.echo("| fetch | request, µs | answer, µs | both, µs | µs per partition | longest turn, µs |")
    click.echo("|---|---|---|---|---|---|")
    for case in CASES:
        asked, answered, longest = measure(case, seconds)
        both = asked + answered
        each = both / case.load.partitions
        click.echo(f"| {case.name} | {asked:.1f} | {answered:.1f} | {both:.1f} | {each:.2f} | {longest:.0f} |")
    for case in CASES if profile else ():
        click.echo(f"\n{case.name}:")
        found = cProfile.Profile()
        measure(case, seconds, found)
        pstats.Stats(found).strip_dirs().sort_stats("tottime").print_stats(15)


if __name__ == "__main__":
    main()

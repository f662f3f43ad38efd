"""The cost of a decided fetch to the sidecar's own code, by what is known, and by what is granted or has changed.

    python -m benchmarks.fetch_cost                     prints the table
    python -m benchmarks.fetch_cost --write docs/benchmarks.md

A follower and a leader with Kafka's own ends of a fetch session, in memory, and the relay between them: no kernel, no
other process. Behind: a quota that grants ten partitions in a fetch, each of which brings one batch. In sync: five have
a new batch. The fetches are recorded first and played to another sidecar then, at the same times: the ends, which work
on everything that is known, would else leave nothing of the sidecar in the caches. Microseconds of CPU time, of the
fastest tenth of the fetches: others make them slower, nothing makes them faster.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import structlog
import trio
from trio.testing import MockClock

from lab.embedded.session_cache import FetchSessionCache
from lab.embedded.session_handler import FetchSessionHandler
from lab.embedded.session_values import Ask, Read, SessionResponse
from protocol.fetch.request import parse_fetch_request
from protocol.session.requests import SessionRequest
from proxy.changes import Changes
from proxy.process.resources import collected_by_hand
from proxy.quotas import Quotas, RoleQuota
from proxy.relay.connection import Connection
from proxy.relay.in_flight import InFlightRequests
from proxy.relay.poller import TURN_SECONDS
from proxy.relay.transport import Wait
from proxy.roles import Role
from proxy.statistics.counters import RoleStatistics
from proxy.throttle.link import Link
from proxy.throttle.role_throttle import RoleThrottle
from tests.world.messages import FetchOptions, fetch_request, fetch_response, parse_answer

from .byte_path.answers import batch
from .byte_path.loads import PREFIX_BYTES
from .byte_path.own import LIMITS, SETTINGS, MemoryTransport
from .document_part import DocumentPart

if TYPE_CHECKING:
    from protocol.session.requests import PartitionKey
    from proxy.relay.direction import Direction

VERSIONS = (3, 12, 17)
KNOWN = (1, 10, 100, 1000, 4000)
TOPICS = 8
GRANTED, CHANGED = 10, 5
BATCH_BYTES = 6500
QUOTA = 640 * 1024.0
"""Bytes per second: in 0.1 s a gate, which is 64 KiB at least, and ten batches."""
PAUSE_SECONDS = 0.1
WARM_UP, FETCHES, FAST = 8, 60, 0.1
END = 10**6
PART = DocumentPart("fetch cost")


class Took(NamedTuple):
    """Microseconds of CPU time for the request and for its answer, and of the longest turn."""

    request: float
    answer: float
    longest: float


class Fetched(NamedTuple):
    """A fetch: what came from the follower, what the leader was asked instead and answered."""

    at: float
    request: bytes
    upstream: bytes
    answer: bytes
    brought: int
    """How many partitions brought records."""


class Sidecar:
    """The relay of one connection, in a Trio task."""

    def __init__(self) -> None:
        quota = RoleQuota.of_every_topic(QUOTA)
        self._throttle = throttle = RoleThrottle(
            Role.LEADER, SETTINGS, quotas=Quotas(leader=quota, follower=quota), statistics=RoleStatistics(),
            now=trio.current_time(),
        )  # fmt: skip
        in_flight = InFlightRequests(Link(throttle, "102"), Changes(), structlog.get_logger())
        self._follower, self._leader = MemoryTransport(), MemoryTransport()
        self._connection = Connection(in_flight, self._follower, self._leader, limits=LIMITS, poller=None)
        self.longest = 0.0

    def is_shut(self) -> bool:
        """Return True if a request would be held."""
        return self._throttle.budget.is_shut(trio.current_time())

    def ask(self, request: bytes) -> tuple[bytes, float]:
        """Return what the leader is asked, and the microseconds that took."""
        took = self._advance(self._connection.request_direction, self._follower, request)
        return self._kept(self._leader), took

    def answer(self, answer: bytes) -> tuple[bytes, float]:
        """Return what the follower is answered, and the microseconds that took."""
        took = self._advance(self._connection.response_direction, self._leader, answer)
        return self._kept(self._follower), took

    @staticmethod
    def _kept(transport: MemoryTransport) -> bytes:
        kept = b"".join(transport.kept)
        transport.kept.clear()
        return kept

    def _advance(self, direction: Direction, source: MemoryTransport, data: bytes) -> float:
        source.feed(data)
        direction.wants, took = Wait.TURN, 0.0
        while direction.wants is Wait.TURN:
            began, ends = time.thread_time_ns(), time.perf_counter() + TURN_SECONDS
            self._connection.advance(direction, ends)
            turn = (time.thread_time_ns() - began) / 1000
            took, self.longest = took + turn, max(self.longest, turn)
        return took


class Ends:
    """A follower and its leader; an offset is a batch."""

    def __init__(self, version: int, known: int, *, in_sync: bool) -> None:
        names = [f"t{number}" for number in range(TOPICS)]
        topics = [name.encode().ljust(16, b"-") if version >= 13 else name for name in names]
        keys: list[PartitionKey] = sorted((topics[number % TOPICS], number) for number in range(known))
        self._ends = dict.fromkeys(keys, END)
        self._wants = dict.fromkeys(keys, END if in_sync else 0)
        self._changing = keys[:CHANGED] if in_sync else []
        self._options = FetchOptions(version, 102, "broker-102-fetcher-0")
        self._follower, self._leader = FetchSessionHandler(version), FetchSessionCache(itertools.count(500).__next__)

    def fetch(self, sidecar: Sidecar) -> Fetched:
        for key in self._changing:
            self._ends[key] += 1
        version = self._options.version
        wanted = {key: Ask(offset, BATCH_BYTES, 0, -1, 0) for key, offset in self._wants.items()}
        request = fetch_request(self._options, self._follower.build(wanted), 1)
        upstream, _ = sidecar.ask(request)
        answer = fetch_response(version, 1, self._answer(upstream[PREFIX_BYTES:]))
        told = parse_answer(version, sidecar.answer(answer)[0][PREFIX_BYTES:])
        entries = {(entry.topic, entry.partition): Read(entry.high_watermark) for entry in told.entries}
        self._follower.handle(SessionResponse(told.session_id, entries, told.error_code))
        brought = [(entry.topic, entry.partition) for entry in told.entries if entry.records_size > 0]
        for key in brought:
            self._wants[key] += 1
        return Fetched(trio.current_time(), request, upstream, answer, len(brought))

    def _answer(self, frame: bytes) -> SessionResponse:
        """Return what Kafka's leader answers: one batch of each partition that is allowed one and has it."""
        found = parse_fetch_request(frame)
        listed = {(e.topic, e.partition): Ask(e.fetch_offset, e.partition_max_bytes) for e in found.entries}
        request = SessionRequest(
            self._options.version, listed, found.session_id, found.session_epoch, tuple(found.forgotten)
        )
        context = self._leader.context(request, trio.current_time())
        reads = {}
        for key, ask in context.partitions.items():
            has = ask.fetch_offset < self._ends[key] and ask.partition_max_bytes >= BATCH_BYTES
            size = BATCH_BYTES if has else 0
            reads[key] = Read(self._ends[key], records_size=size, payload=batch(size) if size else None)
        return context.respond(reads)


def measure(version: int, known: int, *, in_sync: bool) -> Took:
    """Return what a fetch took, once the connection is warm."""

    async def record(clock: MockClock) -> list[Fetched]:
        sidecar, ends, found = Sidecar(), Ends(version, known, in_sync=in_sync), []
        for _ in range(WARM_UP + FETCHES):
            clock.jump(PAUSE_SECONDS)
            while sidecar.is_shut():
                clock.jump(PAUSE_SECONDS / 100)
            found.append(ends.fetch(sidecar))
        return found

    async def play(clock: MockClock) -> list[Took]:
        sidecar, found = Sidecar(), []
        for fetched in recorded:
            clock.jump(fetched.at - trio.current_time())
            sidecar.longest = 0.0
            upstream, asked = sidecar.ask(fetched.request)
            assert upstream == fetched.upstream
            _, answered = sidecar.answer(fetched.answer)
            found.append(Took(asked, answered, sidecar.longest))
        return found[WARM_UP:]

    with collected_by_hand():
        clock = MockClock()
        recorded = trio.run(record, clock, clock=clock)
        expected = min(CHANGED if in_sync else GRANTED, known)
        assert all(abs(each.brought - expected) <= 1 for each in recorded[WARM_UP:])
        clock = MockClock()
        columns = zip(*trio.run(play, clock, clock=clock), strict=True)
    return Took(*(sorted(column)[int(FAST * FETCHES)] for column in columns))


def table() -> str:
    """Return the table, of requests with their answers."""
    lines = ["| partitions | " + " | ".join(map(str, KNOWN)) + " | 4000 : 100 |", "|---" * 7 + "|"]
    for in_sync in (False, True):
        for version in VERSIONS:
            found = [measure(version, known, in_sync=in_sync) for known in KNOWN]
            both = [took.request + took.answer for took in found]
            cells = [
                f"{one:.0f} ({took.request:.0f} + {took.answer:.0f})" for one, took in zip(both, found, strict=True)
            ]
            standing = f"in sync, {CHANGED} changed" if in_sync else f"behind, {GRANTED} granted"
            lines.append(f"| v{version}, {standing} | {' | '.join(cells)} | {both[-1] / both[KNOWN.index(100)]:.1f} |")
    return "\n".join(lines)


@click.command(help=__doc__)
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="The page to write it to.")
def main(*, write: Path | None) -> None:
    found = table()
    click.echo(found)
    if write is not None:
        PART.write(write, found)


if __name__ == "__main__":
    main()

"""The cost of the journal: bytes on disk and CPU of an hour of 100 active partitions, in three kinds of traffic.

`python -m benchmarks.journal` prints a table. The sidecar's own ledger, encoding, compression and files, on a clock of
its own; noise is seeded, and every number differs from second to second as it does on brokers: sizes of batches and of
messages, how many there are, how often a partition is asked for.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from proxy.config.settings import JournalSettings
from proxy.journal.encoding import Origin
from proxy.journal.segments import SegmentDirectory
from proxy.journal.writer import Batch, Writer
from proxy.ledger.blocks import Position, TrafficKey
from proxy.ledger.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITIONS = 100
TOPICS = 10
ENTRY_BYTES = 18
"""The size of an entry of Fetch v3; later versions have more."""
MIB = 1 << 20
HOUR_SECONDS = 3600
MB = 1_000_000
FIRST_TIME = 1_795_250_400
QUEUE_FULL_SECONDS, FINISH_SECONDS = 0.01, 60.0


class Cost(NamedTuple):
    """`ledger_seconds` are CPU on the sidecar's own thread, `writer_seconds` on the journal's."""

    bytes: int
    calls: int
    ledger_seconds: float
    writer_seconds: float


class _Partition:
    def __init__(self, number: int, numbers: random.Random) -> None:
        self.topic, self.partition = f"topic-{number % TOPICS}", number // TOPICS
        self.offset = numbers.randrange(10**6, 10**9)
        self.high_watermark = self.offset + numbers.randrange(10**5, 10**7)
        self.message_bytes = numbers.randrange(200, 2000)

    def moves(self, size: int, numbers: random.Random) -> None:
        self.offset += round(size / (self.message_bytes * numbers.uniform(0.9, 1.1)))
        self.high_watermark += numbers.randrange(200)


class Traffic:
    """100 partitions and the ledger that is told of them."""

    def __init__(self, seed: int) -> None:
        self.numbers = random.Random(seed)
        self.partitions = [_Partition(number, self.numbers) for number in range(PARTITIONS)]
        self.ledger = Ledger(0.0)
        self.reports: list[Callable[[], object]] = []
        """The calls of this second, in order. They are made later, so that their cost is measured apart from that of
        making them up."""
        self.turn = 0

    def carries(self, one: _Partition, size: int, now: float, *, in_sync: bool) -> None:
        key = TrafficKey("leader", "102", one.topic, one.partition, throttled=True, in_sync=in_sync)
        position = Position(one.offset, one.high_watermark, 0)
        self.reports.append(
            partial(
                self.ledger.fetched, key, position, record_bytes=size, wire_bytes=size + ENTRY_BYTES, now=now
            )
        )  # fmt: skip

    def leaves_out(self, one: _Partition, now: float) -> None:
        key = TrafficKey("leader", "102", one.topic, one.partition, throttled=True, in_sync=False)
        self.reports.append(partial(self.ledger.omitted, key, Position(one.offset, one.high_watermark, 0), now=now))

    def report(self) -> tuple[int, float]:
        """Tell the ledger of this second; return how many calls and how much CPU that was."""
        reports, self.reports = self.reports, []
        began = time.thread_time()
        for report in reports:
            report()
        return len(reports), time.thread_time() - began


def low_quota(traffic: Traffic, second: int) -> None:
    """Make 10 MB/s between 100 partitions: ten fetches a second with a megabyte of one partition each, less part of a
    batch; the others are left out, each time."""
    for fetch in range(10):
        now = second + (fetch + traffic.numbers.random()) / 10
        served = traffic.partitions[traffic.turn % PARTITIONS]
        traffic.turn += 1
        for one in traffic.partitions:
            if one is served:
                size = MIB - traffic.numbers.randrange(16_000)
                one.moves(size, traffic.numbers)
                traffic.carries(one, size, now, in_sync=False)
            elif traffic.numbers.random() < 0.95:  # or it is waiting for an answer on another connection
                traffic.leaves_out(one, now)


def high_quota(traffic: Traffic, second: int) -> None:
    """Make 100 MB/s: every partition gets about a megabyte in every second, and is left out for the rest of it."""
    for one in traffic.partitions:
        served = traffic.numbers.randrange(10)
        for fetch in range(10):
            now = second + (fetch + 0.5) / 10
            if fetch == served:
                size = round(MB * traffic.numbers.uniform(0.6, 1.4))
                one.moves(size, traffic.numbers)
                traffic.carries(one, size, now, in_sync=False)
            else:
                traffic.leaves_out(one, now)


def in_sync(traffic: Traffic, second: int) -> None:
    """Make traffic in sync: every partition has some twenty small batches a second, none like another."""
    for one in traffic.partitions:
        fetches = max(1, round(traffic.numbers.gauss(20, 4)))
        for fetch in range(fetches):
            messages = traffic.numbers.randrange(1, 6)
            one.offset += messages
            one.high_watermark = one.offset + traffic.numbers.randrange(3)
            size = round(messages * one.message_bytes * traffic.numbers.uniform(0.5, 1.5))
            traffic.carries(one, size, second + (fetch + 0.5) / fetches, in_sync=True)


KINDS: dict[str, Callable[[Traffic, int], None]] = {
    "catch-up at 10 MB/s": low_quota,
    "catch-up at 100 MB/s": high_quota,
    "in sync": in_sync,
}


def measure(kind: str, seconds: int, folder: Path, *, seed: int = 73) -> Cost:
    """Write `seconds` of a kind of traffic into `folder`."""
    traffic = Traffic(seed)
    writer = Writer(
        SegmentDirectory(folder, broker=101, run="20261121T082503Z"),
        Origin(101, "20261121T082503Z-ab12"),
        JournalSettings(folder, 600.0, 16 * MIB, 1 << 30),
    )
    writer.start()
    calls, told, of_others = 0, 0.0, time.process_time() - time.thread_time()
    for second in range(seconds):
        KINDS[kind](traffic, second)
        count, cpu = traffic.report()
        calls, told = calls + count, told + cpu
        began = time.thread_time()
        blocks = traffic.ledger.take_finished(second + 1.0)
        told += time.thread_time() - began
        while blocks and not writer.offer(Batch(second, FIRST_TIME, blocks, [])):
            time.sleep(QUEUE_FULL_SECONDS)
    writer.finish(FINISH_SECONDS)
    size = sum(path.stat().st_size for path in folder.iterdir())
    # There are only two threads, so what this one did not use the writer did.
    return Cost(size, calls, told, time.process_time() - time.thread_time() - of_others)


def main() -> None:
    """Run the benchmark: the entry point of `python -m benchmarks.journal`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.journal", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=HOUR_SECONDS, help="of traffic; figures are per hour")
    options = parser.parse_args()
    print(
        "| 100 partitions, every second | MB an hour | bytes a partition-second | reports a second | ledger | writer |"
    )
    print("|---|---|---|---|---|---|")
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            cost = measure(kind, options.seconds, Path(folder))
        hours = options.seconds / HOUR_SECONDS
        print(
            f"| {kind} | {cost.bytes / hours / MB:.2f} | {cost.bytes / options.seconds / PARTITIONS:.2f}"
            f" | {cost.calls / options.seconds:.0f} | {cost.ledger_seconds / options.seconds:.2%} of a core"
            f" | {cost.writer_seconds / options.seconds:.3%} of a core |"
        )


if __name__ == "__main__":
    main()

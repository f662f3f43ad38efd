"""Writers that are killed with SIGKILL at random moments, or run two at once, and what the tables have in the end.

    python -m tests.pipeline.killed_writers FOLDER [--job stream] [--kills 30] [--pairs 0] [--into URI] [--conf K=V]...

Each writer, an `ingest` or a `stream --once`, is a process of its own and is given one journal file more than the one
before. It is killed, with its JVM, at a random moment between the first word that it prints and the least time that a
whole one took. Then one runs to its end. Of a pair both are given the same new file and start at once. Prints how many
kills came before the process had ended, and compares the lines of the tables with the lines that were written; ends
with 1 if a line is missing or there twice.

With --beside delta-rs reads the tables all the while, as docs/pipeline.md tells other engines to; it needs the package
deltalake. Ends with 1 as well if a file was ever there by half, without its quota, or gone again.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.functions import element_at

from pipeline.session import open_session
from pipeline.tables import Tables
from tests.pipeline.journal_files import FIRST, changed, quota_line, traffic_line, write_file

if TYPE_CHECKING:
    from collections.abc import Sequence

LINES = 40
"""Lines of a journal file."""
BEGUN = b"reading"
"""The line that a writer prints when it has found its files."""
JOBS = {"ingest": (), "stream": ("--once",)}
"""The jobs that write tables, with the option by which they end."""


def write_journal(folder: Path, number: int) -> dict[tuple[int, int], int]:
    """Write a file of two brokers; return the bytes of each line by broker and second."""
    broker, sizes = 101 + number % 2, random.Random(number)
    told = {(broker, FIRST + number * LINES + at): sizes.randrange(10**6) for at in range(LINES)}
    lines = [traffic_line(time, broker=own, record_bytes=size) for (own, time), size in told.items()]
    quota = changed(quota_line(), broker=broker, time=FIRST + number * LINES, tick=number * LINES)
    write_file(folder, broker=broker, number=number + 1, lines=[quota, *lines])
    return told


def writing(job: str, folder: Path, into: str, conf: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a writer."""
    settings = [part for one in conf for part in ("--conf", one)]
    command = [sys.executable, "-m", "pipeline", job, str(folder), "--into", into, "--master", "local[2]"]
    return subprocess.Popen([*command, *JOBS[job], *settings], stderr=subprocess.PIPE, start_new_session=True)


def start(job: str, folder: Path, into: str, conf: Sequence[str]) -> tuple[subprocess.Popen[bytes], float]:
    """Start a writer; return it, and when it printed that it reads its files."""
    process = writing(job, folder, into, conf)
    assert process.stderr is not None
    for line in process.stderr:
        if BEGUN in line:
            break
    return process, time.monotonic()


def run(
    job: str, folder: Path, into: str, *, kills: int, seed: int, conf: Sequence[str]
) -> tuple[int, dict[tuple[int, int], int]]:
    """Have so many writers killed and one run to its end; return how many were killed before theirs, and the lines."""
    numbers = random.Random(seed)
    told = write_journal(folder, 0)
    process, begun = start(job, folder, into, conf)
    process.communicate()
    takes = time.monotonic() - begun
    killed = 0
    for kill in range(1, kills + 1):
        told |= write_journal(folder, kill)
        process, begun = start(job, folder, into, conf)
        moment = numbers.uniform(0, takes)
        try:
            process.wait(moment)
            takes = min(takes, time.monotonic() - begun)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        process.communicate()
        sys.stderr.write(f"kill {kill}: status {process.returncode}\n")
    process, _ = start(job, folder, into, conf)
    process.communicate()
    if process.returncode:
        raise SystemExit(f"the last one ended with {process.returncode}")
    return killed, told


def run_pairs(
    job: str, folder: Path, into: str, *, first: int, pairs: int, conf: Sequence[str]
) -> dict[tuple[int, int], int]:
    """Have two writers at once so many times; return the lines that were written for them. first: number of a file."""
    told: dict[tuple[int, int], int] = {}
    for number in range(first, first + pairs):
        told |= write_journal(folder, number)
        both = [writing(job, folder, into, conf) for _ in range(2)]
        for process in both:
            _, said = process.communicate()
            if process.returncode:
                raise SystemExit(f"one of two ends with {process.returncode}: {said.decode()[-2000:]}")
        sys.stderr.write(f"pair {number}: both ended with 0\n")
    return told


def lines_of(into: str, conf: Sequence[str]) -> Counter[tuple[int, int, int]]:
    """Return how often each line is in the tables: broker, second, bytes."""
    spark = open_session("killed writers", master="local[2]", conf=dict(one.split("=", 1) for one in conf))
    rows = Tables(spark, into).table("lines").groupBy("broker", "time", element_at("record_bytes", 1).alias("bytes"))
    found = Counter({(row.broker, row.time, row.bytes): row["count"] for row in rows.count().collect()})
    spark.stop()
    return found


class Beside(threading.Thread):
    """Another engine that reads the tables again and again. looks: how often; wrong: what nobody should have seen."""

    def __init__(self, into: str) -> None:
        super().__init__()
        self._into, self._over = Path(into), threading.Event()
        self._seen: set[int] = set()
        self.looks, self.wrong = 0, []

    def __enter__(self) -> Beside:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        while not self._over.wait(0.2):
            if any((self._into / "files" / "_delta_log").glob("*1.json")):
                self.looks += 1
                self.wrong += self._look()

    def _look(self) -> list[str]:
        from deltalake import DeltaTable

        def column(name: str, version: int, *columns: str) -> list[tuple[int, ...]]:
            table = DeltaTable(str(self._into / name), version=version).to_pyarrow_table(columns=[*columns])
            return [*zip(*(table[one].to_pylist() for one in columns), strict=True)]

        files = DeltaTable(str(self._into / "files")).to_pyarrow_table(columns=["lines_version", "events_version"])
        lines, events = (max(files[one].to_pylist()) for one in ("lines_version", "events_version"))
        there = Counter((time - FIRST) // LINES for (time,) in column("lines", lines, "time"))
        quotas = {(time - FIRST) // LINES for time, own in column("events", events, "time", "bytes_per_second") if own}
        wrong = [f"file {one} has {number} lines" for one, number in there.items() if number != LINES]
        wrong += [f"file {one} is there without its quota" for one in there.keys() - quotas]
        wrong += [f"file {one} is gone" for one in self._seen - there.keys()]
        self._seen = set(there)
        return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Writers that are killed at random moments.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--job", choices=JOBS, default="ingest")
    parser.add_argument("--into", help="The tables; by default FOLDER/tables.")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=20, help="Of the moments; parts of a long run have one each.")
    parser.add_argument("--beside", action="store_true", help="Have delta-rs read meanwhile.")
    parser.add_argument("--conf", action="append", default=[])
    given = parser.parse_args()
    into = given.into or str(given.folder / "tables")
    journal, conf, first = given.folder / "journal", given.conf, given.kills + 1
    with Beside(into) if given.beside else nullcontext() as beside:
        killed, told = run(given.job, journal, into, kills=given.kills, seed=given.seed, conf=conf)
        told |= run_pairs(given.job, journal, into, first=first, pairs=given.pairs, conf=conf)
    expected = Counter({(broker, time, size): 1 for (broker, time), size in told.items()})
    found = lines_of(into, given.conf)
    sys.stdout.write(f"{killed} of {given.kills} killed before their end\n")
    sys.stdout.write(f"lines: {len(told)} written, {found.total()} there\n")
    if beside is not None:
        sys.stdout.write(f"read {beside.looks} times beside them; wrong: {beside.wrong or 'nothing'}\n")
    return 0 if found == expected and not (beside and beside.wrong) else 1


if __name__ == "__main__":
    sys.exit(main())

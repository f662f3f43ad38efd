"""Two ingests and a stream at once into the same tables, killed at random moments, fed with everything that goes wrong.

Real processes, each with a JVM of its own, and files that come late, twice, cut off, while they are still open, over a
file system whose reads fail now and then. What the tables have in the end, and what they have at any moment before, is
held against sums of the lines in plain Python. And beside compactions.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from delta.tables import DeltaTable
from pyspark.sql import functions as F

from pipeline.journals.ingest import ingest
from pipeline.tables import Tables
from tests.pipeline.journal_files import FIRST, traffic_line, write_file
from tests.pipeline.journals.flaky import SCHEME
from tests.pipeline.sessions import session_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
SEED = 20
BROKERS = (101, 102)
FILES, LINES = 4, 40
"""Files of a broker, and lines of a file."""
PARTITIONS = 3
WORKER = """
import sys
from pathlib import Path
from pipeline.journals import read_files
from pipeline.cli import main
from tests.pipeline.journals.flaky import flaky
from tests.pipeline.sessions import session_in

place, job, source, tables = Path(sys.argv[1]), *sys.argv[2:5]
read_files.PAUSE_SECONDS = 0.0
left = flaky(session_in(place))
once = ["--once"] if job == "stream" else []
last = False
while not last:
    last = (place.parent / "stop").exists()
    # One read of a file of each broker fails, and all of one file unless it is the last time.
    left.update({"journal-101": 1, "journal-102": 1, "102-20261121T084000Z-000003": 0 if last else 1_000_000})
    status = main([job, source, "--into", tables, *once, "--master", "local[2]"])
    print(job, "exit status", status, flush=True)
"""
COMPACTOR = """
import sys
from pathlib import Path
from pipeline.cli import main
from tests.pipeline.sessions import session_in

place, tables, *files = Path(sys.argv[1]), *sys.argv[2:]
session_in(place)
for file in files:
    assert main(["ingest", file, "--into", tables, "--master", "local[2]"]) == 0
    assert main(["compact", tables, "--master", "local[2]"]) == 0
"""
LONGEST_SECONDS = 8.0
"""How long a worker may go on before it, or another one, is killed."""


class Told(NamedTuple):
    """The independent sums of all lines."""

    by_second: Counter[tuple[int, int]]
    """By broker and second."""
    by_partition: Counter[tuple[int, int]]
    by_line: dict[tuple[int, int], int]
    """By broker and tick."""


class Worker:
    """A process that does a job again and again, started anew whenever it was killed."""

    def __init__(self, folder: Path, job: str, source: Path, tables: Path) -> None:
        self._place = folder / f"{job}-{source.name}"
        self._place.mkdir()
        self._command = [
            sys.executable, "-c", WORKER, str(self._place), job, f"{SCHEME}:{source}", str(tables),
        ]  # fmt: skip
        self.log = self._place / "log"
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=ROOT, start_new_session=True)

    def kill(self, *, with_jvm: bool) -> None:
        """A kill -9 of the driver alone leaves its JVM to find out."""
        with suppress(ProcessLookupError):
            if with_jvm:
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        self.process.wait(20)


def journal(place: Path, broker: int, told: Told) -> list[Path]:
    """The files of a broker as its sidecar closed them."""
    numbers = random.Random(broker)
    found = []
    for number in range(1, FILES + 1):
        lines = []
        for at in range((number - 1) * LINES, number * LINES):
            size = numbers.randrange(10**6)
            lines.append(traffic_line(FIRST + at, broker=broker, partitions=range(PARTITIONS), record_bytes=size))
            told.by_second[broker, FIRST + at] += PARTITIONS * size
            told.by_line[broker, at] = PARTITIONS * size
            for partition in range(PARTITIONS):
                told.by_partition[broker, partition] += size
        found.append(write_file(place / "closed", broker=broker, number=number, lines=lines))
    return found


def feed(files: list[Path], sources: list[Path], *, pause: float, over: threading.Event) -> None:
    """Bring the files to the sources in no order: copies, halves that become whole, and some while they are open. Ends
    early when it is `over`."""
    numbers = random.Random(SEED)
    cut = []
    for turn, path in enumerate(numbers.sample(files, len(files))):
        places = numbers.sample(sources, numbers.choice((1, 1, 2, 3)))
        for place in places:
            if turn % 4 == 1:
                (place / path.name).write_bytes(path.read_bytes()[: path.stat().st_size // 2])
                cut.append((path, place))
            elif turn % 4 == 2 and place.name != "stream":
                name = path.name.replace(".ndjson.gz", ".open.ndjson.gz")
                (place / name).write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
                cut.append((path, place))
            else:
                bring(path, place)
        if over.wait(pause):
            return
    for path, place in numbers.sample(cut, len(cut)):
        bring(path, place)
        (place / path.name.replace(".ndjson.gz", ".open.ndjson.gz")).unlink(missing_ok=True)
        if over.wait(pause):
            return


def bring(path: Path, place: Path) -> None:
    """At once, as a rename does it."""
    beside = place / f".{path.name}"
    shutil.copy(path, beside)
    beside.replace(place / path.name)


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = session_in(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


def lines_there(spark: SparkSession, tables: Path) -> dict[tuple[int, int], int]:
    """The bytes of every line that the tables have now."""
    rows = Tables(spark, str(tables)).traffic.groupBy("broker", "line_tick").agg(F.sum("record_bytes").alias("bytes"))
    return {(row.broker, row.line_tick): row.bytes for row in rows.collect()}


def test_nothing_is_lost_or_twice_and_nobody_sees_half(spark: SparkSession, tmp_path: Path) -> None:
    told = Told(Counter(), Counter(), {})
    files = [path for broker in BROKERS for path in journal(tmp_path, broker, told)]
    sources = [tmp_path / name for name in ("one", "two", "stream")]
    for source in sources:
        source.mkdir()
        bring(files[0], source)
    tables = tmp_path / "tables"
    workers = [Worker(tmp_path, "stream" if place.name == "stream" else "ingest", place, tables) for place in sources]
    over = threading.Event()
    feeding = threading.Thread(target=feed, args=(files, sources), kwargs={"pause": 4.0, "over": over})
    feeding.start()
    try:
        before: set[tuple[int, int]] = set()
        numbers = random.Random(SEED)
        # Each of them, the stream as well, is killed once by itself and once with its JVM.
        kills = [(worker, with_jvm) for worker in workers for with_jvm in (False, True)]
        for worker, with_jvm in numbers.sample(kills, len(kills)):
            time.sleep(numbers.uniform(0, LONGEST_SECONDS))
            worker.kill(with_jvm=with_jvm)
            # What is read right now are whole lines, and all that were there before.
            there = lines_there(spark, tables)
            worker.start()
            assert there.items() <= told.by_line.items()
            assert before <= there.keys()
            before = set(there)
        feeding.join()
        (tmp_path / "stop").touch()
        assert [worker.process.wait(240) for worker in workers] == [0, 0, 0]
        for worker in workers:
            log = worker.log.read_text("utf-8")
            assert log.endswith("exit status 0\n"), log[-3000:]
    finally:
        over.set()
        for worker in workers:
            worker.kill(with_jvm=True)
        feeding.join()
    found = Tables(spark, str(tables))
    assert lines_there(spark, tables) == told.by_line
    seconds = found.seconds.groupBy("broker", "time").agg(F.sum("record_bytes").alias("bytes")).collect()
    assert {(row.broker, row.time): row.bytes for row in seconds} == told.by_second
    partitions = found.traffic.groupBy("broker", "partition").agg(F.sum("record_bytes").alias("bytes")).collect()
    assert {(row.broker, row.partition): row.bytes for row in partitions} == told.by_partition
    assert found.quarantine.count() == 0
    assert {row.state: row["count"] for row in found.files.groupBy("state").count().collect()} == {"whole": len(files)}
    opened = found.events.where("kind = 'file_opened'").groupBy("file").count().collect()
    assert {row.file: row["count"] for row in opened} == {path.name: 1 for path in files}


def test_a_reader_beside_compactions_sees_each_line_once(spark: SparkSession, tmp_path: Path) -> None:
    """In a process of its own, an ingest of one file after the other, and after each all files put together. What was
    opened before the first of them still says the same after the last."""
    told = Told(Counter(), Counter(), {})
    (first, second, *files) = [path for broker in BROKERS for path in journal(tmp_path, broker, told)]
    place, tables = tmp_path / "compactor", tmp_path / "tables"
    place.mkdir()
    for path in (first, second):
        ingest(spark, [str(path)], str(tables))
    opened = Tables(spark, str(tables)).table("lines").select("broker", "tick")
    before = sorted(opened.collect())
    command = [sys.executable, "-c", COMPACTOR, str(place), str(tables), *map(str, files)]
    compactor = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    reads = []
    try:
        while compactor.poll() is None:
            there = lines_there(spark, tables)
            assert there.items() <= told.by_line.items()
            assert len(there) >= (reads[-1] if reads else len(before))
            reads.append(len(there))
    finally:
        compactor.kill()
        compactor.wait()
    assert compactor.returncode == 0
    assert lines_there(spark, tables) == told.by_line
    assert sorted(opened.collect()) == before
    done = DeltaTable.forPath(spark, str(tables / "lines")).history().where("operation = 'OPTIMIZE'").collect()
    assert len(done) == len(files)
    assert len(set(reads)) > len(files) // 2

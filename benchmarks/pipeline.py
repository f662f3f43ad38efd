"""How the pipeline's jobs grow: journals of known truth at several sizes, `ingest` and `audit` of each.

`python -m benchmarks.pipeline` prints a table. Each job is a process of its own, started as a person starts it, so that
its peak is its own; what its tasks took and shuffled is in Spark's event log. Whether the answers are the generated
truth is checked: a job that loses lines is not fast.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from pipeline.generate import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROWS = (1_000_000, 5_000_000, 10_000_000)
"""A row is a second of a partition, at one end."""
PARTITIONS_PER_BROKER = 10
SECONDS = 5000
"""Of traffic, at every size: there are more brokers, not more hours."""
ROWS_PER_BROKER = 2 * PARTITIONS_PER_BROKER * SECONDS
MB = 1_000_000
KIB = 1024
LOOK_SECONDS = 0.1


class Tasks(NamedTuple):
    """What Spark's event log says of all tasks together."""

    shuffled_bytes: int
    spilled_bytes: int


class Machine(NamedTuple):
    """What the driver's JVM took, which in local mode is the only one."""

    cpu_seconds: float
    """Of all its threads: whatever else the machine does meanwhile is not in it."""
    peak_bytes: int
    """Resident."""


@dataclass(frozen=True, slots=True)
class Cost:
    job: str
    rows: int
    lines: int
    seconds: float
    """From start to end, with the JVM's."""
    machine: Machine
    tasks: Tasks

    @property
    def rows_per_core_second(self) -> float:
        return self.rows / self.machine.cpu_seconds

    def microseconds_per_row_beyond(self, smaller: Cost | None) -> float | None:
        """CPU of each row that the smaller one did not have: if that stays, cost grows as the rows do."""
        if smaller is None:
            return None
        more = self.machine.cpu_seconds - smaller.machine.cpu_seconds
        return 1e6 * more / (self.rows - smaller.rows)


def cluster_of(rows: int) -> Cluster:
    """The cluster whose journals have so many rows. Raises ValueError if there is none."""
    brokers, rest = divmod(rows, ROWS_PER_BROKER)
    if rest:
        raise ValueError(f"expected a multiple of {ROWS_PER_BROKER} rows, found {rows}")
    return Cluster(brokers=brokers, partitions=PARTITIONS_PER_BROKER * brokers, seconds=SECONDS)


def run(
    job: str, arguments: Sequence[str], folder: Path, *, cores: int, memory: str
) -> tuple[str, float, Machine, Tasks]:
    """Run a job to its end; return what it printed, the seconds, and what its JVM and its tasks took.

    Raises RuntimeError, with the end of what it said, if it fails.
    """
    events = folder / "events"
    shutil.rmtree(events, ignore_errors=True)
    events.mkdir(parents=True)
    settings = {
        "spark.driver.memory": memory, "spark.local.dir": str(folder / "spark"),
        "spark.ui.showConsoleProgress": "false", "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(), "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }  # fmt: skip
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    command = [sys.executable, "-m", "pipeline", job, *arguments, "--master", f"local[{cores}]", *options]
    said = folder / f"{job}.stderr"
    began = time.monotonic()
    with said.open("wb") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        watch = _Watch(process.pid)
        printed, _ = process.communicate()
    took = time.monotonic() - began
    if process.returncode:
        raise RuntimeError(f"{job}: exit status {process.returncode}\n{said.read_text('utf-8')[-2000:]}")
    return printed, took, watch.end(), _tasks(events)


class _Watch:
    """Looks at the JVM below a process again and again: once it has ended nobody can ask."""

    def __init__(self, pid: int) -> None:
        self._pid, self._seen = pid, Machine(0.0, 0)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> Machine:
        self._thread.join()
        return self._seen

    def _run(self) -> None:
        with suppress(psutil.NoSuchProcess):
            parent = psutil.Process(self._pid)
            while parent.is_running() and parent.status() != psutil.STATUS_ZOMBIE:
                for child in parent.children(recursive=True):
                    self._look(child)
                time.sleep(LOOK_SECONDS)

    def _look(self, child: psutil.Process) -> None:
        with suppress(psutil.NoSuchProcess, OSError):
            if child.name() != "java":
                return
            status = dict(
                line.split(":", 1) for line in Path(f"/proc/{child.pid}/status").read_text("utf-8").splitlines()
            )
            if "VmHWM" not in status:  # it has just ended
                return
            times, peak = child.cpu_times(), int(status["VmHWM"].split()[0]) * KIB
            cpu = max(self._seen.cpu_seconds, times.user + times.system)
            self._seen = Machine(cpu, max(self._seen.peak_bytes, peak))


def _tasks(events: Path) -> Tasks:
    shuffled = spilled = 0
    for event in _task_ends(events):
        metrics = event.get("Task Metrics") or {}
        shuffled += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
        spilled += metrics["Disk Bytes Spilled"]
    return Tasks(shuffled, spilled)


def _task_ends(events: Path) -> Iterator[dict[str, Any]]:
    for path in events.iterdir():
        with path.open(encoding="utf-8") as log:
            for line in log:
                if line.startswith('{"Event":"SparkListenerTaskEnd"'):
                    yield json.loads(line)


def measure(rows: int, folder: Path, *, cores: int, memory: str) -> list[Cost]:
    """Generate, ingest and audit so many rows below `folder`. Raises RuntimeError if what comes out is not true."""
    cluster = cluster_of(rows)
    journal, tables = folder / "journal", folder / "tables"
    size = ["--brokers", str(cluster.brokers), "--partitions", str(cluster.partitions),
            "--hours", str(SECONDS / 3600), "--files", str(cluster.brokers)]  # fmt: skip
    generated = f"{cluster.lines} lines of traffic, {rows} seconds of partitions"
    jobs = {
        "generate": ([str(journal), *size], generated),
        "ingest": ([str(journal), "--into", str(tables)], "lines: {lines}, of them set aside: 0"),
        "audit": ([str(tables), "--out", str(folder / "audit"), "--format", "json"], "worst windows over the bound:"),
    }
    costs = []
    for job, (arguments, expected) in jobs.items():
        printed, took, machine, tasks = run(job, arguments, folder, cores=cores, memory=memory)
        # Each file has a last line that says how many are before it.
        files = len(list(journal.glob("journal-*")))
        told = expected.format(lines=cluster.lines + 2 * cluster.brokers + files)
        if told not in printed:
            raise RuntimeError(f"{job}: expected {told!r}, found {printed!r}")
        costs.append(Cost(job, rows, cluster.lines, took, machine, tasks))
    verdicts = [json.loads(line) for part in (folder / "audit").glob("part-*.json") for line in part.open()]
    if len(verdicts) != 2 * cluster.brokers or not all(one["kept"] and one["seconds"] == SECONDS for one in verdicts):
        raise RuntimeError(f"audit: expected {2 * cluster.brokers} roles that kept the bound, found {verdicts}")
    return costs


HEAD = (
    "| job | rows | lines | seconds | CPU | rows/s of a core | each further row | JVM's peak | shuffled | spilled |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


def row(cost: Cost, smaller: Cost | None) -> str:
    further = cost.microseconds_per_row_beyond(smaller)
    return (
        f"| {cost.job} | {cost.rows:,} | {cost.lines:,} | {cost.seconds:.0f} | {cost.machine.cpu_seconds:.0f} s"
        f" | {cost.rows_per_core_second:,.0f} | {'' if further is None else f'{further:.1f} µs'}"
        f" | {cost.machine.peak_bytes / MB:.0f} MB | {cost.tasks.shuffled_bytes / MB:.1f} MB"
        f" | {cost.tasks.spilled_bytes / MB:.0f} MB |"
    ).replace(",", " ")


def main() -> None:
    """Entry point of `python -m benchmarks.pipeline`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=lambda text: int(float(text)), nargs="+", default=ROWS, help="such as 1e6 5e7")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--memory", default="2g", help="heap of the driver, which in local mode does it all")
    parser.add_argument("--folder", type=Path, default=Path("build/pipeline"), help="needs some 12 bytes a row")
    options = parser.parse_args()
    smaller: dict[str, Cost] = {}
    print(HEAD)
    for rows in options.rows:
        shutil.rmtree(options.folder, ignore_errors=True)
        options.folder.mkdir(parents=True)
        for cost in measure(rows, options.folder.resolve(), cores=options.cores, memory=options.memory):
            print(row(cost, smaller.get(cost.job)), flush=True)
            smaller[cost.job] = cost
        shutil.rmtree(options.folder)


if __name__ == "__main__":
    main()

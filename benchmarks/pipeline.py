"""Growth of the pipeline's jobs: journals of known truth at several sizes, every job on each.

`python -m benchmarks.pipeline` prints a table. Each job is a process of its own, started as a person starts it, so that
its peak of memory is its own. What its tasks took and shuffled is in Spark's event log. Answers are compared with the
generated truth: a job that loses lines does not count as fast.
"""

from __future__ import annotations

import argparse
import csv
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

from lab.host.processes import dies_with_us
from pipeline.journals.generate import BYTES_PER_MESSAGE, FIRST_BROKER, START_SECONDS, Cluster
from pipeline.tables.scope import moment_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

ROWS = (100_000, 1_000_000, 10_000_000)
"""A row is a second of a partition, at one end."""
PARTITIONS_PER_BROKER = 10
SECONDS = 2500
"""The seconds of traffic, at every size: there are more brokers, not more hours."""
ROWS_PER_BROKER = 2 * PARTITIONS_PER_BROKER * SECONDS
MB = 1_000_000
KIB = 1024
LOOK_SECONDS = 0.1
MARK = ".made-by-benchmarks-pipeline"
"""A file in each folder that this benchmark made, and so may remove."""


class Tasks(NamedTuple):
    """The sums over all tasks in Spark's event log."""

    read_bytes: int
    """The bytes of the files."""
    shuffled_bytes: int
    spilled_bytes: int


class Machine(NamedTuple):
    """The resources that the driver's JVM used, which in local mode is the only one."""

    cpu_seconds: float
    """The CPU time of all its threads; whatever else the machine does meanwhile is not in it."""
    peak_bytes: int
    """Resident."""


@dataclass(frozen=True, slots=True)
class Cost:
    job: str
    rows: int
    lines: int
    seconds: float
    """The time from start to end, with the JVM's."""
    machine: Machine
    tasks: Tasks

    @property
    def rows_per_core_second(self) -> float:
        return self.rows / self.machine.cpu_seconds

    def microseconds_per_row_beyond(self, smaller: Cost | None) -> float | None:
        """Return the CPU for each row that the smaller run did not have.

        If this stays the same from size to size, cost grows as the rows do.
        """
        if smaller is None:
            return None
        more = self.machine.cpu_seconds - smaller.machine.cpu_seconds
        return 1e6 * more / (self.rows - smaller.rows)


def cluster_of(rows: int) -> Cluster:
    """Return the cluster whose journals have so many rows. Raises ValueError if there is none."""
    brokers, rest = divmod(rows, ROWS_PER_BROKER)
    if rest or brokers < 1:
        raise ValueError(f"expected a multiple of {ROWS_PER_BROKER} rows, found {rows}")
    return Cluster(brokers=brokers, partitions=PARTITIONS_PER_BROKER * brokers, seconds=SECONDS)


def run(
    job: str, arguments: Sequence[str], folder: Path, *, cores: int, memory: str, statuses: Collection[int] = (0,)
) -> tuple[str, float, Machine, Tasks]:
    """Run a job to its end; return what it printed, the seconds, and what its JVM and its tasks took.

    Raises RuntimeError, with the end of what it said, if it ends with none of `statuses`.
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
        process = subprocess.Popen([*dies_with_us(), *command], stdout=subprocess.PIPE, stderr=errors, text=True)
        watch = _Watch(process.pid)
        printed, _ = process.communicate()
    took = time.monotonic() - began
    if process.returncode not in statuses:
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
    read = shuffled = spilled = 0
    for event in _task_ends(events):
        metrics = event["Task Metrics"]
        read += metrics["Input Metrics"]["Bytes Read"]
        shuffled += metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"]
        spilled += metrics["Disk Bytes Spilled"]
    return Tasks(read, shuffled, spilled)


def _task_ends(events: Path) -> Iterator[dict[str, Any]]:
    for path in events.iterdir():
        with path.open(encoding="utf-8") as log:
            for line in log:
                if line.startswith('{"Event":"SparkListenerTaskEnd"'):
                    yield json.loads(line)


class Job(NamedTuple):
    """arguments: `{tables}`, `{journal}` and `{folder}` are filled in. says: what its output must have in it."""

    arguments: str
    says: str = ""


TEN = "--leader " + " --leader ".join(f"{rate}MB/s" for rate in range(1, 11))
AT = START_SECONDS + SECONDS // 2
JOBS = {
    "rates": Job("rates {tables} --out {folder}/rates --format csv"),
    "audit": Job("audit {tables} --out {folder}/audit --format json", "worst windows over the bound:"),
    "audit of 10 min, 1 broker": Job(
        f"audit {{tables}} --since {moment_text(AT - 300)} --until {moment_text(AT + 300)} --broker {FIRST_BROKER}",
        "kept",
    ),
    "lag": Job("lag {tables} --history --out {folder}/lag --format csv"),
    "moves": Job("moves {tables} --out {folder}/moves --format csv"),
    "replay, ten quotas": Job(f"replay {{tables}} --model fluid {TEN} --out {{folder}}/replay --format csv"),
    "ask what-happened": Job(f"ask what-happened {{tables}} --at {moment_text(AT)}", "Nothing out of the ordinary"),
    "ask who-was-starved": Job("ask who-was-starved {tables}", "Nobody"),
    "ask will-it-finish": Job("ask will-it-finish {tables}", "Yes, in"),
    "report": Job("report {tables} --out {folder}/report.html --json {folder}/report.json", "Yes, the bound was kept"),
    "stream": Job("stream {journal} --into {folder}/live --once"),
    "summarise": Job("summarise {tables}", "times_behind:"),
}
KEPT = ", days kept"
"""How the names of jobs end that come after `summarise`."""
JOBS |= {f"{name}{KEPT}": JOBS[name] for name in ("lag", "moves", "ask will-it-finish", "report")}
"""What is asked of the generated truth, which is in the tables when they begin."""


def measure(
    rows: int, folder: Path, *, cores: int, memory: str, jobs: Sequence[str], made: bool = False
) -> Iterator[Cost]:
    """Generate, ingest and do `jobs` on so many rows below `folder`. made: generated and ingested before.

    Raises RuntimeError if what comes out is not true.
    """
    cluster = cluster_of(rows)
    places = {"tables": folder / "tables", "journal": folder / "journal", "folder": folder}
    # Each file has a last line that says how many are before it, and each broker tells two quotas.
    lines = cluster.lines + 2 * cluster.brokers + cluster.brokers + 1
    first = {
        "generate": Job(
            f"generate {{journal}} --brokers {cluster.brokers} --partitions {cluster.partitions}"
            f" --hours {SECONDS / 3600} --files {cluster.brokers}",
            f"{cluster.lines} lines of traffic, {rows} seconds of partitions",
        ),
        "ingest": Job("ingest {journal} --into {tables}", f"lines: {lines}, of them set aside: 0"),
    }
    wanted = ({} if made else first) | {name: JOBS[name] for name in jobs}
    for name, job in wanted.items():
        arguments = [part.format(**places) for part in job.arguments.split()]
        printed, took, machine, tasks = run(arguments[0], arguments[1:], folder, cores=cores, memory=memory)
        if job.says not in printed:
            raise RuntimeError(f"{name}: expected {job.says!r}, found {printed!r}")
        _check(name, cluster, folder)
        yield Cost(name, rows, cluster.lines, took, machine, tasks)


def _check(name: str, cluster: Cluster, folder: Path) -> None:
    """Check a job's result. Raises RuntimeError if it is not what was generated."""
    roles, rows = 2 * cluster.brokers, cluster.rows
    name = name.removesuffix(KEPT)
    found: object
    expected: object
    if name == "audit":
        verdicts = [json.loads(line) for part in (folder / "audit").glob("part-*.json") for line in part.open()]
        found, expected = sum(one["kept"] and one["seconds"] == SECONDS for one in verdicts), roles
    elif name == "rates":
        found, expected = sum(int(row["record_bytes"]) for row in _table(folder / name)), _moved(cluster)
    elif name == "lag":
        last = [row for row in _table(folder / name) if int(row["time"]) == START_SECONDS + SECONDS - 1]
        found, expected = len({(row["broker"], row["role"]) for row in last}), roles
    elif name == "moves":
        moves = list(_table(folder / name))
        found = (len(moves), sum(int(row["bytes"]) for row in moves))
        expected = (cluster.partitions, _moved(cluster) // 2)
    elif name == "replay, ten quotas":
        found, expected = len(list(_table(folder / "replay"))), 10 * cluster.brokers
    elif name == "report":
        links = json.loads((folder / "report.json").read_text("utf-8"))["links"]
        found, expected = sum(link["bytes"] for link in links), _moved(cluster) // 2
    else:
        return
    if found != expected:
        raise RuntimeError(f"{name}, of {rows} rows: expected {expected}, found {found}")


def _moved(cluster: Cluster) -> int:
    """Record bytes, at both ends."""
    each = sum(cluster.messages_per_second(partition) for partition in range(cluster.partitions))
    return 2 * each * BYTES_PER_MESSAGE * cluster.seconds


def _table(folder: Path) -> Iterator[dict[str, str]]:
    for part in folder.glob("part-*.csv"):
        with part.open(encoding="utf-8", newline="") as text:
            yield from csv.DictReader(text)


HEAD = (
    "| job | rows | lines | seconds | CPU | rows/s of a core | each further row | JVM's peak | read | shuffled"
    " | shuffled a row | spilled |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
)


def row(cost: Cost, smaller: Cost | None) -> str:
    further = cost.microseconds_per_row_beyond(smaller)
    return (
        f"| {cost.job} | {cost.rows:,} | {cost.lines:,} | {cost.seconds:.0f} | {cost.machine.cpu_seconds:.0f} s"
        f" | {cost.rows_per_core_second:,.0f} | {'' if further is None else f'{further:.1f} µs'}"
        f" | {cost.machine.peak_bytes / MB:.0f} MB | {cost.tasks.read_bytes / MB:.1f} MB"
        f" | {cost.tasks.shuffled_bytes / MB:.1f} MB | {cost.tasks.shuffled_bytes / cost.rows:.1f} B"
        f" | {cost.tasks.spilled_bytes / MB:.0f} MB |"
    ).replace(",", " ")


def own_folder(folder: Path, *, kept: bool) -> None:
    """Make an empty folder with the mark of this benchmark, which removes it with all that is in it; or take one it
    kept.

    Raises:
        ValueError: it is somebody else's.
    """
    is_own = (folder / MARK).exists()
    if kept and not is_own:
        raise ValueError(f"expected a folder that a run with --keep left, found {folder}")
    if not is_own and folder.exists() and any(folder.iterdir()):
        raise ValueError(f"expected an empty folder, or one that this benchmark made, found others' files in {folder}")
    if not kept:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / MARK).touch()


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the arguments; a wrong one is reported before anything is removed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=lambda text: int(float(text)), nargs="+", default=ROWS, help="such as 1e6 5e7")
    parser.add_argument("--jobs", nargs="*", choices=list(JOBS), default=list(JOBS), help="besides generate and ingest")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--memory", default="2g", help="heap of the driver, which in local mode does it all")
    parser.add_argument("--folder", type=Path, default=Path("build/pipeline"), help="needs some 12 bytes a row")
    parser.add_argument("--keep", action="store_true", help="leave the tables there, for a run with more --jobs")
    parser.add_argument("--kept", action="store_true", help="begin with those that a run with --keep left")
    options = parser.parse_args(arguments)
    if (options.keep or options.kept) and len(options.rows) > 1:
        parser.error("--keep and --kept: expected one --rows")
    try:
        for rows in options.rows:
            cluster_of(rows)
        own_folder(options.folder, kept=options.kept)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark: the entry point of `python -m benchmarks.pipeline`."""
    options = options_of(arguments)
    smaller: dict[str, Cost] = {}
    print(HEAD)
    for rows in options.rows:
        own_folder(options.folder, kept=options.kept)
        folder = options.folder.resolve()
        settings = {"cores": options.cores, "memory": options.memory, "jobs": options.jobs, "made": options.kept}
        for cost in measure(rows, folder, **settings):
            print(row(cost, smaller.get(cost.job)), flush=True)
            smaller[cost.job] = cost
        if not options.keep:
            shutil.rmtree(options.folder)


if __name__ == "__main__":
    main()

"""Growth of the pipeline's jobs: journals of known truth at several sizes, every job and every question on each.

`python -m benchmarks.pipeline` writes the journals (without Spark: 10^7 rows in ten seconds), does each job, and prints
a table of all results so far, which build/pipeline.json keeps: of a job at a size the last one. Each job is a process
of its own, started as a person starts it, so that its peak of memory is its own. What its tasks took and shuffled is in
Spark's event log. Answers are compared with the generated truth: a job that loses lines does not count as fast.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from lab.host.processes import dies_with_us
from pipeline.tables.scope import moment_text

from .results import BUILD, keep, kept
from .ring import BYTES_PER_MESSAGE, FIRST_BROKER, START_SECONDS, Cluster, write

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
FOLDER, RESULTS = BUILD / "pipeline", BUILD / "pipeline.json"


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
    seconds: float
    """The time from start to end, with the JVM's."""
    cpu_seconds: float
    peak_bytes: int
    read_bytes: int
    shuffled_bytes: int
    spilled_bytes: int

    @property
    def shuffled_bytes_per_row(self) -> float:
        return self.shuffled_bytes / self.rows

    def __str__(self) -> str:
        return (
            f"{self.job}, {self.rows:,} rows: {self.seconds:.0f} s, {self.cpu_seconds:.0f} s of CPU,"
            f" JVM's peak {self.peak_bytes / MB:.0f} MB, read {self.read_bytes / MB:.1f} MB,"
            f" shuffled {self.shuffled_bytes_per_row:.1f} B a row, spilled {self.spilled_bytes / MB:.0f} MB"
        )


def cluster_of(rows: int) -> Cluster:
    """Return the cluster whose journals have so many rows. Raises ValueError if there is none."""
    brokers, rest = divmod(rows, ROWS_PER_BROKER)
    if rest or brokers < 1:
        raise ValueError(f"expected a multiple of {ROWS_PER_BROKER} rows, found {rows}")
    return Cluster(brokers=brokers, partitions=PARTITIONS_PER_BROKER * brokers, seconds=SECONDS)


def run(
    name: str,
    arguments: Sequence[str],
    folder: Path,
    *,
    rows: int,
    cores: int,
    memory: str,
    statuses: Collection[int] = (0,),
) -> tuple[str, Cost]:
    """Run a job of the pipeline to its end; return what it printed, and its cost, which is that of `name`.

    folder: for what Spark writes besides.

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
    command = [sys.executable, "-m", "pipeline", *arguments, "--master", f"local[{cores}]", *options]
    said = folder / "stderr"
    began = time.monotonic()
    with said.open("wb") as errors:
        process = subprocess.Popen([*dies_with_us(), *command], stdout=subprocess.PIPE, stderr=errors, text=True)
        watch = _Watch(process.pid)
        printed, _ = process.communicate()
    took = time.monotonic() - began
    if process.returncode not in statuses:
        raise RuntimeError(f"{name}: exit status {process.returncode}\n{said.read_text('utf-8')[-2000:]}")
    return printed, Cost(name, rows, took, *watch.end(), *_tasks(events))


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
    """A command of the pipeline. arguments: `{tables}`, `{journal}` and `{out}`, a folder, are filled in. says: what
    its output must have in it."""

    arguments: str
    says: str = ""
    statuses: tuple[int, ...] = (0,)


TEN = "--leader " + " --leader ".join(f"{rate}MB/s" for rate in range(1, 11))
AT = START_SECONDS + SECONDS // 2
KEPT = ", days kept"
"""How the names of jobs end that come after `summarise`."""
INGEST = "ingest"
JOBS = {
    INGEST: Job("ingest {journal} --into {tables}", ", of them set aside: 0"),
    "ingest, nothing new": Job("ingest {journal} --into {tables}", "files: none; unchanged: "),
    "stream": Job("stream {journal} --into {out}/live --once"),
    "rates": Job("rates {tables} --out {out}/rates --format csv"),
    "audit": Job("audit {tables} --out {out}/audit --format json", "worst windows over the bound:"),
    "audit of 10 min, 1 broker": Job(
        f"audit {{tables}} --since {moment_text(AT - 300)} --until {moment_text(AT + 300)} --broker {FIRST_BROKER}",
        "kept",
    ),
    "lag": Job("lag {tables} --history --out {out}/lag --format csv"),
    "moves": Job("moves {tables} --out {out}/moves --format csv"),
    "replay, ten quotas": Job(f"replay {{tables}} {TEN} --out {{out}}/replay --format csv"),
    "ask was-it-kept": Job("ask was-it-kept {tables}", "Yes"),
    "ask will-it-finish": Job("ask will-it-finish {tables}", "Yes, in"),
    "ask what-rate": Job("ask what-rate {tables}"),
    "ask what-happened": Job(f"ask what-happened {{tables}} --at {moment_text(AT)}", "Nothing out of the ordinary"),
    "ask who-was-starved": Job("ask who-was-starved {tables}", "Nobody"),
    "ask which-move-hurt": Job("ask which-move-hurt {tables}"),
    "ask who-keeps-falling-behind": Job("ask who-keeps-falling-behind {tables}"),
    "ask who-never-catches-up": Job("ask who-never-catches-up {tables}"),
    "ask how-long-under-replicated": Job("ask how-long-under-replicated {tables}"),
    "ask what-did-it-cost": Job("ask what-did-it-cost {tables}", statuses=(0, 4)),
    "report": Job("report {tables} --out {out}/report.html --json {out}/report.json", "Yes, the bound was kept"),
    "compact": Job("compact {tables}", "lines"),
    "summarise": Job("summarise {tables}", "times_behind:"),
}
JOBS |= {f"{name}{KEPT}": JOBS[name] for name in ("lag", "moves", "ask will-it-finish", "report")}


def measure(rows: int, jobs: Sequence[str], *, cores: int, memory: str) -> Iterator[Cost]:
    """Do `jobs` on so many rows. Without `ingest` among them, they read the tables that it wrote the last time.

    Raises RuntimeError if what comes out is not true.
    """
    cluster, folder = cluster_of(rows), FOLDER / str(rows)
    tables, journal = folder / "tables", folder / "journal"
    if INGEST in jobs:
        shutil.rmtree(folder, ignore_errors=True)
        write(cluster, journal)
    for name in jobs:
        job = JOBS[name]
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            out = Path(scratch)
            arguments = job.arguments.format(tables=tables, journal=journal, out=out).split()
            printed, cost = run(name, arguments, out, rows=rows, cores=cores, memory=memory, statuses=job.statuses)
            if job.says not in printed:
                raise RuntimeError(f"{name}: expected {job.says!r}, found {printed!r}")
            _check(name.removesuffix(KEPT), printed, cluster, out)
        yield cost


def _check(name: str, printed: str, cluster: Cluster, out: Path) -> None:
    """Check a job's result. Raises RuntimeError if it is not what the journals say."""
    roles, rows = 2 * cluster.brokers, cluster.rows
    found: object
    expected: object
    if name == INGEST:
        found, expected = f"lines: {cluster.lines}," in printed, True
    elif name == "audit":
        verdicts = [json.loads(line) for part in (out / "audit").glob("part-*.json") for line in part.open()]
        found, expected = sum(one["kept"] and one["seconds"] == SECONDS for one in verdicts), roles
    elif name == "rates":
        found, expected = sum(int(row["record_bytes"]) for row in _table(out / name)), _moved(cluster)
    elif name == "lag":
        last = [row for row in _table(out / name) if int(row["time"]) == START_SECONDS + SECONDS - 1]
        found, expected = len({(row["broker"], row["role"]) for row in last}), roles
    elif name == "moves":
        moves = list(_table(out / name))
        found = (len(moves), sum(int(row["bytes"]) for row in moves))
        expected = (cluster.partitions, _moved(cluster) // 2)
    elif name == "replay, ten quotas":
        found, expected = len(list(_table(out / "replay"))), 10 * cluster.brokers
    elif name == "report":
        links = json.loads((out / "report.json").read_text("utf-8"))["links"]
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


def table(costs: Sequence[Cost]) -> Iterator[str]:
    """Yield the lines of a Markdown table: a row for each job, with its sizes from the smallest to the largest, and the
    CPU for each row that the largest had more than the smallest. Of a job at a size the last cost counts."""
    last = {(cost.job, cost.rows): cost for cost in costs}
    sizes = sorted({rows for _, rows in last})
    yield f"Of {', '.join(f'{size:_}'.replace('_', ' ') for size in sizes)} rows:\n"
    yield "| job | CPU, s | µs a further row | shuffled, B a row | JVM's peak, MB |"
    yield "|---|---|---|---|---|"
    for job in JOBS:
        own = [last[job, size] for size in sizes if (job, size) in last]
        if own:
            yield _row(job, own)


def _row(job: str, own: Sequence[Cost]) -> str:
    least, most = own[0], own[-1]
    further = ""
    if most.rows > least.rows:
        further = f"{1e6 * (most.cpu_seconds - least.cpu_seconds) / (most.rows - least.rows):.1f}"
    columns = (
        " / ".join(f"{cost.cpu_seconds:.0f}" for cost in own),
        further,
        " / ".join(f"{cost.shuffled_bytes_per_row:.1f}" for cost in own),
        " / ".join(f"{cost.peak_bytes / MB:.0f}" for cost in own),
    )
    return f"| {job} | {' | '.join(columns)} |"


def options_of(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=lambda text: int(float(text)), nargs="+", default=ROWS, help="such as 1e6 5e7")
    parser.add_argument(
        "--jobs", nargs="*", choices=list(JOBS), default=list(JOBS),
        help="which; without ingest, on the tables that are there. None: only print the table",
    )  # fmt: skip
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--memory", default="2g", help="heap of the driver, which in local mode does it all")
    options = parser.parse_args(arguments)
    for rows in options.rows:
        try:
            cluster_of(rows)
        except ValueError as error:
            parser.error(str(error))
        if options.jobs and INGEST not in options.jobs and not (FOLDER / str(rows) / "tables").is_dir():
            parser.error(f"no tables of {rows} rows yet: expected {INGEST} among --jobs")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark: the entry point of `python -m benchmarks.pipeline`."""
    options = options_of(arguments)
    for rows in options.rows:
        for cost in measure(rows, options.jobs, cores=options.cores, memory=options.memory):
            print(cost, file=sys.stderr, flush=True)
            keep(RESULTS, asdict(cost))
    print("\n".join(table([Cost(**one) for one in kept(RESULTS, "run it with --jobs")])))


if __name__ == "__main__":
    main()

"""The pipeline on a Spark cluster: a standalone master and two workers, met by spark-submit as docs/pipeline.md says.

What only a cluster shows: code that has to be shipped, plans and rows that are serialised, paths that every process
has to understand, and Python on executors.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import zipfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyspark
import pytest

from benchmarks.ring import Cluster, write
from lab.host.processes import dies_with_us
from pipeline.jars import jars
from tests.system.printed_tables import role_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.system, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
CLUSTER = Cluster(brokers=2, partitions=4, seconds=60)
SHIPPED = ("admission", "journal_schema", "pipeline", "reassignment")
START_SECONDS = 60.0


class Master(NamedTuple):
    address: str
    folder: Path
    """Where its workers keep what executors say."""


def environ() -> dict[str, str]:
    """Workers know Spark and Python, not the project: its folders must not be found by chance."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


@contextmanager
def running(name: str, *arguments: str, folder: Path, says: str) -> Iterator[Path]:
    """A process of Spark's own, from when its log says so; yields the log."""
    log = folder / f"{name}.log"
    with log.open("wb") as sink:
        command = [*dies_with_us(), str(SPARK / "bin" / "spark-class"), *arguments]
        process = subprocess.Popen(command, stdout=sink, stderr=sink, cwd=folder, env=environ())
    try:
        deadline = time.monotonic() + START_SECONDS
        while says not in log.read_text("utf-8"):
            alive = process.poll() is None and time.monotonic() < deadline
            assert alive, log.read_text("utf-8")[-2000:]
            time.sleep(0.1)
        yield log
    finally:
        process.terminate()
        try:
            process.wait(20)
        finally:  # whoever does not listen is ended all the same
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Master]:
    """A master with two workers of one core each."""
    folder = tmp_path_factory.mktemp("spark-cluster")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    address = f"spark://127.0.0.1:{port}"
    package = "org.apache.spark.deploy"
    with ExitStack() as stack:
        there = ("--host", "127.0.0.1", "--webui-port", "0")
        stack.enter_context(
            running(
                "master", f"{package}.master.Master", *there, "--port", port, folder=folder, says="I have been elected"
            )
        )
        for name in ("one", "two"):
            own = ("--cores", "1", "--memory", "700m", "--work-dir", str(folder / name), address)
            stack.enter_context(
                running(name, f"{package}.worker.Worker", *there, *own, folder=folder, says="registered with master")
            )
        yield Master(address, folder)


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What executors get."""
    path = tmp_path_factory.mktemp("code") / "code.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for source in (source for package in SHIPPED for source in (ROOT / package).rglob("*")):
            if source.suffix != ".pyc":
                archive.write(source, source.relative_to(ROOT))
    return path


def submit(master: Master, code: Path, folder: Path, *arguments: str) -> str:
    """Run a job from a folder that is not the project's; return what it printed."""
    entry = folder / "main.py"
    entry.write_text((ROOT / "pipeline" / "__main__.py").read_text("utf-8"), "utf-8")
    command = [
        str(SPARK / "bin" / "spark-submit"), "--master", master.address, "--py-files", str(code),
        "--jars", ",".join(jars()),
        "--conf", "spark.executor.memory=500m", "--conf", "spark.driver.memory=700m",
        "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.sql.shuffle.partitions=2", str(entry), *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd=folder, env=environ())
    # spark-submit prints what Python says, errors too, on its own standard output.
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_two_workers_do_what_one_process_does(master: Master, code: Path, tmp_path: Path) -> None:
    """Both take part, and what they answer is the generated truth."""
    journal, tables = f"file://{tmp_path}/journal", f"file://{tmp_path}/tables"
    write(CLUSTER, tmp_path / "journal")
    ingested = submit(master, code, tmp_path, "ingest", journal, "--into", tables)
    assert f"lines: {CLUSTER.lines}, of them set aside: 0" in ingested
    audited = submit(master, code, tmp_path, "audit", tables)
    assert role_rows(audited, ("broker", "role", "worst_11s", "kept")) == [
        (broker, role, "1.000", "True") for broker in ("101", "102") for role in ("follower", "leader")
    ]
    replayed = submit(master, code, tmp_path, "replay", "--flow", "1:2:20MB", "--leader", "1MB/s")
    assert round(float(replayed.split()[-1])) == 20
    executors = {path.parent.parent.parent.name for path in master.folder.glob("*/app-*/*/stderr")}
    assert executors == {"one", "two"}

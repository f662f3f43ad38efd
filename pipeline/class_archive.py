"""An archive of the JVM's classes: a session starts some seconds sooner where there is one (class data sharing).

Spark and Delta Lake load some twenty thousand classes. Read from jars, each is parsed and verified at every start; an
archive is mapped into memory. Run as a program (`python -m pipeline.class_archive`, a part of `make setup`) it makes
one of 200 MB, by running a small session; it stands in the Python environment whose jars it is of, and goes with it.
Invariant: nothing depends on it. A JVM that finds other jars, or is another one than made it, passes it over.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""A JVM that passes an archive over says so, and one that makes it names each class that it cannot keep."""


def path() -> Path:
    """Return where the archive is, or will be: it is of the jars of one PySpark, by their paths."""
    return Path(sys.prefix) / "pipeline-classes.jsa"


def options() -> str:
    """Return the JVM's options that use the archive; none without one."""
    found = path()
    return f"-XX:SharedArchiveFile={found} {_QUIET}" if found.exists() else ""


def make() -> str | None:
    """Make the archive anew; return why that failed, None if it did not."""
    wanted = path()
    scratch = wanted.with_suffix(".new")
    command = [sys.executable, "-c", _PROGRAM, f"-XX:ArchiveClassesAtExit={scratch} {_QUIET}"]
    # Its output ends when the JVM does, which writes the archive after the session's end.
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not scratch.exists():
        return f"{wanted}: not made, so sessions start more slowly: {done.stderr[-400:]}"
    scratch.replace(wanted)
    return None


_PROGRAM = """
import sys, tempfile
from pyspark.sql import functions as F
from pipeline.session import open_session
from pipeline.tables import delta
from pipeline.tables.storage import Storage
spark = open_session("classes", master="local[2]", conf={"spark.driver.defaultJavaOptions": sys.argv[1]})
with tempfile.TemporaryDirectory() as folder:
    storage, path = Storage(spark, folder), f"{folder}/table"
    rows = spark.range(100).selectExpr("id", "id % 3 as broker", "string(id) as text", "array(id) as list")
    rows.write.json(f"{folder}/text")
    rows = spark.read.schema(rows.schema).json(f"{folder}/text")
    delta.create(spark, path, rows.schema, ("broker",))
    delta.insert_new(spark, path, rows, identity=["id"], where=lambda _: F.lit(True))
    delta.append(path, rows)
    found = delta.read(spark, storage, path)
    found.groupBy("broker").agg(F.collect_list("text"), F.min_by("list", F.struct("id"))).collect()
    spark.read.format("binaryFile").load(f"{folder}/text").count()
spark.stop()
"""

if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m pipeline.class_archive",
        description=f"Make an archive of the JVM's classes, with which sessions start sooner: {path()}",
    ).parse_args()
    why = make()
    if why:
        sys.stderr.write(f"warning: {why}\n")

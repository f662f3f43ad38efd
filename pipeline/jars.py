"""Delta Lake's jars, which PySpark does not bring: fetched once into a cache, found there ever after.

Run as a program (`python -m pipeline.jars`, a part of `make setup`) it fetches them, by Spark's own client of Maven
repositories; a session then starts without network. Invariant: a folder under the final name is complete, because it
appears there by one rename.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from .errors import InputError

ARTIFACTS = ("delta-spark_{spark}_2.13", "delta-storage")
FOLDER_VARIABLE = "PIPELINE_JARS"
_MAX_OUTPUT_CHARACTERS = 400
"""Characters."""


def folder() -> Path | None:
    """Return where the jars are, or will be: $PIPELINE_JARS, else below the user's cache. None if the variable is
    empty: then Spark has them on its class path, as in the pipeline's image."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named is not None:
        return Path(named) if named else None
    root = os.environ.get("XDG_CACHE_HOME")
    cache = Path(root) if root else Path.home() / ".cache"
    return cache / "kafka-throttle-sidecar" / f"delta-{version('delta-spark')}-spark-{_spark()}"


def jars() -> list[str]:
    """Return the paths of the jars, having fetched them if they are not there. Raises InputError."""
    place = folder()
    if place is None:
        return []
    if not place.is_dir():
        fetch(place)
    return sorted(str(path) for path in place.glob("*.jar"))


def fetch(place: Path) -> None:
    """Fetch the jars into a folder that is not there yet. Raises InputError."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=place.parent) as scratch:
        command = [sys.executable, "-c", _PROGRAM, scratch, *_coordinates()]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = list(Path(scratch, "jars").glob("*.jar"))
        if len(found) != len(ARTIFACTS):
            said = done.stderr.strip() or f"found {len(found)} jars"
            raise InputError(
                f"{place}: Delta Lake's jars are not there, and could not be fetched from Maven Central:"
                f" {said[-_MAX_OUTPUT_CHARACTERS:]}\nexpected there: {' and '.join(_coordinates())};"
                f" `python -m pipeline.jars` fetches them where there is a network,"
                f" ${FOLDER_VARIABLE} names another folder"
            )
        filled = Path(scratch, "filled")
        filled.mkdir()
        for jar in found:
            shutil.move(jar, filled)
        try:
            filled.rename(place)
        except OSError:
            # Somebody else was faster. Their folder is as complete as ours.
            if not place.is_dir():
                raise


def _coordinates() -> list[str]:
    return [f"io.delta:{name.format(spark=_spark())}:{version('delta-spark')}" for name in ARTIFACTS]


def _spark() -> str:
    return ".".join(version("pyspark").split(".")[:2])


_PROGRAM = """
import sys
from pyspark.sql import SparkSession
scratch, *coordinates = sys.argv[1:]
settings = {"spark.jars.ivy": scratch, "spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
for one in coordinates:
    spark.sql(f"ADD JAR 'ivy://{one}?transitive=false'")
spark.stop()
"""
"""The program that fetches them, in a process of its own: the session that is wanted gets its jars when its JVM
starts."""

if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m pipeline.jars",
        description=f"Fetch Delta Lake's jars from Maven Central, unless they are there: into ${FOLDER_VARIABLE}, or a "
        "folder of the user's cache.",
    ).parse_args()
    try:
        jars()
    except InputError as error:
        sys.exit(f"error: {error}")

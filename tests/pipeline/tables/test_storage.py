"""Where files are: by Hadoop's rules, whatever the working directory and the scheme that was left out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.tables import Tables
from pipeline.tables.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_relative_path_is_one_place_and_keeps_its_name(spark: SparkSession) -> None:
    """Delta Lake takes `tables/lines` for a table's name, and only an absolute path for a path."""
    found = Storage(spark, "some/tables")
    assert (found.named, found.root) == ("some/tables", f"file:{Path.cwd()}/some/tables")
    again = Tables(spark, "some/tables").reaching_back(1).storage
    assert (again.named, again.root) == (found.named, found.root)


def test_a_path_without_scheme_is_on_the_default_file_system(spark: SparkSession, tmp_path: Path) -> None:
    """Else writers would take turns by a lock on this machine, and leave a folder here, for tables on HDFS."""
    configuration = spark._jsc.hadoopConfiguration()
    before = configuration.get("fs.defaultFS")
    configuration.set("fs.defaultFS", "viewfs://cluster/")
    configuration.set("fs.viewfs.mounttable.cluster.link./lake", tmp_path.as_uri())
    try:
        assert Storage(spark, "/lake/tables").root == "viewfs://cluster/lake/tables"
    finally:
        configuration.set("fs.defaultFS", before)

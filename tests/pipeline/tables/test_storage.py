"""Where files are: by Hadoop's rules, whatever the working directory and the scheme that was left out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline.errors import InputError
from pipeline.journals.ingest import ingest
from pipeline.tables import Tables
from pipeline.tables.storage import Storage
from tests.pipeline.journal_files import FIRST, traffic_line, write_file
from tests.pipeline.journals.flaky import SCHEME, flaky, object_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_relative_path_is_one_place_and_keeps_its_name(spark: SparkSession) -> None:
    """Delta Lake takes `tables/lines` for a table's name, and only an absolute path for a path."""
    found = Storage(spark, "some/tables")
    assert (found.named, found.root) == ("some/tables", f"file:{Path.cwd()}/some/tables")
    again = Tables(spark, "some/tables").reaching_back(1).storage
    assert (again.named, again.root) == (found.named, found.root)


def test_folders_are_listed_here_and_through_hadoop_alike(spark: SparkSession, tmp_path: Path) -> None:
    """Names that mean something as patterns, or in a list of Java's; a file is in itself."""
    folder = tmp_path / "a, {b} +1%"
    (folder / "c, d").mkdir(parents=True)
    for name in ("journal-1.gz", "journal-2, x.gz", "note"):
        (folder / name).write_text("two")
    flaky(spark)
    storage, found = Storage(spark, str(tmp_path)), []
    for root in ("file:", f"{SCHEME}:", object_store(spark)):
        (path,) = storage.matching(f"{root}{folder}")
        files, folders = storage.entries(path)
        assert storage.entries(files[0]) == ([files[0]], [])
        assert storage.stat(files[0]) == (3, Path(files[0].removeprefix(root)).stat().st_mtime_ns // 10**6)
        assert storage.entries(f"{path}/gone") == ([], [])
        found.append(tuple(sorted(one.removeprefix(root) for one in part) for part in (files, folders)))
    assert found[0] == found[1] == found[2]
    assert [len(part) for part in found[0]] == [3, 1]
    assert storage.folder_modified(f"file:{folder}") == folder.stat().st_mtime_ns
    assert storage.folder_modified(f"{SCHEME}:{folder}") is None


def test_what_is_still_there_was_not_removed(spark: SparkSession, tmp_path: Path) -> None:
    """Of a local file that may not be removed Hadoop says no more than false; nobody may remove one of the kernel's."""
    storage = Storage(spark, str(tmp_path))
    (tmp_path / "there").touch()
    storage.remove(f"file:{tmp_path}/there")
    assert not (tmp_path / "there").exists()
    storage.remove(f"file:{tmp_path}/there")
    with pytest.raises(InputError, match=r"^/proc/version: cannot be removed"):
        storage.remove("file:/proc/version")


def test_a_path_without_scheme_is_on_the_default_file_system(spark: SparkSession, tmp_path: Path) -> None:
    """Else writers would take turns by a lock on this machine, and leave a folder here, for tables on HDFS."""
    configuration = spark._jsc.hadoopConfiguration()
    before = configuration.get("fs.defaultFS")
    configuration.set("fs.defaultFS", "viewfs://cluster/")
    configuration.set("fs.viewfs.mounttable.cluster.link./lake", tmp_path.as_uri())
    try:
        assert Storage(spark, "/lake/tables").root == "viewfs://cluster/lake/tables"
        write_file(tmp_path / "journal", lines=[traffic_line(FIRST)])
        assert ingest(spark, ["/lake/journal"], "/lake/tables").files == {"whole": 1}
        assert {path.name for path in tmp_path.iterdir()} == {"journal", "tables"}
        assert not [path.name for path in (tmp_path / "tables").iterdir() if path.suffix == ".lock"]
        assert not Path("/lake").exists()
    finally:
        configuration.set("fs.defaultFS", before)
